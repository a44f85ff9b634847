#include "exec/timers.h"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "base/mutex.h"

namespace falaj::exec {

struct Ticker::Impl {
  std::string name;
  Duration interval;
  std::function<void()> tick;
  Mutex mutex;
  CondVar changed;
  bool woken FALAJ_GUARDED_BY(mutex) = false;
  bool stopping FALAJ_GUARDED_BY(mutex) = false;
  Mutex joining;  // Two callers of stop() must not join the thread twice.
  std::thread thread FALAJ_GUARDED_BY(joining);

  // True when it is time to tick, false when it is time to end.
  bool wait_for_turn() {
    MutexLock lock(mutex);
    changed.wait_for(mutex, std::chrono::nanoseconds(interval.nanos),
                     [this]() FALAJ_REQUIRES(mutex) { return woken || stopping; });
    woken = false;
    return !stopping;
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
    while (wait_for_turn()) tick();
  }
};

Ticker::Ticker(std::string name, Duration interval, std::function<void()> tick)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  impl_->interval = interval;
  impl_->tick = std::move(tick);
  MutexLock lock(impl_->joining);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Ticker::~Ticker() { stop(); }

void Ticker::wake() {
  {
    MutexLock lock(impl_->mutex);
    impl_->woken = true;
  }
  impl_->changed.notify_all();
}

void Ticker::stop() {
  {
    MutexLock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  MutexLock lock(impl_->joining);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace falaj::exec
