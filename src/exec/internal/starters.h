// exec/internal/starters.h — threads that start processes for one that must not wait: each start
// holds its thread until the kernel has made the groups and namespaces, a millisecond or more.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "exec/internal/supervised.h"

namespace falaj::exec::internal {

// Thread-safe. What it started dies with it (see spawn()): reap that before.
class Starters {
 public:
  explicit Starters(unsigned threads);
  ~Starters();  // Waits for the starts that are going on; those not yet begun are dropped.

  // Readable when take() has something; -1 when the machine refused it.
  int ready() const { return ready_.get(); }
  // Supervised::begin(), later. `number` comes back with the result. The threads begin with the
  // first call.
  void start(std::uint64_t number, ChildSpec spec, SupervisedOptions options);
  struct Started {
    std::uint64_t number = 0;
    Result<std::unique_ptr<Supervised>> process;
  };
  // What was started since, in any order; does not wait.
  std::vector<Started> take();

 private:
  struct Order {
    std::uint64_t number = 0;
    ChildSpec spec;
    SupervisedOptions options;
  };
  void work();

  const unsigned count_;
  Fd ready_;
  Mutex mutex_;
  CondVar ordered_;
  std::deque<Order> orders_ FALAJ_GUARDED_BY(mutex_);
  std::vector<Started> started_ FALAJ_GUARDED_BY(mutex_);
  std::size_t idle_ FALAJ_GUARDED_BY(mutex_) = 0;
  bool stopping_ FALAJ_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::exec::internal
