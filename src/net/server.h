// net/server.h — the HTTP/1.1 server: a few event-loop threads, a bounded pool, limits on
// everything a client controls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "net/answered.h"
#include "net/router.h"
#include "net/tls_options.h"
#include "telemetry/metrics.h"

namespace falaj::net {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one, see port().
  // A socket that listens already, left by the server before this one; taken over. One that listens
  // elsewhere is closed and another made. -1: there is none.
  int listening = -1;
  ServerTls tls;  // TLS 1.3 only.
  unsigned loop_threads = 2;
  unsigned pool_threads = 8;
  std::size_t pool_queue_max = 1024;
  std::size_t connections_max = 12'000;
  std::size_t header_bytes_max = 16 << 10;
  Duration header_timeout = Duration::seconds(10);  // From the first byte: slow clients are cut.
  Duration body_timeout = Duration::minutes(5);
  Duration idle_timeout = Duration::seconds(75);
  // How long an announced drain waits for those who connected since and asked nothing yet.
  Duration silence_max = Duration::seconds(1);
  // Where bodies go for BodyTo::kFile; needed if a route asks for it. Called on pool threads.
  MakeSpool make_spool;
  // Host names answered besides loopback addresses and the listening host (DNS rebinding).
  // An Origin header must name the same host and port as Host, or the request is refused.
  std::vector<std::string> allowed_hosts;
  // Pages of these other origins may ask for predictions (CORS): routes of the inference dialect
  // and :predict. Their cookies are not looked at. See parse_origins().
  std::vector<std::string> cors_origins;
  // True when gate or handler would block on this request (a password to hash, a model to load):
  // then both run on the pool, wherever the route would run. Empty: never. Called on the event
  // loop, again once a large body is read: must not block itself.
  std::function<bool(const Request& request)> gate_blocks;
  OnAnswered on_answered;  // Empty: nobody is told.
};

// "https://app.example, http://localhost:3000". FJ-1006 names what is no origin; "*" is none.
Result<std::vector<std::string>> parse_origins(std::string_view text);

class Server {
 public:
  // Listens before it returns. FJ-8007 when the port is taken, naming it and the next step;
  // FJ-7003 when `host` is not loopback and there is no TLS. With TLS, shakes hands with itself
  // first: a 1.2 hello must fail and a 1.3 one succeed, whatever the system's settings say.
  // `router`, `metrics` outlive the server.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, const Router& router,
                                               Gate gate, telemetry::Metrics& metrics);
  virtual ~Server() = default;  // Drains first.
  virtual std::uint16_t port() const = 0;
  // Shows `identity` to connections made from now on; those that are open stay as they are.
  // kInvalidArgument, and the old one stays in use, when it cannot be used. Thread-safe.
  virtual Status renew(const TlsIdentity& identity) = 0;
  // A descriptor (close-on-exec; the caller's) that keeps listening when this server has stopped:
  // who connects meanwhile waits for the next server. Before drain().
  virtual Result<int> keep_listening() const = 0;
  // Goes on serving, and every answer says that its connection closes after it, so that clients
  // open others. Returns when none is open, or after `limit`. drain() then closes at once only
  // those that were silent since; those that came since may ask once.
  virtual void announce_drain(Duration limit) = 0;
  // Stops accepting, lets running requests finish up to `limit`, closes streams. Idempotent.
  virtual void drain(Duration limit) = 0;
};

}  // namespace falaj::net
