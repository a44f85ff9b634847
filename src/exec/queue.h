// exec/queue.h — a bounded queue between threads; every queue in Falaj has a limit.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace falaj::exec {

// Many producers, many consumers. push never blocks: past the limit it says so.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  // False when full or closed; `item` is then untouched.
  bool try_push(T&& item) {
    {
      MutexLock lock(mutex_);
      if (closed_ || items_.size() >= limit_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Waits for an item; nullopt once closed and empty.
  std::optional<T> pop() {
    MutexLock lock(mutex_);
    ready_.wait(mutex_, [this]() FALAJ_REQUIRES(mutex_) { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  std::optional<T> try_pop() {
    MutexLock lock(mutex_);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // Consumers drain what is left, then get nullopt.
  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  std::size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  const std::size_t limit_;
  mutable Mutex mutex_;
  CondVar ready_;
  std::deque<T> items_ FALAJ_GUARDED_BY(mutex_);
  bool closed_ FALAJ_GUARDED_BY(mutex_) = false;
};

}  // namespace falaj::exec
