#include "net/http/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace falaj::net {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

class AsioWatch final : public Watch {
 public:
  AsioWatch(asio::io_context& io, int descriptor, std::weak_ptr<Pollable> target)
      : descriptor_(io, descriptor), waits_(std::make_shared<Waits>(std::move(target))) {}
  ~AsioWatch() override { waits_->closed = true; }

  int descriptor() const override { return const_cast<Descriptor&>(descriptor_).native_handle(); }
  void wait_readable() override {
    if (std::exchange(waits_->reading, true)) return;
    descriptor_.async_wait(Descriptor::wait_read, [waits = waits_](auto ec) {
      if (ec || waits->closed) return;
      waits->reading = false;
      if (const auto alive = waits->target.lock()) alive->on_readable();
    });
  }
  void wait_writable() override {
    if (std::exchange(waits_->writing, true)) return;
    descriptor_.async_wait(Descriptor::wait_write, [waits = waits_](auto ec) {
      if (ec || waits->closed) return;
      waits->writing = false;
      if (const auto alive = waits->target.lock()) alive->on_writable();
    });
  }

 private:
  // Outlives the watch: a completion that was already queued when it closed still looks here.
  struct Waits {
    explicit Waits(std::weak_ptr<Pollable> t) : target(std::move(t)) {}
    std::weak_ptr<Pollable> target;
    bool reading = false;
    bool writing = false;
    bool closed = false;
  };

  Descriptor descriptor_;
  std::shared_ptr<Waits> waits_;
};

class AsioLoop final : public Loop {
 public:
  AsioLoop() : io_(std::in_place, 1), work_(asio::make_work_guard(*io_)) {
    thread_ = std::thread([this] { io_->run(); });
  }
  ~AsioLoop() override { stop(); }

  void post(std::function<void()> task) override {
    MutexLock lock(mutex_);
    if (!stopped_) asio::post(*io_, std::move(task));
  }

  std::unique_ptr<Watch> watch(int descriptor, std::weak_ptr<Pollable> target) override {
    return std::make_unique<AsioWatch>(*io_, descriptor, std::move(target));
  }

  void every(Duration interval, std::function<void()> tick) override {
    post([this, interval, tick = std::move(tick)]() mutable {
      timers_.push_back({asio::steady_timer(*io_), interval, std::move(tick)});
      arm(timers_.back());
    });
  }

  void stop() override {
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
      asio::post(*io_, [this] { io_->stop(); });
    }
    thread_.join();
    timers_.clear();
    work_.reset();
    // Destroys what was posted too late; those tasks may hold the last reference to their objects.
    io_.reset();
  }

 private:
  struct Timer {
    asio::steady_timer timer;
    Duration interval;
    std::function<void()> tick;
  };

  void arm(Timer& timer) {
    timer.timer.expires_after(std::chrono::nanoseconds(timer.interval.nanos));
    timer.timer.async_wait([this, &timer](auto ec) {
      if (ec) return;
      timer.tick();
      arm(timer);
    });
  }

  Mutex mutex_;
  bool stopped_ FALAJ_GUARDED_BY(mutex_) = false;
  std::optional<asio::io_context> io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::list<Timer> timers_;  // Loop's thread only.
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Loop> Loop::start() { return std::make_shared<AsioLoop>(); }

}  // namespace falaj::net
