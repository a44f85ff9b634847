// Rollouts over simulated traffic, on a driven clock: two equal models for a day, and candidates
// that are worse in one way each. Requests are simulated; who is asked, what is counted and what is
// decided is the code that serves.
//
// FALAJ_ROLLOUT_SEEDS=200 runs the day as it is recorded in docs/reference/performance.md; without
// it a small share of the same runs. FALAJ_ROLLOUT_TICK is how often it is asked, in seconds.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serving/rollout/sharing.h"

namespace falaj::serving::rollout {
namespace {

std::int64_t from_environment(const char* name, std::int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoll(text, nullptr, 10);
}

// What is wrong with the candidate.
struct Fault {
  double slower = 1;       // Factor of its latency.
  double errors = 0;       // Added share.
  double score_power = 1;  // Scores are u^power of a uniform u.
};

// Who asks.
struct World {
  double rate = 20;  // Requests a second, on average.
  std::size_t units = 200'000;
  std::size_t bad_units = 0;  // Whose requests no model can answer.
  double errors = 0.001;      // Share of all other requests that a model fails, by chance.
};

const Timestamp kStart = Timestamp::from_seconds(1'780'000'000);

// Traffic whose rate and latency follow the hour of the day, with minutes in which a fifth of all
// requests fail or are ten times as slow, whichever model answers. Units come back.
class Traffic {
 public:
  Traffic(std::uint64_t seed, const World& world, Fault fault)
      : random_(seed), salt_(seed), world_(world), fault_(fault) {
    std::normal_distribution<double> normal(0, 1);
    for (double& each : normal_) each = normal(random_);
  }

  void enter(double share) {
    share_ = share;
    counters_ =
        std::make_unique<StepCounters>(share == 0 ? StepKind::kShadow : StepKind::kShared, edges());
  }
  void fall_ill(Fault fault) { fault_ = fault; }

  void run(double from_seconds, double seconds) {
    constexpr double kDay = 86'400;
    const double wave = std::sin(6.283185307 * from_seconds / kDay);
    std::poisson_distribution<int> count(world_.rate * (1 + 0.5 * wave) * seconds);
    bad_ = static_cast<std::int64_t>(from_seconds / 60) % 97 == 13;
    pace_ = 5e6 * (1 + 0.3 * wave);
    for (int left = count(random_); left > 0; --left) request();
  }

  StepCounters& counters() { return *counters_; }

 private:
  static std::vector<float> edges() {
    std::vector<float> edges;
    for (int i = 1; i < 10; ++i) edges.push_back(0.1F * static_cast<float>(i));
    return edges;
  }

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  void request() {
    const std::size_t number = random_() % world_.units;
    const std::uint64_t unit = unit_of(std::to_string(number), salt_);
    const auto candidate = [&] { return tried(number, unit, fault_); };
    const auto mirror = [&] {
      count(*counters_, ArmName::kCandidate, unit, candidate());
      return true;
    };
    share_request(
        share_, *counters_, unit, [&] { return tried(number, unit, Fault{}); }, candidate, mirror);
  }

  Tried tried(std::size_t number, std::uint64_t unit, const Fault& fault) {
    const double bad = bad_ ? uniform() : 1;
    if (number < world_.bad_units || bad < 0.1 || uniform() < world_.errors + fault.errors) {
      return {Tried::How::kFailed, {}};
    }
    const double slow = bad < 0.2 ? 10 : 1;
    const double nanos =
        pace_ * fault.slower * slow * std::exp(0.35 * normal_[random_() % normal_.size()]);
    // Who a unit is decides its score; both models agree on it unless the candidate is shifted.
    const double position = place_of(unit_of(std::to_string(number), 0xface));
    const auto score = static_cast<float>(std::pow(position, fault.score_power));
    return {Tried::How::kAnswered, {unit, static_cast<std::int64_t>(nanos), 1, 0, score}};
  }

  std::mt19937_64 random_;
  std::uint64_t salt_;
  World world_;
  Fault fault_;
  std::array<double, 1 << 14> normal_{};
  double share_ = 0;
  bool bad_ = false;
  double pace_ = 0;
  std::unique_ptr<StepCounters> counters_;
};

struct Outcome {
  Verdict verdict = Verdict::kHold;
  std::string reason;
  double seconds = 0;  // Since the last step was entered.
  std::size_t step = 0;
};

// Asks at every tick and does what it says, until it ends or `limit` seconds have passed.
Outcome walk(Traffic& traffic, const RolloutPolicy& policy, std::int64_t tick, std::int64_t limit) {
  Outcome outcome;
  std::int64_t entered = 0;
  traffic.enter(policy.steps[0]);
  for (std::int64_t at = tick; at <= limit; at += tick) {
    traffic.run(static_cast<double>(at - tick), static_cast<double>(tick));
    Evidence evidence;
    evidence.step = outcome.step;
    evidence.entered_at = kStart + Duration::seconds(entered);
    const Timestamp now = kStart + Duration::seconds(at);
    traffic.counters().observe(now, evidence);
    const Decision decision = decide(evidence, policy, now);
    outcome.verdict = decision.verdict;
    outcome.reason = decision.reason;
    outcome.seconds = static_cast<double>(at - entered);
    if (decision.verdict == Verdict::kHold) continue;
    if (decision.verdict != Verdict::kAdvance) return outcome;
    entered = at;
    traffic.enter(policy.steps[++outcome.step]);
  }
  return outcome;
}

// Two equal models, a shadow and four shares, 24 hours: no verdict but promotion, ever.
TEST(SimulatedRollout, does_not_roll_back_a_model_that_is_no_worse) {
  const std::int64_t seeds = from_environment("FALAJ_ROLLOUT_SEEDS", 3);
  const std::int64_t tick = from_environment("FALAJ_ROLLOUT_TICK", 120);
  RolloutPolicy policy;
  policy.step_min = Duration::minutes(288);  // Five steps fill the day.
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    Traffic traffic(static_cast<std::uint64_t>(seed), World{}, Fault{});
    const Outcome outcome = walk(traffic, policy, tick, 2 * 86'400);
    EXPECT_EQ(outcome.verdict, Verdict::kPromote) << "seed " << seed << ": " << outcome.reason;
    EXPECT_EQ(outcome.step, 4U) << "seed " << seed;
  }
}

// Of so many seeds, how many rollouts of two equal models were taken back, and how many promoted:
// a shadow of twenty minutes, and a half of the traffic for the rest of an hour.
struct Ends {
  std::int64_t seeds = 0;
  std::int64_t taken_back = 0;
  std::int64_t promoted = 0;
};

Ends of_equal_models(const World& world, std::int64_t seeds) {
  RolloutPolicy policy;
  policy.steps = {0, 0.5};
  policy.step_min = Duration::minutes(20);
  const std::int64_t tick = from_environment("FALAJ_ROLLOUT_TICK", 120);
  Ends ends{seeds, 0, 0};
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    Traffic traffic(static_cast<std::uint64_t>(seed), world, Fault{});
    const Outcome outcome = walk(traffic, policy, tick, 3600);
    ends.taken_back += outcome.verdict == Verdict::kRollback ? 1 : 0;
    ends.promoted += outcome.verdict == Verdict::kPromote ? 1 : 0;
  }
  std::cout << world.errors * 100 << " % errors, " << world.bad_units << " bad of " << world.units
            << " units: " << ends.taken_back << " of " << seeds << " taken back, " << ends.promoted
            << " promoted\n";
  return ends;
}

// Each version fails a request or not, whatever the other does with it.
TEST(SimulatedRollout, does_not_roll_back_an_equal_model_for_errors_that_come_by_chance) {
  const std::int64_t seeds = from_environment("FALAJ_ROLLOUT_SEEDS", 10);
  for (const double errors : {0.01, 0.02, 0.05}) {
    EXPECT_EQ(of_equal_models({.errors = errors}, seeds).taken_back, 0) << errors;
  }
}

// A customer whom no model can answer says the same a thousand times.
TEST(SimulatedRollout, does_not_roll_back_an_equal_model_for_a_few_bad_customers) {
  const Ends dozen = of_equal_models({.rate = 5, .units = 12, .bad_units = 1},
                                     from_environment("FALAJ_ROLLOUT_SEEDS", 200));
  EXPECT_EQ(dozen.taken_back, 0);
  EXPECT_EQ(dozen.promoted, 0) << "a dozen say too little";
  const Ends many = of_equal_models({.units = 2'000, .bad_units = 40},
                                    from_environment("FALAJ_ROLLOUT_SEEDS", 10));
  EXPECT_EQ(many.taken_back, 0);
}

// Everybody has voted long ago when it begins to fail.
TEST(SimulatedRollout, rolls_back_a_model_that_falls_ill_late) {
  RolloutPolicy policy;
  policy.steps = {0.5};
  policy.step_min = Duration::days(1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Traffic traffic(seed, {.rate = 50, .units = 2'000}, Fault{});
    EXPECT_EQ(walk(traffic, policy, 10, 1800).verdict, Verdict::kHold);
    traffic.fall_ill({.errors = 0.5});
    Evidence evidence;
    evidence.entered_at = kStart;
    std::int64_t at = 1800;
    Verdict verdict = Verdict::kHold;
    while (verdict == Verdict::kHold && at < 2400) {
      traffic.run(static_cast<double>(at), 1);
      const Timestamp now = kStart + Duration::seconds(++at);
      traffic.counters().observe(now, evidence);
      verdict = decide(evidence, policy, now).verdict;
    }
    EXPECT_EQ(verdict, Verdict::kRollback) << "seed " << seed;
    EXPECT_LE(at - 1800, 330) << "seed " << seed;  // A window, and a little of the next.
  }
}

// Straight at a share of the traffic, asked every second.
std::vector<double> seconds_to_rollback(const Fault& fault, double rate, double share,
                                        const std::string& guard) {
  const std::int64_t seeds = from_environment("FALAJ_ROLLOUT_SEEDS", 20);
  RolloutPolicy policy;
  policy.steps = {share, 0.5, 0.5, 0.5, 0.5};  // As many steps as usual: alpha is dealt out alike.
  std::vector<double> seconds;
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    Traffic traffic(static_cast<std::uint64_t>(seed), World{.rate = rate}, fault);
    const Outcome outcome = walk(traffic, policy, 1, 300);
    EXPECT_EQ(outcome.verdict, Verdict::kRollback) << "seed " << seed << ": " << outcome.reason;
    EXPECT_EQ(outcome.reason.find(guard), 0U) << "seed " << seed << ": " << outcome.reason;
    seconds.push_back(outcome.seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  std::cout << guard << " at " << rate << " requests/s and " << share * 100 << " %: median "
            << seconds[seconds.size() / 2] << " s, longest " << seconds.back() << " s of " << seeds
            << " seeds\n";
  return seconds;
}

constexpr double kRate = 2000;
constexpr double kShare = 0.5;

TEST(SimulatedRollout, rolls_back_a_slow_model_in_ten_seconds) {
  EXPECT_LE(seconds_to_rollback({.slower = 1.5}, kRate, kShare, "latency").back(), 10);
}

TEST(SimulatedRollout, rolls_back_a_failing_model_in_ten_seconds) {
  EXPECT_LE(seconds_to_rollback({.errors = 0.02}, kRate, kShare, "errors").back(), 10);
}

TEST(SimulatedRollout, rolls_back_shifted_scores_in_ten_seconds) {
  // Scores u^2.5 against u: a gap of a third between the distributions.
  EXPECT_LE(seconds_to_rollback({.score_power = 2.5}, kRate, kShare, "shift").back(), 10);
}

}  // namespace
}  // namespace falaj::serving::rollout
