#include "exec/timers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <semaphore>
#include <thread>

namespace falaj::exec {
namespace {

TEST(Ticker, ticks_by_itself) {
  std::counting_semaphore<1000> ticked(0);
  Ticker ticker("test", Duration::microseconds(100), [&ticked] { ticked.release(); });
  for (int i = 0; i < 3; ++i) ticked.acquire();
}

TEST(Ticker, ticks_at_once_when_woken) {
  std::counting_semaphore<1000> ticked(0);
  Ticker ticker("test", Duration::hours(1), [&ticked] { ticked.release(); });
  ticker.wake();
  ticked.acquire();
  ticker.wake();
  ticked.acquire();
}

TEST(Ticker, never_runs_two_ticks_at_once_and_none_after_stop) {
  std::atomic<int> inside{0};
  std::atomic<int> ticks{0};
  std::atomic<bool> overlapped{false};
  std::counting_semaphore<100000> ticked(0);
  Ticker ticker("test", Duration::microseconds(10), [&] {
    if (++inside != 1) overlapped = true;
    ++ticks;
    --inside;
    ticked.release();
  });
  for (int i = 0; i < 20; ++i) {
    ticker.wake();
    ticked.acquire();
  }
  ticker.stop();
  const int after = ticks;
  ticker.wake();
  ticker.stop();
  EXPECT_EQ(ticks, after);
  EXPECT_FALSE(overlapped);
}

TEST(Ticker, the_destructor_waits_for_a_running_tick) {
  std::latch entered(1);
  std::latch leave(1);
  std::atomic<bool> finished{false};
  std::thread opener;
  {
    Ticker ticker("test", Duration::hours(1), [&] {
      entered.count_down();
      leave.wait();
      finished = true;
    });
    ticker.wake();
    entered.wait();
    opener = std::thread([&leave] { leave.count_down(); });
  }
  EXPECT_TRUE(finished);
  opener.join();
}

}  // namespace
}  // namespace falaj::exec
