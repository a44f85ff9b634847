// net/http/exchange.h — a request that is answered away from its loop, now or later.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "net/http/core.h"

namespace falaj::net {

// A body on its way to where large ones go.
struct Upload {
  std::unique_ptr<Spool> spool;
  std::shared_ptr<const ByteReader> content;  // Once it is whole.
};

// Owns the request until it was answered. Answers 500 if everyone forgets it. Survives its
// connection and its server: a late answer is dropped.
class Exchange {
 public:
  Exchange(std::shared_ptr<Loop> loop, std::weak_ptr<Connection> connection, Request request,
           const Route& route);
  ~Exchange();

  const Request& request() const { return *request_; }
  Request& mutable_request() { return *request_; }
  // Thread-safe; the first answer counts.
  void answer(Response response);

  // Runs gate (unless it has passed) and handler on the calling thread.
  enum class GateState : std::uint8_t { kOpen, kPassed };
  static void run(const std::shared_ptr<Exchange>& self, const ServerCore& core, GateState gate);

 private:
  const std::shared_ptr<Loop> loop_;
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Request> request_;
  const Route& route_;
  std::atomic<bool> answered_ = false;
};

// Runs the gate; an exception of a library below counts as an internal error.
Status run_gate(const ServerCore& core, const Route& route, Request& request);
// Runs a synchronous handler; an exception of a library below becomes a 500.
Response run_handler(const Route& route, const Request& request);

// The producer's side of a streamed reply. Thread-safe.
class EventStream final : public Stream {
 public:
  static constexpr std::size_t kQueuedBytesMax = 1 << 20;
  enum class Chunked : std::uint8_t { kYes, kNo };

  EventStream(std::shared_ptr<Loop> loop, std::weak_ptr<Connection> connection, Chunked chunked)
      : loop_(std::move(loop)), connection_(std::move(connection)), chunked_(chunked) {}

  bool send(std::string_view bytes) override;
  bool open() const override;
  void close() override;

  enum class Progress : std::uint8_t { kOpen, kEnded, kOverflowed };
  // Loop's side: moves what is queued into `out`; kEnded after the last byte was taken.
  Progress take(std::string& out);
  bool overflowed() const;
  // The client has gone: the producer's next send says so.
  void disconnect();

 private:
  void wake() FALAJ_REQUIRES(mutex_);

  const std::shared_ptr<Loop> loop_;
  const std::weak_ptr<Connection> connection_;
  const Chunked chunked_;
  mutable Mutex mutex_;
  std::string queued_ FALAJ_GUARDED_BY(mutex_);
  bool open_ FALAJ_GUARDED_BY(mutex_) = true;
  bool overflowed_ FALAJ_GUARDED_BY(mutex_) = false;
  bool woken_ FALAJ_GUARDED_BY(mutex_) = false;
};

}  // namespace falaj::net
