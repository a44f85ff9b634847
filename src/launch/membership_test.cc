#include "launch/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace falaj::launch {
namespace {

// A gang in memory: does what the actions say, so that tests tell only what happens to it.
class World {
 public:
  explicit World(const Policy& policy) : policy_(policy), machine_(policy) {}

  void join(const std::string& node, int slots) { apply(NodeJoined{node, slots}); }
  void lose(const std::string& node) {
    std::erase_if(running_, [&](const auto& each) { return each.second == node; });
    apply(NodeLost{node});
  }
  void end(int process, ExitStatus status) {
    ASSERT_EQ(running_.erase(process), 1u) << process;
    apply(WorkerEnded{machine_.attempt(), process, status});
  }
  // Everybody who was told to stop does so.
  void obey(ExitStatus status = {0, 15}) {
    while (stopping_ && !running_.empty()) end(running_.begin()->first, status);
  }
  void apply(const Event& event) {
    last_.clear();
    for (const Action& action : machine_.apply(event, now_)) {
      EXPECT_FALSE(finished_) << "an action after the end";
      last_.push_back(action);
      std::visit([this](const auto& each) { act(each); }, action);
    }
  }
  void pass(Duration time) { now_ = now_ + time; }

  bool runs() const { return !running_.empty() && !stopping_; }
  template <class T>
  bool did() const {
    return std::any_of(last_.begin(), last_.end(),
                       [](const Action& each) { return std::holds_alternative<T>(each); });
  }

  const Policy policy_;
  Membership machine_;
  std::map<int, std::string> running_;
  std::vector<Share> shares_;
  std::vector<Action> last_;
  std::optional<Finish> finished_;
  std::optional<Duration> pause_;
  StopWith how_ = StopWith::kQuick;
  bool stopping_ = false;
  int attempts_ = 0;
  Timestamp now_ = Timestamp::from_seconds(1000);

 private:
  std::map<int, std::string> node_of_;

  void act(const StartAll& all) {
    EXPECT_TRUE(running_.empty()) << "started while others still run";
    EXPECT_EQ(all.attempt, attempts_++);
    stopping_ = false;
    pause_.reset();
    shares_ = all.shares;
    int rank = 0;
    for (const Share& share : all.shares) {
      EXPECT_EQ(share.first_rank, rank);
      EXPECT_GT(share.workers, 0);
      for (int i = 0; i < share.workers; ++i) running_[rank++] = share.node;
    }
    EXPECT_EQ(rank, machine_.world());
    EXPECT_GE(rank, policy_.workers_min);
    EXPECT_LE(rank, policy_.workers_max);
    for (int i = 0; i < policy_.helpers; ++i) running_[rank + i] = all.shares.front().node;
    node_of_ = running_;
  }
  void act(const StartOne& one) {
    EXPECT_EQ(one.attempt, machine_.attempt());
    EXPECT_TRUE(running_.emplace(one.process, node_of_[one.process]).second);
  }
  void act(const StopAll& stop) {
    EXPECT_FALSE(running_.empty());
    stopping_ = true;
    how_ = stop.how;
  }
  void act(const WakeMe& wake) {
    EXPECT_GT(wake.after.nanos, 0);
    pause_ = wake.after;
  }
  void act(const Say& say) { EXPECT_FALSE(say.text.empty()); }
  void act(const Finish& end) {
    EXPECT_TRUE(running_.empty()) << "finished while some still run";
    finished_ = end;
  }
};

Policy policy_of(int workers_min, int workers_max, int restarts = 0) {
  Policy policy;
  policy.workers_min = workers_min;
  policy.workers_max = workers_max;
  policy.restarts_max = restarts;
  return policy;
}

TEST(Membership, is_done_when_every_worker_is) {
  World world(policy_of(2, 2));
  world.join("a", 2);
  ASSERT_TRUE(world.runs());
  world.end(1, {});
  EXPECT_FALSE(world.finished_);
  world.end(0, {});
  ASSERT_TRUE(world.finished_);
  EXPECT_EQ(world.finished_->code, 0);
}

TEST(Membership, a_crash_restarts_everybody_and_spends_the_crash_budget) {
  World world(policy_of(2, 2, 1));
  world.join("a", 2);
  world.end(1, {0, 9});
  EXPECT_TRUE(world.did<StopAll>());
  EXPECT_EQ(world.how_, StopWith::kQuick);
  world.obey();
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.attempt(), 1);
  EXPECT_EQ(world.machine_.crashes(), 1);
  EXPECT_EQ(world.machine_.first_failure()->process, 1);
  EXPECT_EQ(world.machine_.first_failure()->status.signal, 9);
  world.end(0, {3, 0});
  world.obey();
  ASSERT_TRUE(world.finished_);
  EXPECT_EQ(world.finished_->code, 3);
  EXPECT_EQ(world.machine_.first_failure()->process, 0);
}

TEST(Membership, the_failures_that_a_failure_causes_are_not_counted) {
  World world(policy_of(3, 3, 1));
  world.join("a", 3);
  world.end(2, {1, 0});
  world.end(0, {1, 0});  // Its peer is gone: it fails before it is stopped.
  world.obey();
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.crashes(), 1);
  EXPECT_EQ(world.machine_.first_failure()->process, 2);
}

TEST(Membership, death_by_a_signal_ends_with_the_shells_code) {
  World world(policy_of(1, 1));
  world.join("a", 1);
  world.end(0, {0, 11});
  EXPECT_EQ(world.finished_->code, 139);
}

TEST(Membership, exit_75_starts_again_and_spends_nothing) {
  World world(policy_of(2, 2, 0));
  world.join("a", 2);
  for (int i = 0; i < 50; ++i) {
    world.end(0, {75, 0});
    EXPECT_EQ(world.how_, StopWith::kNotice);
    world.obey({75, 0});
    if (!world.runs()) world.apply(Woken{});
    ASSERT_TRUE(world.runs());
    world.pass(Duration::minutes(1));
  }
  EXPECT_EQ(world.machine_.crashes(), 0);
  EXPECT_EQ(world.machine_.preemptions(), 0);
}

TEST(Membership, exit_77_is_not_tried_again) {
  World world(policy_of(2, 2, 5));
  world.join("a", 2);
  world.end(1, {77, 0});
  world.obey();
  ASSERT_TRUE(world.finished_);
  EXPECT_EQ(world.finished_->code, 77);
}

TEST(Membership, the_first_restart_is_at_once_and_quick_ones_wait_longer_and_longer) {
  World world(policy_of(1, 1, 100));
  world.join("a", 1);
  std::vector<std::int64_t> pauses;  // Seconds.
  for (int i = 0; i < 9; ++i) {
    world.end(0, {1, 0});
    pauses.push_back(world.pause_ ? world.pause_->nanos / 1'000'000'000 : 0);
    if (world.pause_) world.apply(Woken{});
    ASSERT_TRUE(world.runs());
  }
  EXPECT_EQ(pauses, (std::vector<std::int64_t>{0, 1, 2, 4, 8, 16, 32, 60, 60}));
  world.pass(Duration::minutes(1));  // It ran well for a while.
  world.end(0, {1, 0});
  EXPECT_TRUE(world.runs());
}

TEST(Membership, survivors_are_kept_when_asked) {
  Policy policy = policy_of(3, 3, 1);
  policy.on_crash = OnCrash::kKeepSurvivors;
  World world(policy);
  world.join("a", 3);
  world.end(1, {0, 9});
  EXPECT_FALSE(world.did<StopAll>());
  EXPECT_TRUE(world.did<StartOne>());
  EXPECT_EQ(world.running_.size(), 3u);
  EXPECT_EQ(world.machine_.attempt(), 0);
  world.end(1, {0, 9});
  EXPECT_TRUE(world.did<StopAll>());
  world.obey();
  EXPECT_EQ(world.finished_->code, 137);
}

TEST(Membership, a_notice_ends_with_75_when_everybody_checkpointed) {
  World world(policy_of(2, 2, 3));
  world.join("a", 2);
  world.apply(Notice{});
  EXPECT_EQ(world.how_, StopWith::kNotice);
  world.end(0, {75, 0});
  world.end(1, {75, 0});
  EXPECT_EQ(world.finished_->code, 75);
  EXPECT_EQ(world.machine_.crashes(), 0);
}

TEST(Membership, a_notice_ends_with_143_when_work_was_lost) {
  World world(policy_of(2, 2, 3));
  world.join("a", 2);
  world.apply(Notice{});
  world.apply(Notice{});
  world.end(0, {75, 0});
  world.end(1, {0, 15});
  EXPECT_EQ(world.finished_->code, 143);
  EXPECT_EQ(world.machine_.crashes(), 0);
}

TEST(Membership, a_notice_to_workers_that_finish_is_a_success) {
  World world(policy_of(2, 2));
  world.join("a", 2);
  world.end(1, {});
  world.apply(Notice{});
  world.end(0, {});
  EXPECT_EQ(world.finished_->code, 0);
}

TEST(Membership, a_lost_node_spends_a_preemption_and_ranks_are_given_anew) {
  Policy policy = policy_of(2, 4, 0);
  policy.joining = Joining::kOpen;
  World world(policy);
  world.join("a", 2);
  EXPECT_EQ(world.pause_, policy.gather);  // More may come.
  world.join("b", 2);
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.world(), 4);
  world.lose("a");
  EXPECT_TRUE(world.did<StopAll>());
  world.obey();
  world.apply(Woken{});
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.shares_, (std::vector<Share>{{"b", 0, 2}}));
  EXPECT_EQ(world.machine_.crashes(), 0);
  EXPECT_EQ(world.machine_.preemptions(), 1);

  world.join("a", 2);  // Back: the gang grows, and whoever stayed keeps rank 0.
  EXPECT_EQ(world.how_, StopWith::kNotice);
  world.obey({75, 0});
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.shares_, (std::vector<Share>{{"b", 0, 2}, {"a", 2, 2}}));
  EXPECT_EQ(world.machine_.preemptions(), 1);
}

TEST(Membership, below_the_minimum_it_waits_and_does_not_die) {
  Policy policy = policy_of(3, 4);
  policy.joining = Joining::kOpen;
  World world(policy);
  world.join("a", 2);
  EXPECT_FALSE(world.runs());
  world.join("b", 2);
  ASSERT_TRUE(world.runs());
  world.lose("b");
  world.obey();
  EXPECT_FALSE(world.runs());
  EXPECT_FALSE(world.finished_);
  world.join("c", 2);
  EXPECT_TRUE(world.runs());
}

TEST(Membership, below_the_minimum_it_ends_when_nobody_can_join) {
  World world(policy_of(3, 4));
  world.join("a", 2);
  ASSERT_TRUE(world.finished_);
  EXPECT_NE(world.finished_->code, 0);
}

TEST(Membership, a_node_that_is_about_to_go_is_left_out) {
  Policy policy = policy_of(1, 4);
  policy.joining = Joining::kOpen;
  World world(policy);
  world.join("a", 2);
  world.join("b", 2);
  world.apply(NodeNotice{"b"});
  EXPECT_EQ(world.how_, StopWith::kNotice);
  world.obey({75, 0});
  world.apply(Woken{});
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.shares_, (std::vector<Share>{{"a", 0, 2}}));
  EXPECT_EQ(world.machine_.preemptions(), 1);
  world.lose("b");  // As it said it would: nothing more happens.
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.preemptions(), 1);
}

TEST(Membership, too_many_preemptions_end_it) {
  Policy policy = policy_of(1, 4);
  policy.joining = Joining::kOpen;
  policy.preemptions_max = 0;
  World world(policy);
  world.join("a", 2);
  world.join("b", 2);
  world.lose("b");
  world.obey();
  EXPECT_EQ(world.finished_->code, 143);
}

TEST(Membership, a_rule_that_stops) {
  World world(policy_of(2, 2, 5));
  world.join("a", 2);
  world.apply(RuleMatched{0, 1, RuleAction::kStop, "out of memory"});
  world.end(1, {1, 0});
  world.obey();
  ASSERT_TRUE(world.finished_);
  EXPECT_NE(world.finished_->code, 0);
  EXPECT_NE(world.finished_->reason.find("out of memory"), std::string::npos);
  EXPECT_EQ(world.machine_.crashes(), 0);
}

TEST(Membership, a_rule_that_excludes_the_node) {
  Policy policy = policy_of(1, 4);
  policy.joining = Joining::kOpen;
  World world(policy);
  world.join("a", 2);
  world.join("b", 2);
  world.apply(RuleMatched{0, 1, RuleAction::kExcludeNode, "ECC"});
  world.obey();
  world.apply(Woken{});
  ASSERT_TRUE(world.runs());
  EXPECT_EQ(world.shares_, (std::vector<Share>{{"b", 0, 2}}));
  EXPECT_EQ(world.machine_.crashes(), 0);
  world.lose("a");
  world.join("a", 2);  // It stays out, also when it comes again.
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.world(), 2);
}

TEST(Membership, a_rule_of_an_attempt_that_is_over_does_nothing) {
  World world(policy_of(1, 1, 5));
  world.join("a", 1);
  world.end(0, {1, 0});
  ASSERT_TRUE(world.runs());
  world.apply(RuleMatched{0, 0, RuleAction::kStop, "late"});
  EXPECT_TRUE(world.runs());
}

TEST(Membership, parameter_servers_stop_when_the_workers_are_done) {
  Policy policy = policy_of(2, 2, 1);
  policy.helpers = 2;
  World world(policy);
  world.join("a", 2);
  EXPECT_EQ(world.running_.size(), 4u);
  world.end(0, {});
  world.end(1, {});
  EXPECT_TRUE(world.did<StopAll>());
  world.obey();
  EXPECT_EQ(world.finished_->code, 0);
}

TEST(Membership, a_parameter_server_that_dies_restarts_everybody) {
  Policy policy = policy_of(2, 2, 1);
  policy.helpers = 2;
  World world(policy);
  world.join("a", 2);
  world.end(3, {0, 9});
  world.obey();
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.machine_.crashes(), 1);
}

// ---- Random histories. What World checks at every action holds for all of them. ----

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed), world_(some_policy()) {}

  void run() {
    for (int step = 0; step < 120 && !world_.finished_; ++step) one_step();
    if (world_.finished_) return;
    // Whatever happened: once nobody fails any more it comes to an end.
    world_.apply(Notice{});
    for (int i = 0; i < 100 && !world_.finished_; ++i) world_.obey({75, 0});
    EXPECT_TRUE(world_.finished_);
  }

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  Policy some_policy() {
    Policy policy;
    policy.workers_min = 1 + pick(4);
    policy.workers_max = policy.workers_min + pick(5);
    policy.helpers = pick(4) == 0 ? 2 : 0;
    policy.restarts_max = pick(5);
    policy.preemptions_max = pick(3) == 0 ? pick(4) : -1;
    policy.on_crash = pick(4) == 0 ? OnCrash::kKeepSurvivors : OnCrash::kRestartAll;
    policy.joining = pick(5) == 0 ? Joining::kClosed : Joining::kOpen;
    return policy;
  }

  ExitStatus some_status() {
    const int kind = pick(12);
    if (kind < 4) return {};
    if (kind < 6) return {kExitReschedule, 0};
    if (kind == 6) return {kExitUserError, 0};
    return kind < 9 ? ExitStatus{1, 0} : ExitStatus{0, 9};
  }

  std::string some_node() { return std::string(1, static_cast<char>('a' + pick(5))); }

  void end_one() {
    if (world_.running_.empty()) return;
    auto victim = world_.running_.begin();
    std::advance(victim, pick(static_cast<int>(world_.running_.size())));
    const int process = victim->first;
    const ExitStatus status = some_status();
    const int crashes = world_.machine_.crashes();
    const int preemptions = world_.machine_.preemptions();
    world_.end(process, status);
    const bool free = status == ExitStatus{} || status == ExitStatus{kExitReschedule, 0};
    EXPECT_LE(world_.machine_.crashes(), crashes + (free ? 0 : 1));
    EXPECT_EQ(world_.machine_.preemptions(), preemptions);
  }

  void one_step() {
    const int crashes = world_.machine_.crashes();
    world_.pass(Duration::milliseconds(pick(20'000)));
    const int kind = pick(20);
    if (kind < 8) {
      end_one();
    } else if (kind < 13) {
      world_.join(some_node(), 1 + pick(3));
    } else if (kind < 15) {
      world_.lose(some_node());
    } else if (kind == 15) {
      world_.apply(NodeNotice{some_node()});
    } else if (kind == 16) {
      match_rule();
    } else if (kind == 17 && pick(20) == 0) {
      world_.apply(Notice{});
    } else {
      world_.apply(Woken{});
    }
    if (kind >= 8) {
      EXPECT_EQ(world_.machine_.crashes(), crashes) << "only an end of a worker is a crash";
    }
    check();
  }

  void match_rule() {
    const auto action = static_cast<RuleAction>(pick(10) == 0 ? 0 : 1 + pick(2));
    const int process = pick(5);
    const int attempt = world_.machine_.attempt() - pick(2);
    const auto victim = world_.running_.find(process);
    const bool counts = world_.runs() && attempt == world_.machine_.attempt();
    if (action == RuleAction::kExcludeNode && counts && victim != world_.running_.end()) {
      excluded_.insert(victim->second);
    }
    world_.apply(RuleMatched{attempt, process, action, "rule"});
  }

  void check() {
    const Policy& policy = world_.policy_;
    EXPECT_LE(world_.machine_.crashes(), policy.restarts_max);
    if (policy.preemptions_max >= 0) {
      EXPECT_LE(world_.machine_.preemptions(), policy.preemptions_max);
    }
    EXPECT_EQ(world_.finished_.has_value(), world_.machine_.finished());
    if (!world_.runs()) return;
    for (const auto& [process, node] : world_.running_) {
      EXPECT_FALSE(excluded_.contains(node)) << process << " runs on an excluded node";
    }
  }

  std::mt19937_64 random_;
  World world_;
  std::set<std::string> excluded_;
};

// FALAJ_LAUNCH_HISTORIES sets how many are tried.
TEST(Membership, keeps_its_promises_in_random_histories) {
  const char* asked = std::getenv("FALAJ_LAUNCH_HISTORIES");
  const int count = asked != nullptr ? std::atoi(asked) : 20'000;
  for (int seed = 0; seed < count; ++seed) {
    History(static_cast<std::uint64_t>(seed)).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace falaj::launch
