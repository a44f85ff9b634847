// net/http/core.h — what the connections of one server share.
#pragma once

#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "exec/pool.h"
#include "net/http/loop.h"
#include "net/http/series.h"
#include "net/internal/cors.h"
#include "net/internal/host_check.h"
#include "net/internal/trace_ids.h"
#include "net/router.h"
#include "net/server.h"
#include "net/tls/tls.h"

namespace falaj::net {

class Connection;

// Outlives every connection and every task of the pool.
struct ServerCore {
  ServerCore(ServerOptions o, const Router& r, Gate g, telemetry::Metrics& metrics)
      : options(std::move(o)),
        router(r),
        gate(std::move(g)),
        series(metrics, r),
        hosts(options.host, options.allowed_hosts,
              options.tls.identity.chain_pem.empty() ? "http" : "https") {}

  const ServerOptions options;
  const Router& router;
  const Gate gate;
  HttpSeries series;
  const HostPolicy hosts;
  const CorsPolicy cors{options.cors_origins};
  const bool is_tls = !options.tls.identity.chain_pem.empty();
  std::unique_ptr<exec::Pool> pool;
  std::atomic<bool> draining = false;  // Replies close their connection.
  // Replies do so too, and new connections are welcome: since when, monotonic. 0: not.
  std::atomic<std::int64_t> announced = 0;
  bool replies_close() const { return draining.load() || announced.load() != 0; }
  std::atomic<bool> cut = false;  // Queued requests are no longer worth running.

  Mutex mutex;
  CondVar all_closed;
  std::size_t open_connections FALAJ_GUARDED_BY(mutex) = 0;
  TlsContext tls FALAJ_GUARDED_BY(mutex);  // Replaced by renew(); sessions keep theirs.
};

// What the connections of one loop share; used on its thread only.
struct LoopState {
  LoopState(std::shared_ptr<Loop> l, std::uint64_t seed) : loop(std::move(l)), ids(seed) {}

  // The Date header's value, made once a second.
  std::string_view date();

  const std::shared_ptr<Loop> loop;
  TraceIds ids;
  std::array<char, 64 << 10> scratch{};  // Bytes as received: idle connections hold no buffer.
  std::vector<std::shared_ptr<Connection>> connections;

 private:
  std::time_t date_second_ = 0;
  std::string date_;
};

}  // namespace falaj::net
