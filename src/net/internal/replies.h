// net/internal/replies.h — the replies that the server makes by itself.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "net/http.h"

namespace falaj::net {

// problem() with a status that the class alone does not give (408, 413, 431, 501 …).
Response problem_with_status(const Error& error, int status, const Request& request);

// The error in the dialect of a route: {"error": …} for "inference", feast_body() for "feast", else
// problem details.
Response error_reply(std::string_view dialect, const Error& error, int status,
                     const Request& request);

// "OK" for 200; "" for a status without a registered phrase.
std::string_view reason_phrase(int status);

// "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::time_t seconds);

// How the end of a reply's body is known to the client.
enum class Framing : std::uint8_t { kLength, kChunked, kUntilClose, kNone };
enum class AfterReply : std::uint8_t { kKeepAlive, kClose };

struct ReplyHead {
  const Response& response;
  const Request& request;  // For request_id, and traceparent when the client sent one.
  std::string_view date;
  std::size_t body_bytes = 0;
  Framing framing = Framing::kLength;
  AfterReply after = AfterReply::kKeepAlive;
};

// Appends status line, headers and the empty line. A header of the response that could split the
// reply (CR, LF, NUL) or that belongs to the server (Content-Length, Connection …) is left out.
// Headers that only concern pages (X-Frame-Options …) are left out of data: JSON and octet-stream.
// Cost: no allocation beyond the growth of `out`.
void append_reply_head(std::string& out, const ReplyHead& head);

}  // namespace falaj::net
