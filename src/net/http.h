// net/http.h — an HTTP exchange in plain types. No networking library shows through.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "base/time.h"

namespace falaj::net {

using Headers = std::vector<std::pair<std::string, std::string>>;  // As received; names any case.

// The first header of that name, ignoring case; "" when absent.
std::string_view find_header(const Headers& headers, std::string_view name);

enum class Method : std::uint8_t { kGet, kHead, kPost, kPut, kPatch, kDelete, kOptions };
std::string_view method_name(Method method);

// What the gate found out about who asks. Its real type is security's business; see
// api/caller.h.
class Caller {
 public:
  virtual ~Caller() = default;
  // Bytes of the reply that the socket has taken. Called on the event loop; never blocks.
  virtual void sent(std::size_t bytes) const { static_cast<void>(bytes); }
};

struct Request {
  Method method = Method::kGet;
  std::string path;   // Decoded, without the query.
  std::string query;  // Raw, without '?'.
  Headers headers;
  std::string body;
  // When the route asked for it, the body went here instead (large uploads).
  std::shared_ptr<const ByteReader> body_file;
  std::map<std::string, std::string, std::less<>> params;  // From the route's {placeholders}.
  std::string request_id;   // X-Request-Id, taken over if well-formed, else made.
  std::string traceparent;  // W3C; made if absent.
  std::string peer;         // Address of the client.
  // Who the client's certificate says it is (net/tls_options.h); "" when none was shown.
  std::string tls_peer;
  std::string principal;                 // Who asks, e.g. "user:dev"; set by the gate.
  std::shared_ptr<const Caller> caller;  // Set by the gate as well; null before it ran.
  // Monotonic nanoseconds: when its head, or over gRPC its message, was there; and how long the
  // gate took.
  std::int64_t begun = 0;
  std::int64_t gate_nanos = 0;
  // When the client stops waiting, by its header X-Falaj-Timeout ("30s", at most a day).
  Timestamp deadline = Timestamp::max();
  // Seconds for the Retry-After header of a 429, if the gate gives one; 0: as usual for
  // the error.
  std::int64_t retry_after = 0;
  // True once the client is known to have left: what is not begun yet is not worth it. Null: nobody
  // looks.
  std::shared_ptr<const std::atomic<bool>> gone;

  // A query parameter, percent-decoded; nullopt when absent.
  std::optional<std::string> query_param(std::string_view name) const;
};

// A stream of server-sent events or chunks. Thread-safe; outlives the handler call.
class Stream {
 public:
  virtual ~Stream() = default;
  // False once the client has gone or the server drains: the producer stops.
  virtual bool send(std::string_view bytes) = 0;
  virtual bool open() const = 0;
  virtual void close() = 0;
};

struct Response {
  int status = 200;
  Headers headers;
  std::string content_type = "application/json";
  std::string body;
  // Bytes that live as long as the program (embedded console); used instead of body when set.
  std::string_view static_body;
  // When set, the reply is chunked and this gets the stream once the head was sent. Called on the
  // event loop: it keeps the stream and returns; a slow client is dropped past 1 MiB queued.
  std::function<void(std::shared_ptr<Stream>)> on_stream;
  std::optional<ErrorId> error;  // What the body says went wrong; for the log.

  static Response json(std::string body, int status = 200);
  static Response text(std::string body, int status = 200);
};

// Renders an error as RFC 9457 problem details with `code` FJ-NNNN.
Response problem(const Error& error, const Request& request);
// HTTP status of a class: kNotFound → 404 (one table, both ways).
int http_status(Code code);
// The same for one error: 413 for FJ-1009 (body too large), else the status of its class.
int http_status(const Error& error);
Code code_of_http_status(int status);

}  // namespace falaj::net
