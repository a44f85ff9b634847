// Whatever arrives: no crash, bounded, and what is accepted means the same when written again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "exec/internal/ward_message.h"

namespace {

using namespace falaj::exec::internal;

template <class Message>
void check_round_trip(const falaj::Result<Message>& message,
                      falaj::Result<Message> (*parse)(std::string_view)) {
  if (!message.ok()) return;
  const std::string written = to_text(*message);
  const falaj::Result<Message> again = parse(written);
  FALAJ_CHECK(again.ok() && *again == *message);
  FALAJ_CHECK(to_text(*again) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_round_trip(parse_request(bytes), parse_request);
  check_round_trip(parse_reply(bytes), parse_reply);
  FrameReader frames;
  frames.feed(bytes.substr(0, size / 2));
  frames.feed(bytes.substr(size / 2));
  for (auto next = frames.next(); next.ok() && *next; next = frames.next()) {
    FALAJ_CHECK((*next)->size() <= kFrameBytesMax);
    check_round_trip(parse_request(**next), parse_request);
  }
  return 0;
}
