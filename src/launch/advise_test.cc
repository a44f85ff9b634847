#include "launch/advise.h"

#include <gtest/gtest.h>

#include <functional>

namespace falaj::launch {
namespace {

constexpr std::int64_t kMi = std::int64_t{1} << 20;

// A made-up program on a made-up machine: what each trial would give.
using World = std::function<TrialResult(const Trial&)>;

struct Ran {
  std::vector<TrialResult> tried;
  std::optional<Advice> advice;
  std::string error;
  int steps() const {
    int sum = 0;
    for (const TrialResult& each : tried) sum += each.trial.steps;
    return sum;
  }
};

Ran run(const AdviseLimits& limits, const World& world) {
  Ran ran;
  while (ran.tried.size() < 100) {
    const auto next = advise(limits, ran.tried);
    if (!next.ok()) {
      ran.error = next.error().message;
      return ran;
    }
    if (const auto* advice = std::get_if<Advice>(&*next)) {
      ran.advice = *advice;
      return ran;
    }
    ran.tried.push_back(world(std::get<Trial>(*next)));
  }
  ADD_FAILURE() << "it never ends";
  return ran;
}

TrialResult done(const Trial& trial, double rate, std::int64_t memory) {
  return {trial, TrialEnd::kDone, rate, memory, ""};
}

// 100 MiB and 1 MiB a sample, within the limit; speed by precision, processes and threads.
World linear(std::int64_t limit, double bf16, double more_processes, double threads) {
  return [=](const Trial& trial) {
    const std::int64_t memory = (100 * trial.processes + trial.batch) * kMi;
    if (memory > limit) return TrialResult{trial, TrialEnd::kOutOfMemory, 0, limit, "killed"};
    double rate = trial.precision == Precision::kBf16 ? 100 * bf16 : 100;
    if (trial.processes > 1) rate *= more_processes;
    if (trial.processes * trial.threads == 1) rate /= threads;
    return done(trial, rate, memory);
  };
}

AdviseLimits limits_of(std::int64_t memory) {
  AdviseLimits limits;
  limits.cpus = 4;
  limits.memory_bytes = memory;
  limits.bf16 = Bf16::kInHardware;
  return limits;
}

TEST(Advise, takes_what_was_quicker_and_the_largest_batch_that_fits) {
  const AdviseLimits limits = limits_of(1124 * kMi);
  const Ran ran = run(limits, linear(limits.memory_bytes, 1.5, 1.2, 3));
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_EQ(ran.advice->best.precision, Precision::kBf16);
  EXPECT_EQ(ran.advice->best.processes, 2);
  EXPECT_EQ(ran.advice->best.threads, 2);
  // 1124 MiB less 200 for two processes, of which a tenth stays free.
  EXPECT_GE(ran.advice->best.batch, 740);
  EXPECT_LE(ran.advice->best.batch, 924);
  EXPECT_LE(ran.steps(), 30);
  ASSERT_EQ(ran.advice->because.size(), 4u);
  EXPECT_EQ(ran.advice->because[0], "bf16: bf16 150 samples/s, fp32 100 samples/s");
  // A tenth is less than checkpoints like, and that is said.
  EXPECT_TRUE(ran.advice->because[3].starts_with("memory: all of the limit, which leaves "))
      << ran.advice->because[3];
}

TEST(Advise, keeps_the_simpler_when_nothing_is_gained) {
  const AdviseLimits limits = limits_of(600 * kMi);
  const Ran ran = run(limits, linear(limits.memory_bytes, 1.02, 1.04, 1));
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_EQ(ran.advice->best.precision, Precision::kFp32);
  EXPECT_EQ(ran.advice->best.processes, 1);
  EXPECT_EQ(ran.advice->best.threads, 1) << "four processors bring nothing to this program";
}

TEST(Advise, does_not_try_bf16_where_the_processor_has_none) {
  AdviseLimits limits = limits_of(600 * kMi);
  limits.bf16 = Bf16::kNone;
  const Ran ran = run(limits, linear(limits.memory_bytes, 9, 1, 3));
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_EQ(ran.advice->best.precision, Precision::kFp32);
  for (const TrialResult& each : ran.tried) EXPECT_EQ(each.trial.precision, Precision::kFp32);
}

TEST(Advise, finds_the_edge_when_memory_does_not_grow_in_a_line) {
  // Nothing until 500 samples, then too much: the line through what fits tells nothing.
  const AdviseLimits limits = limits_of(1000 * kMi);
  const Ran ran = run(limits, [&](const Trial& trial) {
    if (trial.batch > 500) return TrialResult{trial, TrialEnd::kOutOfMemory, 0, 0, "killed"};
    return done(trial, 10, 200 * kMi);
  });
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_GE(ran.advice->best.batch, 400);
  EXPECT_LE(ran.advice->best.batch, 500);
  EXPECT_LE(ran.steps(), 30);
}

TEST(Advise, begins_smaller_when_the_first_batch_does_not_fit) {
  AdviseLimits limits = limits_of(150 * kMi);
  limits.batch_first = 1024;
  const Ran ran = run(limits, linear(limits.memory_bytes, 1, 1, 3));
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_GE(ran.advice->best.batch, 16);
  EXPECT_LE(ran.advice->best.batch, 50);
}

TEST(Advise, says_why_when_nothing_works) {
  const AdviseLimits limits = limits_of(50 * kMi);
  EXPECT_NE(run(limits, linear(limits.memory_bytes, 1, 1, 1)).error.find("not even a batch of"),
            std::string::npos);
  const Ran broken = run(limits, [](const Trial& trial) {
    return TrialResult{trial, TrialEnd::kFailed, 0, 0, "ImportError: torch"};
  });
  EXPECT_EQ(broken.error, "the program fails with batch 32: ImportError: torch");
}

TEST(Advise, a_program_that_fails_in_one_way_is_advised_another) {
  const AdviseLimits limits = limits_of(600 * kMi);
  const Ran ran = run(limits, [&](const Trial& trial) {
    if (trial.precision == Precision::kBf16 || trial.processes > 1) {
      return TrialResult{trial, TrialEnd::kFailed, 0, 0, "not supported"};
    }
    return linear(limits.memory_bytes, 1, 1, 3)(trial);
  });
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_EQ(ran.advice->best.processes, 1);
  EXPECT_NE(ran.advice->because[0].find("not done: not supported"), std::string::npos);
}

TEST(Advise, a_larger_batch_that_fails_is_not_said_not_to_fit) {
  const AdviseLimits limits = limits_of(600 * kMi);
  const Ran ran = run(limits, [&](const Trial& trial) {
    if (trial.batch > 64) {
      return TrialResult{trial, TrialEnd::kFailed, 0, 0, "IndexError: only 100 rows"};
    }
    return linear(limits.memory_bytes, 1, 1, 1)(trial);
  });
  ASSERT_TRUE(ran.advice) << ran.error;
  EXPECT_EQ(ran.advice->best.batch, 32);
  std::string said;
  for (const std::string& each : ran.advice->because) said += each + "\n";
  EXPECT_EQ(said.find("did not fit"), std::string::npos) << said;
  EXPECT_NE(said.find("batch 128 failed, and no other was tried: IndexError: only 100 rows"),
            std::string::npos)
      << said;
}

TEST(Advise, what_a_process_is_given_holds_its_peak_beside_the_checkpoints_that_wait) {
  for (const std::int64_t peak : {kMi, 100 * kMi, 1000 * kMi, 30'000 * kMi}) {
    for (const int processes : {1, 2, 3, 8}) {
      const std::int64_t all = memory_of_each(peak, processes, 100'000 * kMi) * processes;
      EXPECT_GE(all - all / kWaitingShare, peak / 10 * 11) << peak << " of " << processes;
      EXPECT_LE(all, peak * 3 / 2 + 65 * kMi * processes);
      const std::int64_t limit = peak + 7 * kMi;
      const std::int64_t clamped = memory_of_each(peak, processes, limit) * processes;
      EXPECT_LE(clamped, limit) << peak << " of " << processes;
      EXPECT_GT(clamped, limit - processes * kMi) << "all of it but what does not come out even";
    }
  }
}

TEST(Advise, always_ends_within_its_steps) {
  std::uint64_t seed = 7;
  const auto random = [&seed](std::uint64_t below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % below;
  };
  for (int round = 0; round < 2'000; ++round) {
    AdviseLimits limits = limits_of(static_cast<std::int64_t>(50 + random(4000)) * kMi);
    limits.cpus = static_cast<int>(1 + random(64));
    limits.batch_first = static_cast<std::int64_t>(1 + random(5000));
    const Ran ran = run(limits, [&](const Trial& trial) {
      EXPECT_LE(trial.batch, limits.batch_most);
      EXPECT_GE(trial.batch, trial.processes);
      TrialResult result{trial, static_cast<TrialEnd>(random(8) == 0 ? 1 + random(2) : 0),
                         static_cast<double>(random(1000)),
                         static_cast<std::int64_t>(random(4000)) * kMi, "no"};
      return result;
    });
    EXPECT_LE(ran.steps(), limits.steps_most);
    EXPECT_TRUE(ran.advice.has_value() || !ran.error.empty());
  }
}

TEST(Advise, reads_what_the_processes_reported) {
  const StepReport two = read_steps(
      "{\"step\": 1, \"samples\": 8, \"at\": 10}\n{\"step\": 1, \"samples\": 8, \"at\": 11}\n"
      "garbage\n{\"step\": 2, \"samples\": 8, \"at\": 12}\n"
      "{\"step\": 2, \"samples\": 8, \"at\": 13}\n",
      2);
  EXPECT_EQ(two.steps, 2);
  EXPECT_EQ(two.samples_per_second, 8);
  EXPECT_EQ(read_steps("{\"step\": 1, \"samples\": 8, \"at\": 10}\n", 1).samples_per_second, 0);
  EXPECT_EQ(read_steps("{\"step\": 1, \"samples\": 8, \"at\": 10}\n", 2).steps, 0);
}

}  // namespace
}  // namespace falaj::launch
