#include "exec/internal/starters.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace falaj::exec::internal {

Starters::Starters(unsigned threads)
    : count_(threads), ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Starters::~Starters() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  ordered_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Starters::start(std::uint64_t number, ChildSpec spec, SupervisedOptions options) {
  {
    MutexLock lock(mutex_);
    orders_.push_back({number, std::move(spec), std::move(options)});
    // One more thread when all are busy: few are needed where starts are quick.
    if (orders_.size() > idle_ && threads_.size() < count_) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ordered_.notify_one();
}

std::vector<Starters::Started> Starters::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(ready_.get(), &count, sizeof count);
  MutexLock lock(mutex_);
  return std::exchange(started_, {});
}

void Starters::work() {
  while (true) {
    Order order;
    {
      MutexLock lock(mutex_);
      ++idle_;
      ordered_.wait(mutex_,
                    [this]() FALAJ_REQUIRES(mutex_) { return stopping_ || !orders_.empty(); });
      --idle_;
      if (stopping_) return;
      order = std::move(orders_.front());
      orders_.pop_front();
    }
    auto process = Supervised::begin(order.spec, order.options);
    {
      MutexLock lock(mutex_);
      started_.push_back({order.number, std::move(process)});
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(ready_.get(), &one, sizeof one);
  }
}

}  // namespace falaj::exec::internal
