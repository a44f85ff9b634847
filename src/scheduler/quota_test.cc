#include "scheduler/quota.h"

#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/order.h"
#include "scheduler/potential.h"
#include "scheduler/testing/random_world.h"

namespace falaj::scheduler {
namespace {

using namespace testing;

Amounts gpus(std::int64_t count) {
  Amounts amounts{};
  amounts[kA100] = count * 1000;
  return amounts;
}

TEST(Quota, lends_what_the_owner_does_not_use_and_no_more) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 0);
  const Index a = add_queue(s, "a", root, 10);
  const Index b = add_queue(s, "b", root, 10);
  s.queues[b].quotas[0].lend = 4000;
  const QuotaTree tree(s);
  QuotaUse use(tree);
  EXPECT_EQ(use.shortage(a, gpus(14)).queue, kAbsent);
  const Shortage shortage = use.shortage(a, gpus(15));
  EXPECT_EQ(shortage.queue, root);
  EXPECT_EQ(shortage.missing, 1000);
  use.add(a, gpus(14));
  EXPECT_EQ(use.shortage(b, gpus(6)).queue, kAbsent);  // What it never lent is there.
  EXPECT_EQ(use.shortage(b, gpus(7)).missing, 1000);
}

TEST(Quota, borrows_up_to_the_limit) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 0);
  const Index a = add_queue(s, "a", root, 10);
  add_queue(s, "b", root, 10);
  s.queues[a].quotas[0].borrow = 3000;
  const QuotaTree tree(s);
  const QuotaUse use(tree);
  EXPECT_EQ(use.shortage(a, gpus(13)).queue, kAbsent);
  EXPECT_EQ(use.shortage(a, gpus(14)).queue, a);
  EXPECT_TRUE(use.within_nominal(a, gpus(10)));
  EXPECT_FALSE(use.within_nominal(a, gpus(11)));
}

TEST(Quota, does_not_count_what_no_queue_of_the_tree_mentions) {
  Snapshot s = cluster(1);
  const Index a = add_queue(s, "a", kAbsent, 1);
  const QuotaTree tree(s);
  Amounts much{};
  much[kCpu] = 1'000'000;
  EXPECT_EQ(QuotaUse(tree).shortage(a, much).queue, kAbsent);
}

TEST(Quota, counts_the_same_after_taking_and_giving_back) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 2);
  const Index mid = add_queue(s, "mid", root, 3);
  const Index leaf = add_queue(s, "leaf", mid, 4);
  s.queues[leaf].quotas[0].lend = 1000;
  s.queues[mid].quotas[0].lend = 2000;
  const QuotaTree tree(s);
  QuotaUse use(tree);
  for (const std::int64_t n : {1, 3, 2, 5}) use.add(leaf, gpus(n));
  EXPECT_EQ(use.used(leaf, kA100), 11'000);
  EXPECT_EQ(use.used(mid, kA100), 8000);
  for (const std::int64_t n : {5, 1, 2, 3}) use.add(leaf, gpus(n), -1);
  for (const Index q : {root, mid, leaf}) EXPECT_EQ(use.used(q, kA100), 0);
}

TEST(Quota, shares_out_by_weight_and_passes_on_what_is_not_needed) {
  EXPECT_EQ(share_out(100, {1, 1, 2}, {1000, 1000, 1000}), (std::vector<std::int64_t>{25, 25, 50}));
  EXPECT_EQ(share_out(100, {1, 1, 2}, {10, 1000, 1000}), (std::vector<std::int64_t>{10, 30, 60}));
  EXPECT_EQ(share_out(100, {1, 1}, {10, 20}), (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(share_out(0, {1}, {10}), (std::vector<std::int64_t>{0}));
}

TEST(Quota, entitles_to_the_weighted_part_of_what_others_leave) {
  Snapshot s = cluster(4);
  const Index root = add_queue(s, "all", kAbsent, 12);
  const Index a = add_queue(s, "a", root, 4);
  const Index b = add_queue(s, "b", root, 0);
  const Index c = add_queue(s, "c", root, 0);
  s.queues[c].weight = 2000;
  const Index one = add_shape(s, 1, 1);
  for (int i = 0; i < 20; ++i) {
    add_job(s, b, one);
    add_job(s, c, one);
  }
  add_job(s, a, one);
  const QuotaTree tree(s);
  const auto entitled = entitlements(s, tree, Entitlement::kFairShare);
  const auto of = [&](Index q) { return entitled[q * tree.flavors() + kA100]; };
  EXPECT_EQ(of(a), 4000);   // Its own, though it asks for 1.
  EXPECT_EQ(of(b), 5000);   // 15 are left: one third …
  EXPECT_EQ(of(c), 10000);  // … and two.
}

TEST(Quota, halves_use_per_half_life) {
  const Duration day = Duration::days(1);
  EXPECT_EQ(decayed(1 << 20, day, day), 1 << 19);
  EXPECT_EQ(decayed(1 << 20, Duration::days(3), day), 1 << 17);
  EXPECT_EQ(decayed(1 << 20, Duration{}, day), 1 << 20);
  EXPECT_EQ(decayed(1 << 20, Duration::days(100), day), 0);
  for (int hours = 1; hours < 24; ++hours) {
    const double exact = std::exp2(20.0 - hours / 24.0);
    EXPECT_NEAR(static_cast<double>(decayed(1 << 20, Duration::hours(hours), day)), exact, 1);
  }
  std::int64_t small_steps = std::int64_t{1} << 40;
  for (int minute = 0; minute < 24 * 60; ++minute) {
    small_steps = decayed(small_steps, Duration::minutes(1), day);
  }
  EXPECT_NEAR(static_cast<double>(small_steps), std::exp2(39), std::exp2(39) / 1e5);
}

// 8 GPUs for a day: the first hours count less than the last ones, by the integral.
TEST(Quota, what_is_held_decays_as_it_comes) {
  const Duration day = Duration::days(1);
  const double exact = 8000.0 * 86'400 / std::log(2) / 2;
  const std::int64_t at_once = decayed(0, 8000, day, day);
  EXPECT_NEAR(static_cast<double>(at_once), exact, exact / 1e6);
  std::int64_t in_steps = 0;
  for (int hour = 0; hour < 24; ++hour) in_steps = decayed(in_steps, 8000, Duration::hours(1), day);
  EXPECT_NEAR(static_cast<double>(in_steps), exact, exact / 1e6);
  EXPECT_EQ(decayed(77, 8000, Duration{}, day), 77);
  EXPECT_EQ(decayed(1 << 20, 0, day, day), 1 << 19);
}

TEST(Quota, says_who_used_more_than_his_part) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all");
  const Index a = add_queue(s, "a", root);
  const Index b = add_queue(s, "b", root);
  s.queues[a].decayed_use = {3 << 20};
  s.queues[b].decayed_use = {1 << 20};
  const auto over = overuse(s);
  EXPECT_NEAR(static_cast<double>(over[a]), 500, 100);    // One and a half times its part.
  EXPECT_NEAR(static_cast<double>(over[b]), -1000, 100);  // Half of it.
  EXPECT_NEAR(static_cast<double>(over[root]), 0, 1) << "nobody is beside it";
  const Index idle = add_queue(s, "idle", root);
  EXPECT_LT(overuse(s)[idle], overuse(s)[b] - 5000) << "it used nothing";
}

// Of a node with 64 cores, 512 GiB and 8 GPUs.
std::vector<std::int64_t> hours_of(std::int64_t cores, std::int64_t gib, std::int64_t gpus) {
  return {cores * 1000 * 3600, gib * 1024 * 3600, gpus * 1000 * 3600};
}

TEST(Quota, of_what_was_used_the_dominant_part_counts) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all");
  const Index cores = add_queue(s, "cores", root);
  const Index memory = add_queue(s, "memory", root);
  const Index gpus = add_queue(s, "gpus", root);
  s.queues[cores].decayed_use = hours_of(32, 64, 0);   // Half of the cores.
  s.queues[memory].decayed_use = hours_of(1, 256, 0);  // Half of the memory.
  s.queues[gpus].decayed_use = hours_of(8, 64, 4);     // Half of the GPUs.
  auto over = overuse(s);
  EXPECT_EQ(over[cores], over[memory]);
  EXPECT_EQ(over[cores], over[gpus]);
  EXPECT_NEAR(static_cast<double>(over[cores]), 0, 100) << "each a third of what was used";
  s.queues[gpus].decayed_use = hours_of(8, 64, 8);
  over = overuse(s);
  EXPECT_NEAR(static_cast<double>(over[gpus] - over[cores]), 1000, 1) << "twice as much";
  s.classes[0].gpus = 16;  // Of more there is, the same is a smaller part.
  over = overuse(s);
  EXPECT_EQ(over[gpus], over[cores]);
  // What no node has is nobody's share.
  s.queues[cores].decayed_use.resize(4);
  s.queues[cores].decayed_use[kH100] = std::int64_t{1} << 60;
  EXPECT_EQ(overuse(s), over);
}

// "mixed" filled the processors by one child and the memory by the other: together that is one node
// for an hour, as it is for "plain", whose children both used processors. Adding up the children's
// shares would say twice as much.
TEST(Quota, a_parents_share_is_not_the_sum_of_its_childrens) {
  Snapshot s = cluster(1);
  const Index mixed = add_queue(s, "mixed");
  const Index plain = add_queue(s, "plain");
  const Index cores = add_queue(s, "cores", mixed);
  const Index memory = add_queue(s, "memory", mixed);
  const Index left = add_queue(s, "left", plain);
  const Index right = add_queue(s, "right", plain);
  s.queues[cores].decayed_use = hours_of(64, 0, 0);
  s.queues[memory].decayed_use = hours_of(0, 512, 0);
  s.queues[left].decayed_use = hours_of(32, 0, 0);
  s.queues[right].decayed_use = hours_of(32, 0, 0);
  const auto over = overuse(s);
  EXPECT_EQ(over[mixed], over[plain]);
  for (const Index child : {cores, memory, left, right}) {
    EXPECT_LE(std::abs(over[child] - over[plain]), 1);
  }
  s.queues[cores].decayed_use = hours_of(128, 0, 0);  // Twice its sibling, and its parent twice.
  const auto more = overuse(s);
  EXPECT_GT(more[mixed], more[plain] + 900);
  EXPECT_GT(more[cores], more[memory]);
  EXPECT_GT(more[memory], more[left]) << "who is below a queue that used much waits with it";
}

TEST(Potential, entitles_the_best_that_fit_and_prefers_those_entitled_below) {
  Snapshot s = cluster(1);
  const Index root = add_queue(s, "all", kAbsent, 1);
  const Index a = add_queue(s, "a", root, 2);
  const Index b = add_queue(s, "b", root, 1);
  const Index one = add_shape(s, 1, 1);
  for (const Index queue : {a, a, a, b, b}) add_job(s, queue, one);
  const std::vector<Index> ranked = {0, 1, 2, 3, 4};
  const QuotaTree tree(s);
  Standing standing(s, tree, entitlements(s, tree, Entitlement::kNominal));
  for (const Index job : {4U, 2U, 1U}) standing.add(job, gpus(1));
  EXPECT_EQ(standing.marks(ranked).heights, (std::vector<std::uint8_t>{3, 3, 3}));
  standing.add(3, gpus(1));  // Pushes job 4 from its own queue's quota, not from the cohort's.
  EXPECT_EQ(standing.marks(ranked).of(3), 3);
  EXPECT_EQ(standing.marks(ranked).of(4), 2);
  standing.add(0, gpus(3));  // Never fits into two: it only borrows, from what is left above.
  EXPECT_EQ(standing.marks(ranked).of(0), 0);
}

TEST(Potential, is_better_with_every_job_that_starts) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    Snapshot s = random_snapshot(dice);
    const QuotaTree tree(s);
    Standing standing(
        s, tree, entitlements(s, tree, dice.any({Entitlement::kNominal, Entitlement::kFairShare})));
    std::vector<Index> ranked;
    for (Index i = 0; i < s.jobs.size(); ++i) ranked.push_back(i);
    for (std::size_t i = ranked.size(); i > 1; --i)
      std::swap(ranked[i - 1], ranked[dice.roll() % i]);
    std::vector<Index> come = ranked;
    std::sort(come.begin(), come.end());
    for (const Index job : come) {
      const Marks before = standing.marks(ranked);
      standing.add(job, core_request(s.shapes[s.jobs[job].shape], 0));
      const Comparison comparison = compare(before, standing.marks(ranked), ranked);
      ASSERT_TRUE(comparison.better) << seed;
      ASSERT_FALSE(compare(standing.marks(ranked), before, ranked).better);
    }
  }
}

TEST(Order, is_a_logarithm_that_never_falls) {
  EXPECT_EQ(log2_points(1), 0);
  EXPECT_EQ(log2_points(2), 1000);
  EXPECT_EQ(log2_points(1024), 10'000);
  EXPECT_EQ(log2_points(std::int64_t{1} << 62), 62'000);
  std::int64_t last = 0;
  for (std::int64_t x = 1; x < 100'000; ++x) {
    EXPECT_GE(log2_points(x), last);
    last = log2_points(x);
  }
  EXPECT_GE(log2_points(kUnlimited), 62'999);
}

TEST(Order, puts_short_small_and_old_jobs_first) {
  Snapshot s = cluster(1);
  const Index queue = add_queue(s, "risk", kAbsent, 8);
  const Index one = add_shape(s, 1, 1);
  Policy policy;
  policy.order.age = 1000;
  Job job = s.jobs[add_job(s, queue, one, 0, Duration::hours(2))];
  const Rank base = rank_of(job, 1000, 0, policy, kNow);
  Job shorter = job;
  shorter.remaining_p50 = Duration::minutes(5);
  EXPECT_TRUE(rank_of(shorter, 1000, 0, policy, kNow).before(base));
  EXPECT_TRUE(base.before(rank_of(job, 8000, 0, policy, kNow)));
  Job older = job;
  older.submitted = job.submitted - Duration::days(3);
  EXPECT_TRUE(rank_of(older, 1000, 0, policy, kNow).before(base));
  Job late = job;
  late.deadline = kNow + Duration::hours(2);
  EXPECT_TRUE(rank_of(late, 1000, 0, policy, kNow).before(rank_of(shorter, 1000, 0, policy, kNow)));
  Job important = job;
  important.priority = 1;
  EXPECT_TRUE(rank_of(important, 8000, 0, policy, kNow).before(rank_of(late, 1, 0, policy, kNow)));
  policy.order.share = 1000;
  EXPECT_TRUE(rank_of(job, 1000, -500, policy, kNow).before(rank_of(job, 1000, 500, policy, kNow)));
}

}  // namespace
}  // namespace falaj::scheduler
