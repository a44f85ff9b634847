// exec/testing/processes.h — for tests with other processes: to wait for them without sleeping, and
// to be one of them.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "base/mutex.h"

namespace falaj::exec::testing {

// This program's file.
inline std::string own_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0);
}

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

// Thread-safe.
class Bell {
 public:
  void ring() {
    MutexLock lock(mutex_);
    ++rings_;
    rung_.notify_all();
  }
  // Looks after every ring, and now and then without one. False after a minute.
  bool wait_until(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < until) {
      const std::uint64_t before = rings();
      if (holds()) return true;
      MutexLock lock(mutex_);
      rung_.wait_for(mutex_, std::chrono::milliseconds(20),
                     [&]() FALAJ_REQUIRES(mutex_) { return rings_ != before; });
    }
    return holds();
  }

 private:
  std::uint64_t rings() {
    MutexLock lock(mutex_);
    return rings_;
  }
  Mutex mutex_;
  CondVar rung_;
  std::uint64_t rings_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace falaj::exec::testing
