#include "net/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <future>
#include <random>

#include "base/log.h"
#include "net/http/connection.h"
#include "net/http/core.h"
#include "net/internal/address.h"

namespace falaj::net {
namespace {

constexpr Duration kDestructorLimit = Duration::seconds(1);
constexpr int kAcceptedAtOnce = 64;

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";

// Takes new connections on the first loop and deals them out in turn: with few clients every loop
// gets its share, which the kernel's hashing would not promise.
class Acceptor final : public Pollable, public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(ServerCore& core, std::vector<std::shared_ptr<LoopState>>& loops)
      : core_(core), loops_(loops) {}

  void begin(std::unique_ptr<Watch> watch) {
    watch_ = std::move(watch);
    watch_->wait_readable();
  }
  void stop() { watch_.reset(); }
  // After the process ran out of descriptors: tries again.
  void retry() {
    if (std::exchange(starved_, false)) on_readable();
  }

  void on_readable() override {
    if (watch_ == nullptr) return;
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int socket = ::accept4(watch_->descriptor(), reinterpret_cast<sockaddr*>(&address),
                                   &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket >= 0) {
        take(socket, address_text(address));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        core_.series.refused(Refusal::kDescriptors);
        starved_ = true;  // Nothing new will be told: retry() looks again.
        return;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return watch_->wait_readable();
      }
    }
    // There may be more: after the others had their turn.
    loops_.front()->loop->post([self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->on_readable();
    });
  }
  void on_writable() override {}

 private:
  void take(int socket, std::string peer) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bool room = false;
    {
      MutexLock lock(core_.mutex);
      room = core_.open_connections < core_.options.connections_max;
      if (room) ++core_.open_connections;
    }
    if (!room) {
      core_.series.refused(Refusal::kConnections);
      if (!core_.is_tls) ::send(socket, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL);
      ::shutdown(socket, SHUT_WR);
      ::close(socket);
      return;
    }
    const std::shared_ptr<LoopState>& loop = loops_[next_++ % loops_.size()];
    if (loop == loops_.front()) return open_connection(core_, *loop, socket, std::move(peer));
    loop->loop->post([&core = core_, loop, socket, peer = std::move(peer)]() mutable {
      open_connection(core, *loop, socket, std::move(peer));
    });
  }

  ServerCore& core_;
  std::vector<std::shared_ptr<LoopState>>& loops_;
  std::unique_ptr<Watch> watch_;
  std::size_t next_ = 0;
  bool starved_ = false;
};

void for_each_connection(LoopState& loop, const std::function<void(Connection&)>& call) {
  // Backwards: a connection that closes is replaced by the last one, which was seen already.
  for (std::size_t i = loop.connections.size(); i-- > 0;) {
    if (i >= loop.connections.size()) continue;
    const std::shared_ptr<Connection> connection = loop.connections[i];
    call(*connection);
  }
}

class HttpServer final : public Server {
 public:
  HttpServer(const ServerOptions& options, const Router& router, Gate gate,
             telemetry::Metrics& metrics)
      : core_(options, router, std::move(gate), metrics) {}

  ~HttpServer() override { drain(kDestructorLimit); }

  Status begin() {
    if (core_.is_tls) FALAJ_TRY(renew(core_.options.tls.identity));
    const int socket = FALAJ_TRY(
        take_over_or_listen(core_.options.listening, core_.options.host, core_.options.port));
    listening_ = socket;
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = address_port(address);
    core_.pool = std::make_unique<exec::Pool>(
        exec::PoolOptions{.name = "http",
                          .threads = std::max(core_.options.pool_threads, 1u),
                          .queue_max = core_.options.pool_queue_max});
    start_loops(socket);
    return {};
  }

  std::uint16_t port() const override { return port_; }

  Status renew(const TlsIdentity& identity) override {
    if (!core_.is_tls) return Error(Code::kFailedPrecondition, "this server speaks plain HTTP");
    ServerTls options = core_.options.tls;
    options.identity = identity;
    TlsContext made = FALAJ_TRY(make_server_tls(options));
    MutexLock lock(core_.mutex);
    core_.tls = std::move(made);
    return {};
  }

  Result<int> keep_listening() const override { return duplicate_listener(listening_); }

  void announce_drain(Duration limit) override {
    core_.announced = monotonic_nanos();
    wait_until_closed(limit);
  }

  void drain(Duration limit) override {
    MutexLock once(drain_mutex_);
    if (loops_.empty() || drained_) return;
    drained_ = true;
    core_.draining = true;
    stop_accepting();
    on_every_connection([](Connection& connection) { connection.begin_drain(); });
    if (core_.announced.load() != 0) {
      wait_until_closed(std::min(limit, core_.options.silence_max));
      on_every_connection([](Connection& connection) { connection.end_silence(); });
    }
    wait_until_closed(limit);
    core_.cut = true;
    on_every_connection([](Connection& connection) { connection.close(); });
    core_.pool->drain();
    for (const auto& loop : loops_) loop->loop->stop();
  }

 private:
  // When it returns nobody is taken any more, and who was is counted: one more would be dropped by
  // a drain that sees no connection.
  void stop_accepting() {
    const auto stopped = std::make_shared<std::promise<void>>();
    loops_.front()->loop->post([stopped, acceptor = acceptor_] {
      acceptor->stop();
      stopped->set_value();
    });
    stopped->get_future().wait();
  }

  void wait_until_closed(Duration limit) {
    MutexLock lock(core_.mutex);
    core_.all_closed.wait_for(
        core_.mutex, std::chrono::nanoseconds(limit.nanos),
        [this]() FALAJ_REQUIRES(core_.mutex) { return core_.open_connections == 0; });
  }

  void start_loops(int listening_socket) {
    std::random_device random;
    const unsigned count = std::max(core_.options.loop_threads, 1u);
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t seed = (std::uint64_t{random()} << 32) | random();
      loops_.push_back(std::make_shared<LoopState>(Loop::start(), seed));
    }
    acceptor_ = std::make_shared<Acceptor>(core_, loops_);
    const Duration interval = sweep_interval();
    for (const auto& loop : loops_) {
      loop->loop->every(interval, [state = loop.get()] {
        if (state->connections.empty()) return;
        const std::int64_t now = monotonic_nanos();
        for_each_connection(*state, [now](Connection& each) { each.sweep(now); });
      });
    }
    loops_.front()->loop->every(interval, [acceptor = acceptor_] { acceptor->retry(); });
    loops_.front()->loop->post(
        [loop = loops_.front()->loop.get(), acceptor = acceptor_, listening_socket] {
          acceptor->begin(loop->watch(listening_socket, acceptor));
        });
  }

  // Often enough that a limit is kept within a quarter of itself.
  Duration sweep_interval() const {
    const ServerOptions& o = core_.options;
    const Duration least = std::min({o.header_timeout, o.body_timeout, o.idle_timeout});
    return std::clamp(Duration{least.nanos / 4}, Duration::milliseconds(5), Duration::seconds(1));
  }

  // The loops live as long as this: a raw pointer keeps a loop from owning itself.
  void on_every_connection(const std::function<void(Connection&)>& call) {
    for (const auto& loop : loops_) {
      loop->loop->post([state = loop.get(), call] { for_each_connection(*state, call); });
    }
  }

  ServerCore core_;
  std::vector<std::shared_ptr<LoopState>> loops_;
  std::shared_ptr<Acceptor> acceptor_;
  std::uint16_t port_ = 0;
  int listening_ = -1;  // The acceptor's.
  Mutex drain_mutex_;
  bool drained_ FALAJ_GUARDED_BY(drain_mutex_) = false;
};

Status check_uploads(const ServerOptions& options, const Router& router) {
  const auto& routes = router.routes();
  const auto wants = std::find_if(routes.begin(), routes.end(), [](const auto& route) {
    return route->body_to == BodyTo::kFile;
  });
  if (wants == routes.end() || options.make_spool) return {};
  return Error(Code::kInvalidArgument,
               "route " + (*wants)->path + " takes large bodies: say where they go (make_spool)");
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, const Router& router,
                                              Gate gate, telemetry::Metrics& metrics) {
  if (options.tls.identity.chain_pem.empty() && !is_loopback_host(options.host)) {
    return Error(ErrorId::kUnsafeListen, "listening on " + options.host +
                                             " without TLS would send everything in the clear: " +
                                             "give a certificate and key, or listen on 127.0.0.1");
  }
  FALAJ_TRY(check_uploads(options, router));
  auto server = std::make_unique<HttpServer>(options, router, std::move(gate), metrics);
  FALAJ_TRY(server->begin());
  log::info("listening", {{"host", options.host}, {"port", server->port()}});
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace falaj::net
