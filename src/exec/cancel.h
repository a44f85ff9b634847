// exec/cancel.h — a way to tell running work that nobody waits for it any more.
#pragma once

#include <atomic>
#include <memory>

namespace falaj::exec {

// Copies share one flag. Thread-safe.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true, std::memory_order_release); }
  bool cancelled() const { return flag_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace falaj::exec
