#include "serving/response_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace falaj::serving {
namespace {

using How = ResponseCache::Asked::How;

Tensor tensor(std::string name, std::string bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  return {std::move(name), "UINT8", {size}, std::move(bytes)};
}
KeptOutputs outputs(const std::string& bytes) {
  return std::make_shared<const std::vector<Tensor>>(std::vector<Tensor>{tensor("y", bytes)});
}
Sha256 key(const std::string& bytes) {
  return question_key("model", "", std::vector<Tensor>{tensor("x", bytes)});
}
ResponseCache::Asked ask(ResponseCache& cache, const Sha256& key,
                         ResponseCache::Urgency urgency = {}) {
  return cache.ask(key, urgency, [] { return [](const KeptOutputs&) {}; });
}
void keep(ResponseCache& cache, const std::string& question, const std::string& answer) {
  const ResponseCache::Asked asked = ask(cache, key(question));
  ASSERT_EQ(asked.how, How::kRun);
  cache.finish(key(question), asked, outputs(answer));
}

TEST(ResponseCache, a_key_is_of_everything_that_makes_an_answer) {
  const auto of = [](std::string_view digest, std::string_view caller,
                     const std::vector<Tensor>& inputs) {
    return question_key(digest, caller, inputs);
  };
  const Tensor a = tensor("a", "12");
  const Tensor b = tensor("b", "34");
  Tensor shaped = a;
  shaped.shape = {1, 2};
  Tensor typed = a;
  typed.datatype = "INT8";
  const std::set<Sha256> keys{of("m", "", {a}),
                              of("n", "", {a}),
                              of("m", "u", {a}),
                              of("mu", "", {a}),
                              of("m", "", {b}),
                              of("m", "", {a, b}),
                              of("m", "", {shaped}),
                              of("m", "", {typed}),
                              of("m", "", {}),
                              of("m", "", {tensor("a", "1")}),
                              of("m", "", {tensor("a1", "2")})};
  EXPECT_EQ(keys.size(), 11U);
  EXPECT_EQ(of("m", "", {a, b}), of("m", "", {b, a})) << "inputs have names, not places";
}

TEST(ResponseCache, gives_what_was_kept_and_drops_what_was_used_longest_ago) {
  ResponseCache probe(1 << 20);
  keep(probe, "0", std::string(100, 'x'));
  const std::size_t each = probe.bytes();
  ResponseCache cache(3 * each);
  for (const char* question : {"0", "1", "2"}) keep(cache, question, std::string(100, 'x'));
  EXPECT_NE(cache.look(key("0")).outputs, nullptr);  // Used: "1" is the oldest now.
  const ResponseCache::Asked asked = ask(cache, key("3"));
  EXPECT_EQ(cache.finish(key("3"), asked, outputs(std::string(100, 'y'))).evicted, 1U);
  EXPECT_EQ(cache.look(key("1")).outputs, nullptr);
  EXPECT_NE(cache.look(key("0")).outputs, nullptr);
  EXPECT_EQ(ask(cache, key("3")).outputs->front().bytes, std::string(100, 'y'));
  EXPECT_EQ(cache.bytes(), 3 * each);
}

TEST(ResponseCache, never_holds_more_bytes_than_it_may) {
  ResponseCache cache(4096);
  keep(cache, "large", std::string(5000, 'x'));
  EXPECT_EQ(cache.bytes(), 0U);
  for (int i = 0; i < 200; ++i) {
    keep(cache, std::to_string(i), std::string(static_cast<std::size_t>(i * 17 % 2000), 'x'));
    ASSERT_LE(cache.bytes(), 4096U);
  }
  EXPECT_GT(cache.bytes(), 0U);
}

TEST(ResponseCache, equal_questions_at_once_run_once) {
  ResponseCache cache(1 << 20);
  const ResponseCache::Asked leader = ask(cache, key("q"));
  ASSERT_EQ(leader.how, How::kRun);
  int told = 0;
  for (int i = 0; i < 3; ++i) {
    const auto asked = cache.ask(key("q"), {}, [&] {
      return [&](const KeptOutputs& kept) { told += kept->front().bytes == "a" ? 1 : 0; };
    });
    EXPECT_EQ(asked.how, How::kWait);
  }
  for (const auto& waiter : cache.finish(key("q"), leader, outputs("a")).waiters) {
    waiter(outputs("a"));
  }
  EXPECT_EQ(told, 3);
  EXPECT_EQ(ask(cache, key("q")).how, How::kKept);
}

TEST(ResponseCache, a_failure_is_not_kept_and_frees_who_waits_to_run) {
  ResponseCache cache(1 << 20);
  const ResponseCache::Asked leader = ask(cache, key("q"));
  EXPECT_EQ(ask(cache, key("q")).how, How::kWait);
  EXPECT_EQ(cache.finish(key("q"), leader, nullptr).waiters.size(), 1U);
  EXPECT_EQ(cache.look(key("q")).outputs, nullptr);
  EXPECT_EQ(ask(cache, key("q")).how, How::kRun);
}

TEST(ResponseCache, who_is_more_urgent_runs_and_its_answer_is_for_all_who_wait) {
  ResponseCache cache(1 << 20);
  const ResponseCache::Asked leader = ask(cache, key("q"), {5, 1000});
  EXPECT_EQ(ask(cache, key("q"), {5, 1000}).how, How::kWait);
  EXPECT_EQ(ask(cache, key("q"), {1, 1000}).how, How::kRun);
  const ResponseCache::Asked urgent = ask(cache, key("q"), {5, 999});
  ASSERT_EQ(urgent.how, How::kRun);
  EXPECT_TRUE(cache.finish(key("q"), urgent, nullptr).waiters.empty()) << "the first still runs";
  EXPECT_EQ(cache.finish(key("q"), urgent, outputs("a")).waiters.size(), 1U);
  EXPECT_TRUE(cache.finish(key("q"), leader, outputs("a")).waiters.empty());
  EXPECT_EQ(ask(cache, key("q")).how, How::kKept);
}

TEST(ResponseCache, what_ran_while_it_was_cleared_is_answered_and_not_kept) {
  ResponseCache cache(1 << 20);
  keep(cache, "before", "a");
  const ResponseCache::Asked leader = ask(cache, key("q"));
  EXPECT_EQ(ask(cache, key("q")).how, How::kWait);
  cache.clear();
  EXPECT_EQ(cache.bytes(), 0U);
  EXPECT_EQ(cache.look(key("before")).outputs, nullptr);
  EXPECT_EQ(cache.finish(key("q"), leader, outputs("a")).waiters.size(), 1U);
  EXPECT_EQ(cache.look(key("q")).outputs, nullptr);
}

TEST(ResponseCache, holds_under_many_threads) {
  ResponseCache cache(8192);
  std::atomic<int> answered = 0;
  const auto work = [&](int seed) {
    for (int i = 0; i < 2000; ++i) {
      const std::string question = std::to_string((i * 7 + seed) % 40);
      const auto waiter = [&answered, question](const KeptOutputs& kept) {
        answered += kept == nullptr || kept->front().bytes == question ? 1 : 0;
      };
      const auto asked = cache.ask(key(question), {}, [&] { return waiter; });
      if (asked.how == How::kKept) waiter(asked.outputs);
      if (asked.how != How::kRun) continue;
      const KeptOutputs made = i % 9 == 0 ? nullptr : outputs(question);
      for (const auto& each : cache.finish(key(question), asked, made).waiters) each(made);
      waiter(made);
      if (i % 500 == 0) cache.clear();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 4 * 2000) << "each question has its own answer, once";
}

}  // namespace
}  // namespace falaj::serving
