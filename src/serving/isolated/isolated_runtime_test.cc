#include "serving/isolated/isolated_runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "serving/testing/held_session.h"

namespace falaj::serving {
namespace {

using testing::row;
using testing::value_of;

class IsolatedRuntimeTest : public ::testing::Test {
 protected:
  IsolatedRuntimeTest() {
    options_.process = [](unsigned lanes) {
      exec::ChildSpec spec;
      spec.argv = {"/proc/self/exe", "word-process", std::to_string(lanes)};
      spec.work_dir = "/";
      spec.limits.memory_bytes_max = std::int64_t{256} << 20;
      return spec;
    };
    options_.pause_min = Duration{};
    options_.version = "words";
  }

  Result<std::unique_ptr<Session>> load(const std::string& word) {
    runtime_ = isolated_runtime(options_, metrics_);
    return runtime_->load_bytes(word);
  }
  static Result<std::vector<Tensor>> ask(const Session& session, float value) {
    const Tensor input = row(value);
    return session.run({&input, 1});
  }
  std::string exposition() { return metrics_.exposition(); }

  telemetry::Metrics metrics_;
  IsolationOptions options_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(IsolatedRuntimeTest, answers_as_the_model_does) {
  const auto session = load("double").value();
  EXPECT_EQ(runtime_->version(), "words");
  EXPECT_EQ(session->signature().inputs[0].name, "x");
  EXPECT_TRUE(session->may_wait());
  EXPECT_EQ(value_of(ask(*session, 21).value()[0]), 42);
  std::vector<float> scores;
  ASSERT_TRUE(session->score(std::vector<float>{1, 2, 3}, 1, scores).ok());
  EXPECT_EQ(scores, (std::vector<float>{2, 4, 6}));
  const auto refused = ask(*session, -1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kTensorMismatch);
  EXPECT_EQ(refused.error().message, "below zero");
}

TEST_F(IsolatedRuntimeTest, many_ask_at_once_over_few_lanes) {
  options_.lanes = 4;  // As many more may wait.
  const auto session = load("double").value();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const auto asked = static_cast<float>(i * 1000 + k + 20);
        EXPECT_EQ(value_of(ask(*session, asked).value()[0]), 2 * asked);
      }
    });
  }
}

TEST_F(IsolatedRuntimeTest, more_than_may_wait_are_refused_and_the_process_goes_on) {
  options_.lanes = 1;
  options_.answer_max = Duration::seconds(2);
  const auto session = load("hang").value();
  // One has the lane, one waits for it, and whoever comes now is told so at once.
  std::jthread holds([&] { EXPECT_FALSE(ask(*session, 13).ok()); });
  std::vector<std::jthread> others;
  std::atomic<int> overloaded{0};
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      const auto told = ask(*session, 13);
      if (!told.ok() && told.error().id == ErrorId::kOverloaded) ++overloaded;
    });
  }
  others.clear();
  holds.join();
  EXPECT_GE(overloaded, 2) << "lack of room is no failure of the process";
  EXPECT_EQ(value_of(ask(*session, 2).value()[0]), 4);
}

TEST_F(IsolatedRuntimeTest, one_that_crashes_fails_its_request_alone_and_comes_back) {
  for (const char* word : {"crash", "quit"}) {
    const auto session = load(word).value();
    EXPECT_EQ(value_of(ask(*session, 1).value()[0]), 2);
    const auto died = ask(*session, 13);
    ASSERT_FALSE(died.ok()) << word;
    EXPECT_EQ(died.error().id, ErrorId::kModelNotReady);
    const char* how = std::string(word) == "crash" ? "died of signal 6" : "ended with code 7";
    EXPECT_NE(died.error().message.find(how), std::string::npos) << died.error().message;
    EXPECT_EQ(value_of(ask(*session, 2).value()[0]), 4) << "a new process answers";
  }
  EXPECT_NE(exposition().find("falaj_serving_isolated_ends_total 2"), std::string::npos);
}

TEST_F(IsolatedRuntimeTest, one_that_hangs_is_ended_after_its_time) {
  options_.answer_max = Duration::milliseconds(100);
  const auto session = load("hang").value();
  const auto late = ask(*session, 13);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().id, ErrorId::kModelNotReady);
  EXPECT_NE(late.error().message.find("did not answer within 100ms"), std::string::npos)
      << late.error().message;
  EXPECT_EQ(value_of(ask(*session, 2).value()[0]), 4);
}

TEST_F(IsolatedRuntimeTest, one_that_takes_too_much_memory_is_ended) {
  const auto session = load("leak").value();
  const auto died = ask(*session, 13);
  ASSERT_FALSE(died.ok());
  EXPECT_EQ(died.error().id, ErrorId::kModelNotReady) << died.error().message;
  EXPECT_EQ(value_of(ask(*session, 2).value()[0]), 4);
}

TEST_F(IsolatedRuntimeTest, while_the_pause_lasts_requests_are_refused_at_once) {
  options_.pause_min = options_.pause_max = Duration::hours(1);
  const auto session = load("crash").value();
  ASSERT_FALSE(ask(*session, 13).ok());
  const auto refused = ask(*session, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kModelNotReady);
  EXPECT_NE(refused.error().message.find("is started again in 3"), std::string::npos)
      << refused.error().message;
}

TEST_F(IsolatedRuntimeTest, what_its_model_cannot_answer_is_not_handed_on) {
  const auto session = load("lie").value();
  const auto lied = ask(*session, 1);
  ASSERT_FALSE(lied.ok());
  EXPECT_EQ(lied.error().id, ErrorId::kInternal);
  std::vector<float> scores;
  EXPECT_FALSE(session->score(std::vector<float>{1, 2, 3}, 1, scores).ok());
}

TEST_F(IsolatedRuntimeTest, says_why_a_model_does_not_load) {
  const auto none = load("none");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().id, ErrorId::kModelCorrupt);
  EXPECT_EQ(none.error().message, "no word of mine");
  const auto stillborn = load("stillborn");
  ASSERT_FALSE(stillborn.ok());
  EXPECT_EQ(stillborn.error().id, ErrorId::kModelNotReady);
  EXPECT_NE(stillborn.error().message.find("code 9"), std::string::npos);
  options_.load_max = Duration::milliseconds(50);
  const auto slow = load("slow");
  ASSERT_FALSE(slow.ok());
  EXPECT_NE(slow.error().message.find("too long"), std::string::npos);
  options_.process = [](unsigned) {
    exec::ChildSpec spec;
    spec.argv = {"/nonexistent"};
    return spec;
  };
  const auto missing = load("double");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().id, ErrorId::kRuntimeUnavailable);
}

TEST(IsolationPause, doubles_up_to_its_end) {
  IsolationOptions options;
  options.pause_min = Duration::milliseconds(100);
  options.pause_max = Duration::seconds(30);
  EXPECT_EQ(pause_after(1, options), Duration::milliseconds(100));
  EXPECT_EQ(pause_after(2, options), Duration::milliseconds(200));
  EXPECT_EQ(pause_after(9, options), Duration::milliseconds(25'600));
  EXPECT_EQ(pause_after(10, options), Duration::seconds(30));
  EXPECT_EQ(pause_after(1'000'000, options), Duration::seconds(30));
}

}  // namespace
}  // namespace falaj::serving
