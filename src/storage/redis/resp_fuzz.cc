// Fuzz target: any bytes as what a Redis server sends. However they are cut they mean the same, and
// nothing is kept beyond the limits.
//
// A fault aborts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "storage/redis/connection.h"
#include "storage/redis/resp.h"
#include "storage/redis/url.h"

namespace {

using namespace falaj::storage::redis;

const RespLimits kLimits{2'048, 8'192};

std::size_t bytes_of(const RespValue& value) {
  std::size_t bytes = value.text.size();
  for (const RespValue& item : value.items) bytes += bytes_of(item);
  return bytes;
}

void show(const RespValue& value, std::string& out) {
  out += std::to_string(static_cast<int>(value.kind)) + "," + std::to_string(value.number) + "," +
         std::to_string(value.text.size()) + ":" + value.text + "[";
  for (const RespValue& item : value.items) show(item, out);
  out += "]";
}

// All replies in the bytes, written out, and how it ended.
std::string read_in_steps(std::string_view bytes, std::size_t step) {
  std::string out;
  std::string pending;
  RespTree tree(kLimits);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    pending += bytes.substr(at, step);
    while (true) {
      const auto token = parse_token(pending, kLimits);
      if (!token.ok()) return out + "refused";
      if (!token->has_value()) break;
      FALAJ_CHECK((*token)->size > 0 && (*token)->size <= pending.size());
      const auto state = tree.put(**token);
      if (!state.ok()) return out + "refused";
      pending.erase(0, (*token)->size);
      if (*state != RespTree::State::kDone) continue;
      const RespValue value = tree.take();
      FALAJ_CHECK(bytes_of(value) <= kLimits.reply_bytes_max);
      show(value, out);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_in_steps(bytes, bytes.size() + 1);
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}}) {
    FALAJ_CHECK(read_in_steps(bytes, step) == whole);
  }
  const falaj::Error error = reply_error(bytes, "here");
  for (const char c : error.message) FALAJ_CHECK(c >= ' ' && c <= '~');
  FALAJ_CHECK(Connection::info_field(bytes, "a").size() <= size);
  const auto url = parse_url(bytes);
  if (url.ok()) FALAJ_CHECK(parse_url(url->shown()).ok());
  return 0;
}
