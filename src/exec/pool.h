// exec/pool.h — a fixed number of threads with a bounded queue, for work that may block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace falaj::exec {

struct PoolOptions {
  std::string name = "pool";
  std::size_t threads = 2;
  std::size_t queue_max = 1024;
};

class Pool {
 public:
  explicit Pool(const PoolOptions& options);
  ~Pool();  // Runs what was accepted, then joins.

  // kResourceExhausted when the queue is full: the caller answers 503, it never waits.
  Status submit(std::function<void()> task);
  // Stops accepting, finishes what was accepted, joins. Idempotent.
  void drain();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::exec
