#include "exec/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace falaj::exec {
namespace {

TEST(BoundedQueue, refuses_past_its_limit_and_leaves_the_item_untouched) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(**queue.pop(), 1);
  EXPECT_TRUE(queue.try_push(std::move(second)));
}

TEST(BoundedQueue, is_first_in_first_out) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.try_push(int{i}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.try_pop(), i);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, closing_lets_consumers_drain_what_is_left) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.try_push(7));
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, loses_and_doubles_nothing_between_threads) {
  BoundedQueue<int> queue(16);
  constexpr int kEach = 5'000;
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int c = 0; c < 2; ++c) {
    threads.emplace_back([&] {
      while (const auto item = queue.pop()) sum += *item;
    });
  }
  std::vector<std::thread> producers;
  for (int p = 0; p < 3; ++p) {
    producers.emplace_back([&] {
      for (int i = 1; i <= kEach; ++i) {
        while (!queue.try_push(int{i})) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), std::int64_t{3} * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace falaj::exec
