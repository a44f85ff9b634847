// base/mutex.h — mutexes that the compiler understands (clang -Wthread-safety checks the claims).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#if defined(__clang__)
#define FALAJ_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define FALAJ_THREAD_ANNOTATION(x)
#endif
#define FALAJ_GUARDED_BY(x) FALAJ_THREAD_ANNOTATION(guarded_by(x))
#define FALAJ_REQUIRES(x) FALAJ_THREAD_ANNOTATION(requires_capability(x))

namespace falaj {

class FALAJ_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() FALAJ_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() FALAJ_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  bool try_lock() FALAJ_THREAD_ANNOTATION(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class FALAJ_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FALAJ_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() FALAJ_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Wait only with the mutex held, in a loop or with a predicate.
class CondVar {
 public:
  template <class Predicate>
  void wait(Mutex& mutex, Predicate predicate) FALAJ_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock, std::move(predicate));
    lock.release();
  }
  // True if the predicate held; false when `nanoseconds` passed first.
  template <class Predicate>
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds limit, Predicate predicate)
      FALAJ_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool held = condition_.wait_for(lock, limit, std::move(predicate));
    lock.release();
    return held;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace falaj
