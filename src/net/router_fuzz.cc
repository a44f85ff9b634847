// Fuzz target: any bytes as a request target, decoded and routed, and as a request to the parser.
//
// A fault aborts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/http/parser.h"
#include "net/path.h"
#include "net/router.h"

namespace {

using namespace falaj::net;

const Router& sample_router() {
  static const Router* const router = [] {
    auto* made = new Router();
    const SyncHandler nothing = [](const Request&) { return Response{}; };
    for (const char* path : {"/", "/v2", "/v2/models/{m}", "/v2/models/{m}/versions/{v}/infer",
                             "/api/v1/deployments/{name}", "/api/v1/deployments/{name}:predict",
                             "/assets/{file...}", "/a/b/c", "/a/{x}/d", "/{any}/{thing}"}) {
      made->add(
          Route(Method::kGet, path, Permission::anyone(), Target::nothing(), "Sample.", nothing));
    }
    return made;
  }();
  return *router;
}

void fuzz_target(std::string_view bytes) {
  const auto target = parse_target(bytes);
  if (!target.ok()) return;
  const std::string& path = target.value().path;
  FALAJ_CHECK(path.starts_with('/'));
  FALAJ_CHECK(path.find('\0') == std::string::npos);
  FALAJ_CHECK((path + "/").find("/../") == std::string::npos);
  Request request;
  request.path = path;
  request.query = target.value().query;
  const Match match = sample_router().match(request);
  for (const auto& [name, value] : request.params) {
    FALAJ_CHECK(match.route != nullptr && !value.empty());
    FALAJ_CHECK(name == "file" || value.find('/') == std::string::npos);
  }
  (void)request.query_param("a");
}

// However a message is cut, it means the same: the property that smuggling breaks.
// Above every input: the limits depend on how a message is cut, its meaning must not.
constexpr std::size_t kHeadMax = 64 << 10;

struct Reading {
  ParseState state = ParseState::kNeedMore;
  std::size_t consumed = 0;
  std::string body;
};

Reading read_in_steps(std::string_view bytes, std::size_t step) {
  Reading reading;
  Request request;
  RequestParser parser(kHeadMax);
  parser.begin(request);
  std::string pending;
  bool in_body = false;
  for (std::size_t at = 0; at < bytes.size() && reading.state == ParseState::kNeedMore;
       at += step) {
    pending += bytes.substr(at, step);
    do {
      const ParseStep now = in_body ? parser.put_body(pending, kHeadMax) : parser.put_head(pending);
      FALAJ_CHECK(now.consumed <= pending.size());
      pending.erase(0, now.consumed);
      reading.consumed += now.consumed;
      reading.state = now.state;
      in_body = in_body || now.state == ParseState::kHeadDone;
    } while (reading.state == ParseState::kHeadDone);
  }
  reading.body = request.body;
  return reading;
}

void fuzz_parser(std::string_view bytes) {
  const Reading whole = read_in_steps(bytes, bytes.size() + 1);
  if (whole.state != ParseState::kDone) return;
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}}) {
    const Reading cut = read_in_steps(bytes, step);
    FALAJ_CHECK(cut.state == ParseState::kDone);
    FALAJ_CHECK(cut.consumed == whole.consumed && cut.body == whole.body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz_target(bytes);
  fuzz_parser(bytes);
  return 0;
}
