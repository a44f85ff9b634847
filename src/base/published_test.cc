#include "base/published.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace falaj {
namespace {

TEST(Published, is_seen_by_every_thread_once_replace_returned) {
  Published<int> value;
  EXPECT_EQ(value.load(), nullptr);
  for (int i = 0; i < 5; ++i) {
    value.replace(std::make_shared<const int>(i));
    std::vector<std::thread> readers;
    std::atomic<int> right{0};
    for (int t = 0; t < 40; ++t) {  // More threads than shards.
      readers.emplace_back([&] { right += *value.load() == i ? 1 : 0; });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(right.load(), 40);
  }
}

TEST(Published, never_goes_back_for_a_reader_and_frees_what_nobody_holds) {
  Published<std::vector<int>> value;
  value.replace(std::make_shared<const std::vector<int>>(8, 0));
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      int newest = 0;
      while (!done.load()) {
        const auto seen = value.load();
        for (const int number : *seen) wrong += number == seen->front() ? 0 : 1;
        wrong += seen->front() < newest ? 1 : 0;
        newest = seen->front();
      }
    });
  }
  std::weak_ptr<const std::vector<int>> last;
  for (int i = 1; i <= 2000; ++i) {
    auto fresh = std::make_shared<const std::vector<int>>(8, i);
    last = fresh;
    value.replace(std::move(fresh));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
  value.replace(nullptr);
  EXPECT_TRUE(last.expired());
}

}  // namespace
}  // namespace falaj
