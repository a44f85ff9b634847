#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <random>

#include "base/check.h"
#include "base/log.h"
#include "net/http2/connection.h"
#include "net/internal/address.h"
#include "net/internal/demand.h"

namespace falaj::net {
namespace {

constexpr Duration kDestructorLimit = Duration::seconds(1);
constexpr int kAcceptedAtOnce = 64;
// How long clients are given to close after a farewell, so that no reset overtakes it.
constexpr Duration kFarewell = Duration::milliseconds(250);
constexpr Duration kSweepInterval = Duration::seconds(1);

using telemetry::MetricInfo;
using telemetry::MetricKind;
const MetricInfo kCalls{"falaj_grpc_calls_total",
                        "gRPC calls that ended, by method and status.",
                        MetricKind::kCounter,
                        {"method", "status"}};
const MetricInfo kSeconds{"falaj_grpc_call_seconds",
                          "From a gRPC call's head to the end of its answer, by method.",
                          MetricKind::kHistogram,
                          {"method"}};

class GrpcAcceptor final : public Pollable, public std::enable_shared_from_this<GrpcAcceptor> {
 public:
  explicit GrpcAcceptor(GrpcCore& core) : core_(core) {}

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
    for (int i = 0; watch_ != nullptr && i < kAcceptedAtOnce; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int socket = ::accept4(watch_->descriptor(), reinterpret_cast<sockaddr*>(&address),
                                   &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket >= 0) {
        take(socket, address_text(address));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return watch_->wait_readable();
      } else if (errno != EINTR && errno != ECONNABORTED) {
        starved_ = true;
        return;
      }
    }
    core_.loop->post([self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->on_readable();
    });
  }
  void on_writable() override {}

 private:
  void take(int socket, std::string peer) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    TlsSession session;
    {
      MutexLock lock(core_.mutex);
      const bool room = core_.open_connections < core_.options.connections_max;
      Result<TlsSession> made = TlsSession();
      if (room && core_.is_tls) made = accept_session(*core_.tls, socket);
      if (!room || !made.ok()) {
        ::close(socket);
        return;
      }
      session = std::move(made).value();
      ++core_.open_connections;
    }
    auto connection =
        std::make_shared<H2Connection>(core_, socket, std::move(peer), std::move(session));
    core_.connections.push_back(connection);
    connection->start();
  }

  GrpcCore& core_;
  std::unique_ptr<Watch> watch_;
  bool starved_ = false;
};

class H2Server final : public GrpcServer {
 public:
  H2Server(const GrpcOptions& options, std::vector<GrpcMethod> methods, Gate gate,
           telemetry::Metrics& metrics)
      : core_(options, std::move(methods), std::move(gate), metrics, std::random_device()()) {}
  ~H2Server() override { drain(kDestructorLimit); }

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
        exec::PoolOptions{.name = "grpc",
                          .threads = std::max(core_.options.pool_threads, 1u),
                          .queue_max = core_.options.pool_queue_max});
    core_.loop = Loop::start();
    acceptor_ = std::make_shared<GrpcAcceptor>(core_);
    core_.loop->every(kSweepInterval, [this, acceptor = acceptor_] {
      acceptor->retry();
      const std::int64_t now = monotonic_nanos();
      for_each([now](H2Connection& each) { each.sweep(now); });
    });
    core_.loop->post([this, acceptor = acceptor_, socket] {
      acceptor->begin(core_.loop->watch(socket, acceptor));
    });
    return {};
  }

  std::uint16_t port() const override { return port_; }

  Status renew(const TlsIdentity& identity) override {
    if (!core_.is_tls) return Error(Code::kFailedPrecondition, "this server speaks plain HTTP/2");
    ServerTls options = core_.options.tls;
    options.identity = identity;
    options.protocol = ServerTls::Protocol::kHttp2;
    TlsContext made = FALAJ_TRY(make_server_tls(options));
    MutexLock lock(core_.mutex);
    core_.tls = std::move(made);
    return {};
  }

  Result<int> keep_listening() const override { return duplicate_listener(listening_); }

  void drain(Duration limit) override {
    MutexLock once(drain_mutex_);
    if (core_.loop == nullptr || drained_) return;
    drained_ = true;
    core_.draining = true;
    // Until it is told another may be taken, and be dropped.
    const auto told = std::make_shared<std::promise<void>>();
    core_.loop->post([this, told, acceptor = acceptor_] {
      acceptor->stop();
      for_each([](H2Connection& each) { each.begin_drain(); });
      told->set_value();
    });
    told->get_future().wait();
    wait_until_closed(std::min(limit, kFarewell));
    core_.loop->post([this] { for_each([](H2Connection& each) { each.end_farewell(); }); });
    wait_until_closed(limit);
    core_.loop->post([this] { for_each([](H2Connection& each) { each.close(); }); });
    core_.pool->drain();
    core_.loop->stop();
  }

 private:
  void wait_until_closed(Duration limit) {
    MutexLock lock(core_.mutex);
    core_.all_closed.wait_for(
        core_.mutex, std::chrono::nanoseconds(limit.nanos),
        [this]() FALAJ_REQUIRES(core_.mutex) { return core_.open_connections == 0; });
  }

  void for_each(const std::function<void(H2Connection&)>& call) {
    for (std::size_t i = core_.connections.size(); i-- > 0;) {
      if (i >= core_.connections.size()) continue;
      const std::shared_ptr<H2Connection> connection = core_.connections[i];
      call(*connection);
    }
  }

  GrpcCore core_;
  std::shared_ptr<GrpcAcceptor> acceptor_;
  std::uint16_t port_ = 0;
  int listening_ = -1;  // The acceptor's.
  Mutex drain_mutex_;
  bool drained_ FALAJ_GUARDED_BY(drain_mutex_) = false;
};

telemetry::Metrics& declared(telemetry::Metrics& metrics) {
  metrics.declare(kCalls);
  metrics.declare(kSeconds);
  return metrics;
}

}  // namespace

GrpcSeries::GrpcSeries(telemetry::Metrics& metrics, std::string method)
    : metrics_(declared(metrics)),
      method_(std::move(method)),
      ok_(metrics.counter(kCalls, {method_, "0"})),
      seconds_(metrics.histogram(kSeconds, {method_})) {}

void GrpcSeries::done(int status, std::int64_t nanos) {
  if (status == 0) {
    ok_.add();
  } else {
    metrics_.counter(kCalls, {method_, std::to_string(status)}).add();
  }
  seconds_.observe_nanos(nanos);
}

GrpcCore::GrpcCore(GrpcOptions o, std::vector<GrpcMethod> bound, Gate g,
                   telemetry::Metrics& metrics, std::uint64_t seed)
    : options(std::move(o)),
      gate(std::move(g)),
      unknown(metrics, "unknown"),
      hosts(options.host, options.allowed_hosts,
            options.tls.identity.chain_pem.empty() ? "http" : "https"),
      is_tls(!options.tls.identity.chain_pem.empty()),
      ids(seed) {
  FALAJ_CHECK(gate != nullptr);
  for (GrpcMethod& method : bound) {
    check_demand(method.declared);
    if (method.unnamed.has_value()) check_demand(*method.unnamed);
    FALAJ_CHECK(method.declared.target.parameter().empty() || method.name != nullptr);
    const std::string path = method.declared.path;
    methods.emplace(path, BoundMethod{std::move(method),
                                      std::make_unique<GrpcSeries>(metrics, path.substr(1))});
  }
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcOptions& options,
                                                      std::vector<GrpcMethod> methods, Gate gate,
                                                      telemetry::Metrics& metrics) {
  if (options.tls.identity.chain_pem.empty() && !is_loopback_host(options.host)) {
    return Error(ErrorId::kUnsafeListen, "gRPC on " + options.host +
                                             " without TLS would send everything in the clear: " +
                                             "give a certificate and key, or listen on 127.0.0.1");
  }
  auto server = std::make_unique<H2Server>(options, std::move(methods), std::move(gate), metrics);
  FALAJ_TRY(server->begin());
  log::info("listening for grpc", {{"host", options.host}, {"port", server->port()}});
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace falaj::net
