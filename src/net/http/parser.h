// net/http/parser.h — incremental HTTP/1.1 parsing (Boost.Beast, hidden), strict where laxness lets
// two servers disagree about where a request ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/client.h"
#include "net/http.h"

namespace falaj::net {

enum class ParseState : std::uint8_t {
  kNeedMore,      // Everything usable was consumed; give more bytes together with the rest.
  kHeadDone,      // The head is complete; a body follows on the next put.
  kDone,          // The message is complete.
  kMalformed,     // 400 and close.
  kHeadTooLarge,  // 431 and close.
  kBodyTooLarge,  // 413 and close; also for over 65,536 chunks of less than 256 bytes each.
};

struct ParseStep {
  ParseState state = ParseState::kNeedMore;
  std::size_t consumed = 0;
};

// What the head says beside what goes into Request.
struct RequestHead {
  std::string target;
  bool method_known = false;
  bool keep_alive = false;
  bool expects_continue = false;
  bool expects_other = false;  // An Expect that nobody defined: 417.
  bool chunked = false;
  int version = 11;  // Or 10; anything else is malformed.
  int host_headers = 0;
  std::optional<std::uint64_t> content_length;
};

// One message at a time; begin() starts the next. Not thread-safe. Keeps no bytes of its own: the
// caller keeps what was not consumed. Refuses: Content-Length together with Transfer-Encoding, a
// repeated Content-Length, any Transfer-Encoding but one plain "chunked", Transfer-Encoding in
// HTTP/1.0. Trailers are checked and dropped.
class RequestParser {
 public:
  explicit RequestParser(std::size_t head_bytes_max);
  ~RequestParser();

  // `request` gets method, headers and body and outlives the parse.
  void begin(Request& request);
  // Stops after the head (kHeadDone, or kDone when there is no body).
  ParseStep put_head(std::string_view bytes);
  // Appends to request.body. At most `body_max` bytes in all.
  ParseStep put_body(std::string_view bytes, std::uint64_t body_max);
  const RequestHead& head() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The other direction, for the client. A 1xx reply is skipped by the caller with begin().
class ReplyParser {
 public:
  ReplyParser();
  ~ReplyParser();

  enum class Body : std::uint8_t { kExpected, kNone };  // kNone: the reply to HEAD.
  void begin(ClientReply& reply, Body body);
  // Appends to reply.body; at most `body_max` bytes in all. Stops once after the head (kHeadDone).
  ParseStep put(std::string_view bytes, std::uint64_t body_max);
  // The peer closed: kDone when that ends the body, else kMalformed.
  ParseState end();
  bool keep_alive() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::net
