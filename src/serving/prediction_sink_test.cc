#include "serving/prediction_sink.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "serving/testing/drained.h"

namespace falaj::serving {
namespace {

using testing::drained;

Prediction numbered(std::int64_t number) {
  Prediction prediction;
  prediction.deployment = "payments/fraud";
  prediction.version = number;
  prediction.features = {static_cast<float>(number), 1.5F};
  return prediction;
}

TEST(PredictionSink, gives_back_what_was_offered_oldest_first) {
  PredictionSink sink(8);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(sink.offer(numbered(i)));
  const std::vector<Prediction> taken = drained(sink);
  ASSERT_EQ(taken.size(), 5U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(taken[static_cast<std::size_t>(i)].version, i);
  EXPECT_EQ(taken[4].features, (std::vector<float>{4, 1.5F}));
  EXPECT_TRUE(drained(sink).empty());
}

TEST(PredictionSink, drops_and_counts_when_full_and_takes_again_after_a_drain) {
  PredictionSink sink(3);
  for (int lap = 0; lap < 4; ++lap) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(sink.offer(numbered(i)));
    EXPECT_FALSE(sink.offer(numbered(3)));
    EXPECT_EQ(drained(sink).size(), 3U);
  }
  EXPECT_EQ(sink.accepted(), 12U);
  EXPECT_EQ(sink.dropped(), 4U);
}

TEST(PredictionSink, works_with_the_smallest_capacity) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    PredictionSink sink(capacity);
    EXPECT_TRUE(sink.offer(numbered(1)));
    EXPECT_TRUE(sink.offer(numbered(2)));
    EXPECT_FALSE(sink.offer(numbered(3)));
    EXPECT_EQ(drained(sink).size(), 2U);
  }
}

TEST(PredictionSink, loses_and_repeats_nothing_it_accepted_from_many_writers) {
  constexpr int kWriters = 6;
  constexpr int kEach = 20'000;
  PredictionSink sink(256);
  std::atomic<int> running{kWriters};
  std::atomic<std::uint64_t> accepted{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kEach; ++i) {
        if (sink.offer(numbered(std::int64_t{w} * kEach + i))) ++accepted;
      }
      --running;
    });
  }
  std::map<std::int64_t, std::int64_t> newest;  // Per writer: its predictions stay in order.
  std::uint64_t taken = 0;
  bool last = false;
  while (!last) {
    last = running.load() == 0;
    for (const Prediction& prediction : drained(sink)) {
      const std::int64_t writer = prediction.version / kEach;
      const auto [seen, first] = newest.emplace(writer, prediction.version);
      if (!first) {
        ASSERT_LT(seen->second, prediction.version);
        seen->second = prediction.version;
      }
      ASSERT_EQ(prediction.features[0], static_cast<float>(prediction.version));
      ++taken;
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(taken, accepted.load());
  EXPECT_EQ(sink.accepted(), accepted.load());
  EXPECT_EQ(sink.accepted() + sink.dropped(), std::uint64_t{kWriters} * kEach);
}

}  // namespace
}  // namespace falaj::serving
