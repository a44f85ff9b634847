// net/http2/core.h — what the connections of one gRPC server share.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "exec/pool.h"
#include "net/grpc_server.h"
#include "net/http/loop.h"
#include "net/http2/unfinished.h"
#include "net/internal/host_check.h"
#include "net/internal/trace_ids.h"
#include "net/tls/tls.h"

namespace falaj::net {

class H2Connection;

// Counts and times of one method.
class GrpcSeries {
 public:
  GrpcSeries(telemetry::Metrics& metrics, std::string method);
  // Thread-safe.
  void done(int status, std::int64_t nanos);

 private:
  telemetry::Metrics& metrics_;
  const std::string method_;
  telemetry::Counter& ok_;
  telemetry::Histogram& seconds_;
};

struct BoundMethod {
  GrpcMethod method;
  std::unique_ptr<GrpcSeries> series;
};

// Outlives every connection and every task of the pool. What is not said otherwise belongs to the
// loop's thread.
struct GrpcCore {
  GrpcCore(GrpcOptions o, std::vector<GrpcMethod> bound, Gate g, telemetry::Metrics& metrics,
           std::uint64_t seed);

  const GrpcOptions options;
  const Gate gate;  // Thread-safe.
  std::map<std::string, BoundMethod, std::less<>> methods;
  GrpcSeries unknown;
  const HostPolicy hosts;
  const bool is_tls;
  std::shared_ptr<Loop> loop;
  std::unique_ptr<exec::Pool> pool;  // Thread-safe.
  std::atomic<bool> draining = false;

  TraceIds ids;
  std::array<char, 64 << 10> scratch{};
  std::vector<std::shared_ptr<H2Connection>> connections;
  std::size_t buffered = 0;  // Bytes of messages that are not whole, or wait.
  UnfinishedMessages unfinished;

  Mutex mutex;
  CondVar all_closed;
  std::size_t open_connections FALAJ_GUARDED_BY(mutex) = 0;
  TlsContext tls FALAJ_GUARDED_BY(mutex);
};

}  // namespace falaj::net
