// exec/timers.h — background loops. A loop is a tick() that a test can call by itself; Ticker is
// the only thing that turns it into time passing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"

namespace falaj::exec {

// One thread that calls tick every `interval`, never two at once, and at once after wake().
class Ticker {
 public:
  Ticker(std::string name, Duration interval, std::function<void()> tick);
  ~Ticker();  // Waits for a running tick, then joins.
  void wake();
  void stop();  // Idempotent.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::exec
