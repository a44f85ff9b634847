#include "exec/pool.h"

#include <pthread.h>

#include <thread>
#include <vector>

#include "base/mutex.h"
#include "exec/queue.h"

namespace falaj::exec {

struct Pool::Impl {
  explicit Impl(const PoolOptions& o) : options(o), queue(o.queue_max) {}

  PoolOptions options;
  BoundedQueue<std::function<void()>> queue;
  Mutex joining;  // Two callers of drain() must not join the same thread.
  std::vector<std::thread> threads FALAJ_GUARDED_BY(joining);

  void run() {
    // The kernel keeps 15 characters of a thread's name.
    ::pthread_setname_np(::pthread_self(), options.name.substr(0, 15).c_str());
    while (std::optional<std::function<void()>> task = queue.pop()) (*task)();
  }
};

Pool::Pool(const PoolOptions& options) : impl_(std::make_unique<Impl>(options)) {
  MutexLock lock(impl_->joining);
  for (std::size_t i = 0; i < options.threads; ++i) {
    impl_->threads.emplace_back([impl = impl_.get()] { impl->run(); });
  }
}

Pool::~Pool() { drain(); }

Status Pool::submit(std::function<void()> task) {
  if (impl_->queue.try_push(std::move(task))) return {};
  return Error(Code::kResourceExhausted, "the queue of '" + impl_->options.name + "' is full (" +
                                             std::to_string(impl_->options.queue_max) +
                                             " tasks) or closing: retry after a moment");
}

void Pool::drain() {
  impl_->queue.close();
  MutexLock lock(impl_->joining);
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

}  // namespace falaj::exec
