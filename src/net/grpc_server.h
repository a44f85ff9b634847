// net/grpc_server.h — gRPC calls over HTTP/2 (nghttp2, hidden): one event loop, a bounded pool,
// limits on everything a client controls. TLS is that of the HTTP server: 1.3 only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/answered.h"
#include "net/http.h"
#include "net/router.h"
#include "net/tls_options.h"
#include "telemetry/metrics.h"

namespace falaj::net {

// Called once, on any thread, at once or later.
using GrpcReply = std::function<void(Result<std::string>)>;

// A method is declared as a route is: it cannot be made without a permission and a target. The
// server asks the gate for them before `answer` runs, for every message.
struct GrpcMethod {
  // kUnary: one message in, one out. kStream: each message in is answered by one message out, in
  // order, until the client has sent its last.
  enum class Kind : std::uint8_t { kUnary, kStream };
  // Answers one message; begun on a thread of the pool, where it may block. `request` has the
  // call's metadata as headers, its peer, ids and deadline, and lives until the reply; `message`
  // only during the call. The n-th message of a stream has the call's request id followed by "-n".
  // `request.gone` tells when the caller has left. An error ends the call with the status of its
  // class (grpc_status) and its text.
  using Answer = std::function<void(Request& request, std::string_view message, GrpcReply reply)>;

  // `path`: "/inference.GRPCInferenceService/ModelInfer".
  GrpcMethod(std::string_view path, Kind k, Permission permission, Target target,
             std::string_view summary, Answer a)
      : declared(Method::kPost, path, std::move(permission), std::move(target), summary, nullptr),
        kind(k),
        answer(std::move(a)) {}

  // What the gate is asked: `unnamed` when there is one and the message did not name what the
  // target's parameter stands for, else `declared`.
  const Route& asked(const Request& request) const;

  Route declared;  // Has no handler.
  Kind kind;
  Answer answer;
  // Reads into request.params, which is empty, what the target's parameters stand for. Runs before
  // anybody knows who asks: reads no more of the message than that. A target with a parameter
  // needs it.
  std::function<Status(Request& request, std::string_view message)> name;
  std::optional<Route> unnamed;
  // How a refusal of `name` or of the gate is told: a message, or the error that ends the call.
  // Without it, the refusal ends the call.
  std::function<Result<std::string>(const Request& request, const Error& refusal)> refused;
};

// What the server does with one message: names, asks the gate, answers. Replies once.
void answer_message(const GrpcMethod& method, const Gate& gate, Request& request,
                    std::string_view message, const GrpcReply& reply);

struct GrpcOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one, see port().
  int listening = -1;      // As ServerOptions::listening.
  ServerTls tls;
  unsigned pool_threads = 8;
  std::size_t pool_queue_max = 1024;
  std::size_t connections_max = 1000;
  std::size_t calls_max = 256;                // Open at once on one connection.
  std::size_t metadata_bytes_max = 16 << 10;  // Of one call.
  std::size_t message_bytes_max = 64 << 20;   // Of one message, unpacked.
  // Of messages that are still coming or wait, in all; one connection may have half of it, and one
  // message in any case. When it is full, messages that are still coming give way to others: first
  // those of calls that the gate has not let through yet, the oldest first (http2/unfinished.h).
  std::size_t buffered_bytes_max = 256 << 20;
  Duration handshake_timeout = Duration::seconds(10);
  // From the call's head to its first message, from one message to the end of the next once that
  // has begun, and between two moments at which the client takes some of its answer.
  Duration message_timeout = Duration::minutes(5);
  Duration idle_timeout = Duration::minutes(30);  // Without a call; clients connect again.
  std::vector<std::string> allowed_hosts;         // As of the HTTP server.
  OnAnswered on_answered;                         // One a call; empty: nobody is told.
};

// The status of a class: kNotFound → 5.
int grpc_status(Code code);

// The header grpc-timeout ("100m": a tenth of a second), or nullopt when it is none.
std::optional<Duration> parse_grpc_timeout(std::string_view text);

class GrpcServer {
 public:
  // Listens before it returns. FJ-8007 when the port is taken; FJ-7003 when `host` is not loopback
  // and there is no TLS. `metrics` outlives the server. Stops the process when there is no gate, or
  // a method's declaration is none (as Router::add), or its target is named by nothing.
  static Result<std::unique_ptr<GrpcServer>> start(const GrpcOptions& options,
                                                   std::vector<GrpcMethod> methods, Gate gate,
                                                   telemetry::Metrics& metrics);
  virtual ~GrpcServer() = default;  // Drains first.
  virtual std::uint16_t port() const = 0;
  // As Server::renew.
  virtual Status renew(const TlsIdentity& identity) = 0;
  // As Server::keep_listening.
  virtual Result<int> keep_listening() const = 0;
  // Stops accepting, tells clients to go elsewhere with further calls (GOAWAY), lets running calls
  // finish up to `limit`. Idempotent.
  virtual void drain(Duration limit) = 0;
};

}  // namespace falaj::net
