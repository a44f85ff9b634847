// exec/internal/ward_message.h — what a warden and its clients say to each other: frames of four
// bytes of length (little endian) and a JSON object. A client's first request is the greeting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "exec/wards.h"

namespace falaj::exec::internal {

constexpr std::size_t kFrameBytesMax = 1u << 20;
constexpr std::size_t kDetailBytesMax = 1024;  // Of a WardEnd: it may quote a whole argv.
// Changed whenever one side would misunderstand the other.
constexpr std::int64_t kWardVersion = 3;

enum class WardOp : std::uint8_t {
  kGreet,    // token, version
  kStart,    // id, spec
  kStop,     // id
  kList,     // id: only those behind it. `more` in the reply: ask again behind the last.
  kGet,      // id
  kCurve,    // id
  kForget,   // id
  kDismiss,  //
};

struct WardRequest {
  std::int64_t number = 1;  // Comes back in the reply. From 1.
  WardOp op = WardOp::kGreet;
  std::int64_t version = 0;
  std::string token;
  std::string id;
  WardSpec spec;
  bool operator==(const WardRequest&) const = default;
};

struct WardReply {
  std::int64_t number = 0;     // 0: nobody asked; `changed` names a ward.
  std::optional<Error> error;  // Then nothing else counts.
  std::string changed;
  std::int64_t version = 0;
  std::vector<Ward> wards;
  bool more = false;
  std::vector<WardUsage> curve;
  bool operator==(const WardReply&) const = default;
};

// Cuts a stream of bytes into frames. Not thread-safe.
class FrameReader {
 public:
  void feed(std::string_view bytes) { bytes_.append(bytes); }
  // The next frame's body, or nothing yet. kInvalidArgument when one is over the limit: hang up.
  Result<std::optional<std::string>> next();

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};
// `body` is at most kFrameBytesMax long.
std::string frame_of(std::string_view body);

std::string to_text(const WardRequest& request);
std::string to_text(const WardReply& reply);
// kInvalidArgument (or a more exact id) naming what is wrong. Whatever is accepted is within the
// bounds of exec/wards.h.
Result<WardRequest> parse_request(std::string_view text);
Result<WardReply> parse_reply(std::string_view text);

Value value_of(const WardEnd& end);
Result<WardEnd> parse_end(const Value& value);
Value value_of(const std::vector<std::string>& texts);

// What it takes in a reply's text, with what separates it from the next.
std::size_t text_bytes(const Ward& ward);
// At most so many bytes; what is cut is still UTF-8.
std::string shortened(std::string_view text, std::size_t bytes_max);

Status check_ward_id(std::string_view id);

}  // namespace falaj::exec::internal
