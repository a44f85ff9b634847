#include "exec/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace falaj::exec {
namespace {

TEST(Pool, runs_everything_that_it_accepted) {
  std::atomic<int> ran{0};
  {
    Pool pool({.name = "test", .threads = 3, .queue_max = 1000});
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(pool.submit([&ran] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 500);
}

TEST(Pool, says_when_its_queue_is_full) {
  std::latch busy(1);
  std::latch release(1);
  Pool pool({.name = "small", .threads = 1, .queue_max = 1});
  ASSERT_TRUE(pool.submit([&] {
                    busy.count_down();
                    release.wait();
                  })
                  .ok());
  busy.wait();
  EXPECT_TRUE(pool.submit([] {}).ok());
  const Status refused = pool.submit([] {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("small"), std::string::npos);
  release.count_down();
}

TEST(Pool, draining_finishes_what_was_accepted_and_refuses_the_rest) {
  std::atomic<int> ran{0};
  Pool pool({.name = "test", .threads = 2, .queue_max = 100});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(pool.submit([&ran] { ++ran; }).ok());
  pool.drain();
  EXPECT_EQ(ran, 50);
  EXPECT_FALSE(pool.submit([] {}).ok());
  pool.drain();
}

TEST(Pool, may_be_drained_by_two_threads_at_once) {
  Pool pool({});
  std::thread other([&pool] { pool.drain(); });
  pool.drain();
  other.join();
}

}  // namespace
}  // namespace falaj::exec
