#include "serving/batching/batcher.h"

#include <gtest/gtest.h>

#include <thread>

#include "serving/testing/held_session.h"
#include "serving/testing/serving_world.h"

namespace falaj::serving::batching {
namespace {

using testing::HeldSession;
using testing::row;
using testing::value_of;

class BatcherTest : public ::testing::Test {
 protected:
  Batcher& batcher(std::size_t rows_max) {
    batcher_ = std::make_unique<Batcher>(
        session_, BatcherOptions{1, rows_max, [this] { return now_.fetch_add(1'000); }});
    return *batcher_;
  }
  // What became of request `i`, as text.
  Job job(std::size_t i, Tensor input, std::int64_t deadline = kNoDeadline) {
    if (answers_.size() <= i) answers_.resize(i + 1);
    Job made;
    made.inputs = {std::move(input)};
    made.order.deadline = deadline;
    made.gone = gone_;
    made.done = [this, i](Outcome outcome, const std::vector<Tensor>&) {
      MutexLock lock(mutex_);
      answers_[i] += outcome.outputs.ok()
                         ? std::to_string(value_of((*outcome.outputs)[0])).substr(0, 4)
                         : std::string(outcome.outputs.error().message).substr(0, 15);
    };
    return made;
  }
  std::vector<std::string> answers() {
    MutexLock lock(mutex_);
    return answers_;
  }

  std::shared_ptr<HeldSession> session_ = std::make_shared<HeldSession>();
  std::atomic<std::int64_t> now_ = 0;
  std::unique_ptr<Batcher> batcher_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  Mutex mutex_;
  std::vector<std::string> answers_;
};

TEST_F(BatcherTest, what_comes_while_it_runs_is_run_together_after_it) {
  Batcher& line = batcher(8);
  answers_.resize(5);
  std::thread first([&] { line.submit(job(0, row(10))); });
  session_->wait_for_first();
  for (std::size_t i = 1; i < 5; ++i) line.submit(job(i, row(static_cast<float>(10 + i))));
  EXPECT_EQ(line.waiting(), 4U);
  session_->release();
  first.join();
  EXPECT_EQ(answers(), (std::vector<std::string>{"10.0", "11.0", "12.0", "13.0", "14.0"}));
  EXPECT_EQ(session_->runs(), (std::vector<std::int64_t>{1, 2, 2}))
      << "two at first: four were never tried";
  EXPECT_EQ(line.waiting(), 0U);
}

TEST_F(BatcherTest, runs_one_by_one_what_may_not_run_together) {
  Batcher& line = batcher(1);
  answers_.resize(3);
  std::thread first([&] { line.submit(job(0, row(1))); });
  session_->wait_for_first();
  line.submit(job(1, row(2)));
  line.submit(job(2, row(3)));
  session_->release();
  first.join();
  EXPECT_EQ(session_->runs(), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(answers(), (std::vector<std::string>{"1.00", "2.00", "3.00"}));
}

TEST_F(BatcherTest, one_that_fails_does_not_take_the_others_with_it) {
  Batcher& line = batcher(8);
  answers_.resize(3);
  std::thread first([&] { line.submit(job(0, row(1))); });
  session_->wait_for_first();
  line.submit(job(1, row(-5)));
  line.submit(job(2, row(7)));
  session_->release();
  first.join();
  EXPECT_EQ(answers(), (std::vector<std::string>{"1.00", "below zero", "7.00"}));
}

TEST_F(BatcherTest,
       drops_what_is_late_or_whose_caller_has_left_and_refuses_what_cannot_be_in_time) {
  Batcher& line = batcher(8);
  answers_.resize(5);
  session_->release();
  line.submit(job(0, row(1)));  // Learns how long one takes: 1 µs of the driven clock.
  EXPECT_EQ(answers()[0], "1.00");
  session_ = std::make_shared<HeldSession>();
  Batcher& held = batcher(8);
  std::thread first([&] { held.submit(job(1, row(2))); });
  session_->wait_for_first();
  held.submit(job(2, row(3), now_.load() + 1'000'000));
  auto left = std::make_shared<std::atomic<bool>>(false);
  Job leaves = job(3, row(4));
  leaves.gone = left;
  held.submit(std::move(leaves));
  held.submit(job(4, row(5)));
  left->store(true);
  now_ += 10'000'000;
  session_->release();
  first.join();
  EXPECT_EQ(answers(), (std::vector<std::string>{"1.00", "2.00", "Request timeout",
                                                 "the caller has ", "5.00"}));
}

TEST_F(BatcherTest, refuses_when_too_many_of_one_caller_wait) {
  Batcher& line = batcher(8);
  constexpr std::size_t kOwnMax = kWaitingMax / 2;
  answers_.resize(kOwnMax + 2);
  std::thread first([&] { line.submit(job(0, row(1))); });
  session_->wait_for_first();
  for (std::size_t i = 1; i <= kOwnMax + 1; ++i) line.submit(job(i, row(2)));
  EXPECT_EQ(answers()[kOwnMax + 1], "Exceeds maximum");
  session_->release();
  first.join();
  EXPECT_EQ(answers()[kOwnMax], "2.00");
}

TEST(RowsThatAgree, is_proved_on_the_model_itself) {
  const auto runtime = open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
  const auto load = [&](const std::string& onnx) { return runtime->load_bytes(onnx).value(); };
  EXPECT_EQ(rows_that_agree(*load(testing::identity_onnx(testing::kOnnxFloat, {-1, 3})),
                            Duration::seconds(20)),
            256U);
  EXPECT_EQ(rows_that_agree(*load(testing::identity_onnx(testing::kOnnxFloat, {3})),
                            Duration::seconds(20)),
            1U)
      << "it has no rows";
  EXPECT_EQ(rows_that_agree(*load(testing::identity_onnx(testing::kOnnxString, {-1})),
                            Duration::seconds(20)),
            1U)
      << "texts run alone";
  // The mean over all rows: each row's answer depends on the others.
  testing::Proto graph;
  graph.message(1, testing::node("Sub", {"x", "m"}, {"y"}));
  graph = testing::Proto();
  graph.message(1, testing::node("ReduceMean", {"x"}, {"m"}, {{"keepdims", 1}}));
  graph.message(1, testing::node("Sub", {"x", "m"}, {"y"}));
  graph.bytes(2, "centred");
  graph.message(11, testing::value_info("x", testing::kOnnxFloat, {-1, 2}));
  graph.message(12, testing::value_info("y", testing::kOnnxFloat, {-1, 2}));
  EXPECT_EQ(rows_that_agree(*load(testing::model_bytes(graph, "")), Duration::seconds(20)), 1U);
}

// Gives back what it gets, and remembers the most rows of it.
class WideSession final : public Session {
 public:
  explicit WideSession(std::int64_t width)
      : signature_{{{"x", "FP32", {-1, width}}}, {{"x", "FP32", {-1, width}}}, {}} {}
  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    most_ = std::max(most_, inputs[0].shape[0]);
    return std::vector<Tensor>(inputs.begin(), inputs.end());
  }
  Status score(std::span<const float>, std::size_t, std::vector<float>&) const override {
    return Error(Code::kUnimplemented, "");
  }
  std::int64_t most() const { return most_; }

 private:
  registry::Signature signature_;
  mutable std::int64_t most_ = 0;
};

TEST(RowsThatAgree, is_tried_within_a_bound_of_memory) {
  const WideSession wide(1 << 20);  // 4 MiB a row: seven and a bit of them.
  EXPECT_EQ(rows_that_agree(wide, Duration::seconds(60)), 7U);
  EXPECT_EQ(wide.most(), 7);
  const WideSession wider(8 << 20);  // One row is all.
  EXPECT_EQ(rows_that_agree(wider, Duration::seconds(60)), 1U);
  EXPECT_EQ(wider.most(), 0);
}

// Many threads, real sessions: every answer is bit for bit what the model gives alone.
TEST(Batching, answers_are_bit_equal_with_and_without) {
  const auto runtime = open_onnx_runtime({FALAJ_TEST_LIBS "libonnxruntime.so.1", 1}).value();
  const std::shared_ptr<const Session> session =
      runtime->load_bytes(testing::classifier_onnx({0.25F, -1.5F, 3.75F}, 0.1F)).value();
  const std::size_t rows_max = rows_that_agree(*session, Duration::seconds(20));
  Batcher batcher(session, {2, rows_max, [] { return monotonic_nanos(); }});
  std::atomic<int> differing = 0;
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < 200; ++i) {
        Tensor input{"input", "FP32", {1 + i % 3, 3}, {}};
        for (unsigned j = 0; j < (1 + i % 3) * 3; ++j) {
          const float value = static_cast<float>(thread * 7 + i * 3 + j) / 11;
          input.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
        }
        const auto alone = session->run({&input, 1}).value();
        Job job;
        job.inputs = {input};
        job.done = [&, alone](Outcome outcome, const std::vector<Tensor>&) {
          ++answered;
          bool same = outcome.outputs.ok() && outcome.outputs->size() == alone.size();
          for (std::size_t t = 0; same && t < alone.size(); ++t) {
            same = (*outcome.outputs)[t].bytes == alone[t].bytes &&
                   (*outcome.outputs)[t].shape == alone[t].shape;
          }
          differing += same ? 0 : 1;
        };
        batcher.submit(std::move(job));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered.load(), 800);
  EXPECT_EQ(differing.load(), 0);
}

}  // namespace
}  // namespace falaj::serving::batching
