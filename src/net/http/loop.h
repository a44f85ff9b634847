// net/http/loop.h — one event-loop thread and the descriptors that it watches (epoll, hidden).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"

namespace falaj::net {

// Called on the loop's thread when its descriptor is ready.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void on_readable() = 0;
  virtual void on_writable() = 0;
};

// A descriptor in a loop. Used on the loop's thread only, and never after the loop was stopped.
// Owns the descriptor: destruction closes it, and no call follows.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual int descriptor() const = 0;
  // Asks for one call once the descriptor becomes ready; asking again before the call changes
  // nothing. It is told when something new comes: who was called reads (or writes, accepts) until
  // there is no more before asking again. Costs no system call.
  virtual void wait_readable() = 0;
  virtual void wait_writable() = 0;
  // Asks for one on_writable() after all that became ready together was called: who answers many at
  // once wakes their readers once. False: nobody else is waiting for this, do it now.
  virtual bool yield_round() = 0;
  // True once the peer has finished its side, or there is an error.
  virtual bool has_ended() const = 0;
};

class Loop {
 public:
  // Starts the thread.
  static std::shared_ptr<Loop> start();
  virtual ~Loop() = default;  // stop() comes first.

  // Runs `task` on the loop's thread, in order of posting. Thread-safe. After stop() the task is
  // dropped without running.
  virtual void post(std::function<void()> task) = 0;
  // Loop's thread only. `target` is asked for only while it lives.
  virtual std::unique_ptr<Watch> watch(int descriptor, std::weak_ptr<Pollable> target) = 0;
  // Calls `tick` on the loop's thread every `interval` until stop().
  virtual void every(Duration interval, std::function<void()> tick) = 0;
  // Runs what was posted before, then ends and joins the thread and drops the rest. Every Watch is
  // gone by then: the last posted task sees to it. Idempotent; never from the loop's own thread.
  virtual void stop() = 0;
};

}  // namespace falaj::net
