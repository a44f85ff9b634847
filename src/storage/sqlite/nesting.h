// storage/sqlite/nesting.h — refuses a call on a store from inside a body of the same store.
//
// Such a call would wait for itself (the writer) or read a different snapshot than the transaction
// it stands in. The fake and the real store refuse alike, so a test over the fake finds it.
#pragma once

#include "base/result.h"

namespace falaj::storage {

class NestingGuard {
 public:
  explicit NestingGuard(const void* store) : store_(store), outer_(innermost_) {
    innermost_ = this;
  }
  ~NestingGuard() { innermost_ = outer_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

  static Status check(const void* store) {
    for (const NestingGuard* guard = innermost_; guard != nullptr; guard = guard->outer_) {
      if (guard->store_ != store) continue;
      return Error(Code::kInternal,
                   "read() or write() inside a transaction of the same store; use the "
                   "transaction that was handed in");
    }
    return {};
  }

 private:
  const void* store_;
  const NestingGuard* outer_;
  static inline thread_local const NestingGuard* innermost_ = nullptr;
};

}  // namespace falaj::storage
