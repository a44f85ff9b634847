// gRPC's frames under libFuzzer: any bytes, in parts of any size, give messages within the limit or
// an error, and the same ones whatever the parts.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "net/grpc_server.h"
#include "net/http2/messages.h"

namespace {

using namespace falaj::net;

std::vector<std::string> read_all(std::string_view bytes, std::size_t part, Coding coding) {
  constexpr std::size_t kMax = 1 << 16;
  MessageReader reader(kMax);
  std::vector<std::string> messages;
  while (true) {
    reader.add(bytes.substr(0, part));
    bytes.remove_prefix(std::min(part, bytes.size()));
    while (true) {
      auto next = reader.next(coding);
      if (!next.ok()) return messages;
      if (!next->has_value()) break;
      const auto plain = unpack(std::move(**next), coding, kMax);
      if (!plain.ok()) return messages;
      if (plain->size() > kMax) std::abort();
      messages.push_back(*plain);
    }
    if (bytes.empty()) return messages;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Coding coding = static_cast<Coding>(data[0] % 3);
  const auto whole = read_all(bytes, bytes.size() + 1, coding);
  if (read_all(bytes, data[1] % 32 + 1, coding) != whole) std::abort();
  static_cast<void>(parse_grpc_timeout(bytes.substr(0, 12)));
  for (const char c : percent_encode(bytes)) {
    if (c < 0x20 || c > 0x7E) std::abort();
  }
  return 0;
}
