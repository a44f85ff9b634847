#include "features/online.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <map>
#include <thread>

#include "base/log.h"
#include "features/internal/online_rows.h"
#include "features/internal/view_index.h"
#include "features/testing/feature_world.h"
#include "features/testing/hooked_sql.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;
using Statuses = std::vector<FeatureStatus>;

constexpr const char* kHeader = "customer_id,at,loaded_at,amount,city\n";

// The world's clock stands at 2026-05-28; rows are a few days old.
std::string line(int customer, const std::string& at, const std::string& loaded, double amount) {
  return std::to_string(customer) + "," + at + "," + loaded + "," + std::to_string(amount) + ",x\n";
}

TEST(Online, reads_the_newest_row_and_says_what_is_missing) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world
                  .append("activity", kHeader + line(1, "2026-05-20", "2026-05-20", 5) +
                                          line(1, "2026-05-21", "2026-05-21", 6) +
                                          "2,2026-05-20,,,\n" + line(3, "2026-01-01", "", 7))
                  .ok());
  const OnlineRow one = world.read({1});
  EXPECT_EQ(one.statuses, (Statuses{kPresent, kPresent}));
  EXPECT_EQ(one.numbers[0], 6.0);
  EXPECT_TRUE(std::isnan(one.numbers[1]));  // A text is not a number.
  EXPECT_EQ(to_rfc3339(one.oldest_event), "2026-05-21T00:00:00Z");
  EXPECT_EQ(world.read({2}).statuses, (Statuses{kNullValue, kNullValue}));
  const OnlineRow old = world.read({3});
  EXPECT_EQ(old.statuses, (Statuses{kOutsideMaxAge, kOutsideMaxAge}));
  EXPECT_TRUE(std::isnan(old.numbers[0]));
  EXPECT_EQ(world.read({4}).statuses, (Statuses{kNotFound, kNotFound}));
  EXPECT_EQ(world.read({"1"}).statuses, (Statuses{kNotFound, kNotFound}));
}

TEST(Online, late_rows_never_overwrite_newer_ones) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-21", "2026-05-21", 6)).ok());
  const auto late = world.append("activity", kHeader + line(1, "2026-05-20", "2026-05-25", 1));
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->online_stale, 1u);
  EXPECT_EQ(late->online_newer, 0u);
  EXPECT_EQ(world.read({1}).numbers[0], 6.0);
  // The same event, created later: a correction.
  const auto fixed = world.append("activity", kHeader + line(1, "2026-05-21", "2026-05-22", 7));
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->online_newer, 1u);
  EXPECT_EQ(world.read({1}).numbers[0], 7.0);
  // The same event created earlier, though it arrives later: stale.
  EXPECT_EQ(
      world.append("activity", kHeader + line(1, "2026-05-21", "2026-05-21", 8))->online_stale, 1u);
  EXPECT_EQ(world.read({1}).numbers[0], 7.0);
}

TEST(Online, a_restart_gives_the_same_answers) {
  FeatureWorld world;
  world.apply_activity();
  std::string csv = kHeader;
  for (int i = 0; i < 500; ++i) csv += line(i, "2026-05-20", "", i * 0.5);
  ASSERT_TRUE(world.append("activity", csv).ok());
  world.restart();
  ASSERT_TRUE(world.online->make_sure(world.context.project, "activity").ok());
  EXPECT_EQ(world.online->keys(world.context.project, "activity"), 500u);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(world.read({i}).numbers[0], i * 0.5);
}

// A second view and service beside activity, with customer 1 in it.
void add_healthy_view(FeatureWorld& world) {
  world.apply("FeatureView", "healthy",
              R"({"entity":"customer","source":"tx","features":[{"name":"h","type":"float64"}]})");
  world.apply("FeatureService", "healthy_svc", R"({"features":["healthy"]})");
  ASSERT_TRUE(world.append("healthy", "customer_id,at,loaded_at,h\n1,2026-05-21,,9\n").ok());
}

// Rows of one view lie behind a door; those of another are read meanwhile.
TEST(Online, a_start_waits_for_no_rows_and_one_view_for_no_other) {
  FeatureWorld world;
  world.apply_activity();
  add_healthy_view(world);
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-20", "", 1)).ok());
  world.stop();
  world.kv.hold_scans(world.owner_of_view("activity"));
  world.restart();
  EXPECT_EQ(world.read({1}, "healthy_svc").numbers[0], 9.0);
  auto waits = std::async(std::launch::async, [&] { return world.read({1}).numbers[0]; });
  EXPECT_EQ(world.read({1}, "healthy_svc").numbers[0], 9.0);
  EXPECT_EQ(world.online->keys(world.context.project, "activity"), 0u);
  world.kv.let_scans();
  EXPECT_EQ(waits.get(), 1.0);
}

// The process dies after the commit, and the durable copy of its rows was not made.
TEST(Online, a_restart_catches_up_with_committed_rows) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-20", "", 1)).ok());
  world.kv.wait_for_written(1);
  world.kv.break_writes();
  ASSERT_TRUE(
      world
          .append("activity", kHeader + line(1, "2026-05-21", "", 2) + line(2, "2026-05-21", "", 3))
          .ok());
  EXPECT_EQ(world.read({1}).numbers[0], 2.0) << "readers do not wait for the copy";
  world.stop();
  world.kv.mend();
  world.restart();
  EXPECT_EQ(world.read({1}).numbers[0], 2.0);
  EXPECT_EQ(world.read({2}).numbers[0], 3.0);
}

TEST(Online, the_next_commit_makes_the_copy_that_failed) {
  FeatureWorld world;
  world.apply_activity();
  world.kv.break_writes();
  ASSERT_TRUE(
      world
          .append("activity", kHeader + line(1, "2026-05-21", "", 2) + line(2, "2026-05-21", "", 2))
          .ok());
  world.kv.wait_for_refused(1);
  world.kv.mend();
  ASSERT_TRUE(world.append("activity", kHeader + line(2, "2026-05-22", "", 3)).ok());
  world.kv.wait_for_written(2);
  std::map<std::string, int> rows;
  ASSERT_TRUE(world.kv
                  .scan(world.owner_of_view("activity"),
                        [&](std::string_view key, std::string_view) {
                          if (key.front() == kRowMark) ++rows[std::string(key)];
                          return true;
                        })
                  .ok());
  EXPECT_EQ(rows.size(), 2u) << "the failed commit's row and the new one";
  world.restart();
  EXPECT_EQ(world.read({1}).numbers[0], 2.0);
  EXPECT_EQ(world.read({2}).numbers[0], 3.0);
}

// Rows of the old declaration are committed, and not online yet, when the view is declared anew and
// read by the new one.
TEST(Online, rows_that_were_under_way_when_the_view_changed_are_seen) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-20", "", 1)).ok());
  HookedSql sql(*world.sql);
  std::promise<void> durable;
  std::promise<void> go_on;
  sql.committed = [&] {
    durable.set_value();
    go_on.get_future().wait();
  };
  telemetry::Metrics metrics;
  Ingest slow(sql, *world.blobs, *world.online, world.audit, metrics, world.clock);
  auto ingested = std::async(std::launch::async, [&] {
    const TextReader csv(kHeader + line(1, "2026-05-21", "", 2));
    return slow.append(world.context, "activity", {csv, table::Format::kCsv, {}});
  });
  durable.get_future().wait();
  world.apply(
      "FeatureView", "activity",
      R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64"},)"
      R"({"name":"visits","type":"int64"}]})");
  const int scans = world.kv.scans();
  auto planned = std::async(std::launch::async,
                            [&] { return world.online->plan(world.context.project, "svc"); });
  world.kv.wait_for_scans(scans + 1);
  go_on.set_value();
  ASSERT_TRUE(ingested.get().ok());
  const auto plan = planned.get();
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto amount = [&] {
    OnlineRow row;
    world.online->read(**plan, std::vector<KeyPart>{1}, world.clock.now(), row);
    return row.numbers[0];
  };
  EXPECT_EQ(amount(), 2.0);
  EXPECT_EQ(world.kv.scans(), scans + 1) << "the old declaration must not come back";
  ASSERT_TRUE(world.push("activity", R"([{"customer_id":1,"at":"2026-05-22","amount":3}])").ok());
  EXPECT_EQ(amount(), 3.0) << "the plan still reads what is written";
}

TEST(Online, an_answer_with_too_many_texts_says_so) {
  OnlineAnswer answer;
  answer.texts.resize(OnlineAnswer::kTextsMax - 3);
  EXPECT_EQ(answer.text(answer.add_text("abc")), "abc");
  EXPECT_FALSE(answer.too_large);
  answer.add_text("d");
  EXPECT_TRUE(answer.too_large);
  FeatureWorld world;
  world.apply_activity();
  const std::string city(1 << 20, 'x');
  ASSERT_TRUE(world
                  .push("activity", R"([{"customer_id":1,"at":"2026-05-20","amount":5,"city":")" +
                                        city + R"("}])")
                  .ok());
  const auto plan = world.online->plan(world.context.project, "svc");
  ASSERT_TRUE(plan.ok());
  const std::vector<KeyPart> keys(65, 1);
  world.online->read(**plan, keys, OnlineAsk{world.clock.now(), {}}, answer);
  EXPECT_TRUE(answer.too_large);
  world.online->read(**plan, std::span(keys).first(64), OnlineAsk{world.clock.now(), {}}, answer);
  EXPECT_FALSE(answer.too_large);
  EXPECT_EQ(answer.text(answer.words[63 * 2 + 1]), city);
}

TEST(Online, what_was_committed_without_being_published_can_be_made_sure_of) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-20", "", 1)).ok());
  EXPECT_EQ(world.read({1}).numbers[0], 1.0);
  world.commit_unseen("activity", kHeader + line(1, "2026-05-21", "", 2));
  EXPECT_EQ(world.read({1}).numbers[0], 1.0);
  ASSERT_TRUE(world.online->make_sure(world.context.project, "activity").ok());
  EXPECT_EQ(world.read({1}).numbers[0], 2.0);
  EXPECT_EQ(world.online->make_sure(world.context.project, "nope").error().id,
            ErrorId::kObjectNotFound);
  world.apply("FeatureView", "offline",
              R"({"entity":"customer","source":"tx","online":false,)"
              R"("features":[{"name":"amount","type":"float64"}]})");
  EXPECT_EQ(world.online->make_sure(world.context.project, "offline").error().code,
            Code::kFailedPrecondition);
}

TEST(Online, nothing_that_was_not_committed_is_shown) {
  FeatureWorld world;
  world.apply_activity();
  // Refused as a whole: over its share of nulls.
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"amount","type":"float64","expect":{"nulls_max":"1%"}}]})");
  ASSERT_FALSE(
      world.append("activity", kHeader + line(1, "2026-05-21", "", 2) + "2,2026-05-21,,,x\n").ok());
  world.restart();
  EXPECT_EQ(world.read({1}).statuses, Statuses{kNotFound});
}

// Keeps what is logged as an error while it lives.
class ErrorLog final : public log::Sink {
 public:
  ErrorLog() { log::set_sink(this, log::Level::kError); }
  ~ErrorLog() override { log::set_sink(nullptr, log::Level::kError); }
  void write(log::Level, std::string_view event, const std::vector<log::Field>& fields) override {
    std::string line(event);
    for (const log::Field& field : fields) {
      if (const auto* text = std::get_if<std::string>(&field.value)) line += " " + *text;
    }
    lines.push_back(line);
  }
  std::vector<std::string> lines;
};

TEST(Online, a_damaged_segment_keeps_only_its_own_view_from_being_read) {
  FeatureWorld world;
  world.apply_activity();
  add_healthy_view(world);
  world.kv.break_writes();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-21", "", 2)).ok());
  world.stop();
  world.kv.mend();
  std::string blob;
  ASSERT_TRUE(world.sql
                  ->read([&](storage::SqlTransaction& tx) -> Status {
                    blob = FALAJ_TRY(tx.query("SELECT blob FROM feature_segments "
                                              "WHERE commit_number = 2"))
                               .at(0)
                               .text(0);
                    return {};
                  })
                  .ok());
  ASSERT_TRUE(world.blobs->remove(world.owner_of_view("activity"), BlobId(blob)).ok());
  world.restart();
  EXPECT_EQ(world.read({1}, "healthy_svc").numbers[0], 9.0);
  const auto plan = world.online->plan(world.context.project, "svc");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().id, ErrorId::kSegmentCorrupt);
  EXPECT_NE(plan.error().message.find("FeatureView activity"), std::string::npos);
}

TEST(Online, stored_types_that_contradict_a_view_keep_only_it_from_being_read) {
  FeatureWorld world;
  world.apply_activity();
  add_healthy_view(world);
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","online":false,)"
              R"("features":[{"name":"amount","type":"float64"}]})");
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-21", "", 2)).ok());
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx",)"
              R"("features":[{"name":"amount","type":"string"}]})");
  world.restart();
  EXPECT_EQ(world.read({1}, "healthy_svc").numbers[0], 9.0);
  const auto plan = world.online->plan(world.context.project, "svc");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().id, ErrorId::kSchemaMismatch);
  EXPECT_NE(plan.error().message.find("FeatureView activity"), std::string::npos);
  EXPECT_EQ(plan.error().message.find(world.folder.path()), std::string::npos)
      << plan.error().message;
}

TEST(Online, a_view_that_cannot_be_decoded_does_not_stop_the_start) {
  FeatureWorld world;
  world.apply_activity();
  add_healthy_view(world);
  world.apply("FeatureView", "activity", R"({"entity":"customer"})");
  ErrorLog log;
  world.restart();
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("activity"), std::string::npos);
  EXPECT_EQ(world.read({1}, "healthy_svc").numbers[0], 9.0);
}

TEST(Online, a_changed_view_keeps_old_values_and_has_new_features_null) {
  FeatureWorld world;
  world.apply_activity();
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-21", "", 2)).ok());
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"speed","type":"float64"},{"name":"amount","type":"float64"}]})");
  for (int round = 0; round < 2; ++round) {
    const OnlineRow row = world.read({1});
    EXPECT_EQ(row.statuses, (Statuses{kNullValue, kPresent}));
    EXPECT_EQ(row.numbers[1], 2.0);
    world.restart();
  }
  ASSERT_TRUE(
      world.append("activity", "customer_id,at,loaded_at,amount,speed\n1,2026-05-22,,3,4\n").ok());
  EXPECT_EQ(world.read({1}).numbers, (std::vector<double>{4, 3}));
}

TEST(Online, an_offline_view_is_not_planned_until_it_is_online) {
  FeatureWorld world;
  world.apply_activity();
  const std::string offline = R"({"entity":"customer","source":"tx","online":false,)"
                              R"("features":[{"name":"amount","type":"float64"}]})";
  world.apply("FeatureView", "activity", offline);
  ASSERT_TRUE(world.append("activity", kHeader + line(1, "2026-05-21", "", 2)).ok());
  EXPECT_EQ(world.online->plan(world.context.project, "svc").error().code,
            Code::kFailedPrecondition);
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx",)"
              R"("features":[{"name":"amount","type":"float64"}]})");
  EXPECT_EQ(world.read({1}).numbers[0], 2.0);
}

TEST(Online, plans_name_keys_once_and_refuse_colliding_features) {
  FeatureWorld world;
  world.apply_activity();
  world.apply("Entity", "pair",
              R"({"keys":[{"name":"merchant","type":"string"},)"
              R"({"name":"customer_id","type":"int64"}]})");
  world.apply("FeatureView", "risk",
              R"({"entity":"pair","source":"tx","features":[{"name":"score","type":"float64"}]})");
  world.apply("FeatureService", "both", R"({"features":[{"activity":["amount"]},"risk"]})");
  ASSERT_TRUE(
      world.append("risk", "customer_id,merchant,at,loaded_at,score\n1,m,2026-05-21,,0.5\n").ok());
  const auto plan = world.online->plan(world.context.project, "both");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ((*plan)->keys.size(), 2u);
  EXPECT_EQ((*plan)->keys[0].name, "customer_id");
  EXPECT_EQ((*plan)->keys[1].name, "merchant");
  EXPECT_EQ((*plan)->full_names, (std::vector<std::string>{"activity__amount", "risk__score"}));
  const OnlineRow row = world.read({1, "m"}, "both");
  EXPECT_EQ(row.statuses, (Statuses{kNotFound, kPresent}));
  EXPECT_EQ(row.numbers[1], 0.5);

  world.apply("FeatureView", "risk",
              R"({"entity":"pair","source":"tx","features":[{"name":"amount","type":"float64"}]})");
  EXPECT_EQ(world.online->plan(world.context.project, "both").error().id,
            ErrorId::kFeatureNameCollision);
  EXPECT_EQ(world.online->plan(world.context.project, "nope").error().id, ErrorId::kObjectNotFound);
}

TEST(Online, answers_in_the_types_of_the_columns) {
  FeatureWorld world;
  world.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
  world.apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
  world.apply("FeatureView", "typed",
              R"({"entity":"customer","source":"tx","ttl":"30d","features":[)"
              R"({"name":"count","type":"int64"},{"name":"city","type":"string"},)"
              R"({"name":"paid","type":"bool"},{"name":"seen","type":"timestamp"}]})");
  ASSERT_TRUE(world
                  .append("typed",
                          "customer_id,at,count,city,paid,seen\n"
                          "1,2026-05-20,9007199254740993,Al Ain,true,2026-05-01\n"
                          "2,2026-05-21,,Dubai,,\n3,2026-01-01,5,Ajman,true,2026-01-01\n")
                  .ok());
  for (int starts = 0; starts < 2; ++starts, world.restart()) {
    const auto plan = world.online->plan(
        world.context.project, {{"typed", {"city", "count", "paid", "seen"}}}, NameStyle::kBare);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    OnlineAnswer answer;
    const std::vector<KeyPart> keys{1, 2, 3, 4};
    world.online->read(**plan, keys, {world.clock.now(), {}}, answer);
    EXPECT_EQ(answer.commit, 1u);
    EXPECT_EQ(answer.statuses,
              (Statuses{kPresent, kPresent, kPresent, kPresent,                          //
                        kPresent, kNullValue, kNullValue, kNullValue,                    //
                        kOutsideMaxAge, kOutsideMaxAge, kOutsideMaxAge, kOutsideMaxAge,  //
                        kNotFound, kNotFound, kNotFound, kNotFound}));
    EXPECT_EQ(answer.text(answer.words[0]), "Al Ain");
    EXPECT_EQ(answer.words[1], 9007199254740993u);
    EXPECT_EQ(answer.words[2], 1u);
    EXPECT_EQ(to_rfc3339(Timestamp{static_cast<std::int64_t>(answer.words[3])}),
              "2026-05-01T00:00:00Z");
    EXPECT_EQ(answer.text(answer.words[4]), "Dubai");
    EXPECT_EQ(to_rfc3339(answer.events[2]), "2026-01-01T00:00:00Z");
    EXPECT_EQ(answer.events[3], Timestamp::min());
    // Both ends of the age are inclusive; a view's own limit is not widened.
    const Duration age = world.clock.now() - answer.events[0];
    world.online->read(**plan, keys, {world.clock.now(), age}, answer);
    EXPECT_EQ(answer.statuses[0], kPresent);
    world.online->read(**plan, keys, {world.clock.now(), age - Duration{1}}, answer);
    EXPECT_EQ(answer.statuses[0], kOutsideMaxAge);
    world.online->read(**plan, keys, {world.clock.now(), Duration{INT64_MAX}}, answer);
    EXPECT_EQ(answer.statuses[8], kOutsideMaxAge);
  }
}

// Two views get the same number in each commit of each; a reply never mixes what one commit has
// with what another had not yet.
void answers_are_of_one_commit(std::int64_t memory_max) {
  FeatureWorld world;
  world.online_options.memory_max = memory_max;
  world.restart();
  world.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
  world.apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
  for (const std::string name : {"a", "b"}) {
    world.apply("FeatureView", name,
                R"({"entity":"customer","source":"tx","features":[{"name":")" + name +
                    R"(_commit","type":"int64"}]})");
  }
  const auto plan =
      world.online->plan(world.context.project, {{"a", {}}, {"b", {}}}, NameStyle::kBare);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  constexpr int kCommits = 60;
  constexpr int kKeys = 40;
  // Commit n of either view stores n, so that both columns are the newest of their view's commits.
  std::atomic<int> turn{0};
  const auto write = [&](const std::string& view, int mine) {
    for (int n = mine; n < kCommits; n += 2) {
      while (turn.load() != n) std::this_thread::yield();
      std::string csv = "customer_id,at," + view + "_commit\n";
      for (int key = 0; key < kKeys; ++key) {
        csv += std::to_string(key) + ",2026-05-2" + std::to_string(n * 9 / kCommits) +
               "T00:00:" + (n < 10 ? "0" : "") + std::to_string(n) + "," + std::to_string(n + 1) +
               "\n";
      }
      if (!world.append(view, csv).ok()) ADD_FAILURE();
      turn = n + 1;
    }
  };
  std::thread first([&] { write("a", 0); });
  std::thread second([&] { write("b", 1); });
  std::vector<KeyPart> keys;
  for (int key = 0; key < kKeys; ++key) keys.emplace_back(key);
  OnlineAnswer answer;
  std::uint64_t last = 0;
  while (last < kCommits) {
    world.online->read(**plan, keys, {world.clock.now(), {}}, answer);
    ASSERT_GE(answer.commit, last);
    last = answer.commit;
    // Odd commits are of a, even ones of b.
    const std::uint64_t a = last % 2 == 1 ? last : last - std::min<std::uint64_t>(last, 1);
    const std::uint64_t b = last % 2 == 0 ? last : last - 1;
    for (int key = 0; key < kKeys; ++key) {
      const auto at = static_cast<std::size_t>(key) * 2;
      ASSERT_EQ(answer.words[at], a) << "at commit " << last;
      ASSERT_EQ(answer.words[at + 1], b) << "at commit " << last;
    }
  }
  first.join();
  second.join();
}

TEST(Online, all_views_of_an_answer_are_of_one_commit) { answers_are_of_one_commit(0); }

TEST(Online, all_views_of_an_answer_are_of_one_commit_with_rows_that_were_let_go) {
  answers_are_of_one_commit(1);
}

// A bound that no row fits into: whatever was copied goes, and is read from the durable copy.
TEST(Online, a_bound_of_no_rows_gives_the_same_answers_as_none) {
  FeatureWorld world;
  world.online_options.memory_max = 1;
  world.restart();
  world.apply_activity();
  constexpr int kKeys = 3'000;
  std::string csv = kHeader;
  for (int i = 0; i < kKeys; ++i) csv += line(i, "2026-05-20", "", i * 0.5);
  ASSERT_TRUE(world.append("activity", csv).ok());
  world.kv.wait_for_written(1);
  const auto plan = world.online->plan(world.context.project, "svc");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const OnlineAsk ask{world.clock.now(), {}};
  OnlineAnswer answer;
  int elsewhere = 0;
  // Rows go behind the copy, on a thread of its own: until one is gone.
  for (int i = 0; elsewhere == 0; i = (i + 1) % kKeys) {
    const std::vector<KeyPart> keys{i};
    if (!world.online->read_now(**plan, keys, ask, answer)) ++elsewhere;
  }
  for (int starts = 0; starts < 2; ++starts, world.restart()) {
    for (int i = 0; i < kKeys; ++i) {
      const OnlineRow row = world.read({i});
      ASSERT_EQ(row.numbers[0], i * 0.5) << i;
      ASSERT_FALSE(row.failed);
    }
    EXPECT_EQ(world.read({kKeys}).statuses, (Statuses{kNotFound, kNotFound}));
    ASSERT_TRUE(world.online->make_sure(world.context.project, "activity").ok());
    EXPECT_EQ(world.online->keys(world.context.project, "activity"), std::uint64_t{kKeys});
  }
  // Late rows lose and newer ones win against rows that are not in memory.
  const auto report = world.append("activity", kHeader + line(7, "2026-05-19", "", 1001) +
                                                   line(8, "2026-05-21", "", 1002) +
                                                   line(kKeys, "2026-05-21", "", 1003));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->online_stale, 1u);
  EXPECT_EQ(report->online_newer, 2u);
  for (int starts = 0; starts < 2; ++starts, world.restart()) {
    EXPECT_EQ(world.read({7}).numbers[0], 3.5);
    EXPECT_EQ(world.read({8}).numbers[0], 1002);
    EXPECT_EQ(world.read({kKeys}).numbers[0], 1003);
  }
  ASSERT_TRUE(world.online->make_sure(world.context.project, "activity").ok());
  EXPECT_EQ(world.online->keys(world.context.project, "activity"), std::uint64_t{kKeys} + 1);
}

TEST(Online, a_row_that_cannot_be_fetched_is_an_error_and_no_missing_row) {
  FeatureWorld world;
  world.online_options.memory_max = 1;
  world.apply_activity();
  std::string csv = kHeader;
  for (int i = 0; i < 2'000; ++i) csv += line(i, "2026-05-20", "", i);
  ASSERT_TRUE(world.append("activity", csv).ok());
  world.kv.wait_for_written(1);
  world.restart();  // The durable rows past the bound stay where they are.
  const auto plan = world.online->plan(world.context.project, "svc");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  int missing = -1;
  OnlineAnswer answer;
  for (int i = 0; i < 2'000 && missing < 0; ++i) {
    const std::vector<KeyPart> keys{i};
    if (!world.online->read_now(**plan, keys, {world.clock.now(), {}}, answer)) missing = i;
  }
  ASSERT_GE(missing, 0);
  const std::string key = kRowMark + encode_key({missing});
  ASSERT_TRUE(
      world.kv_inner->write(world.owner_of_view("activity"), {{key, std::string("nonsense")}})
          .ok());
  EXPECT_TRUE(world.read({missing}).failed);
  const std::vector<KeyPart> keys{missing};
  world.online->read(**plan, keys, {world.clock.now(), {}}, answer);
  ASSERT_TRUE(answer.failed);
  EXPECT_NE(answer.failed->message.find("FeatureView activity"), std::string::npos);
}

// Its writes wait until they are let go.
class HeldWrites final : public storage::KvStore {
 public:
  explicit HeldWrites(storage::KvStore& inner) : inner_(inner) {}
  void let_go() {
    held_ = false;
    held_.notify_all();
  }
  Result<std::optional<std::string>> get(const storage::Owner& owner,
                                         std::string_view key) const override {
    return inner_.get(owner, key);
  }
  Result<std::vector<std::optional<std::string>>> get_many(
      const storage::Owner& owner, const std::vector<std::string>& keys) const override {
    return inner_.get_many(owner, keys);
  }
  Status write(const storage::Owner& owner, const std::vector<storage::KvWrite>& batch) override {
    held_.wait(true);
    return inner_.write(owner, batch);
  }
  Status clear(const storage::Owner& owner) override { return inner_.clear(owner); }
  Status purge(const storage::Owner& owner) override { return inner_.purge(owner); }
  Status scan(const storage::Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    return inner_.scan(owner, visit);
  }

 private:
  storage::KvStore& inner_;
  std::atomic<bool> held_{true};
};

// All of them wait for a place at once: those who find none wait on, and nobody is refused.
TEST(Online, many_publishers_wait_for_the_copies_under_way) {
  FeatureWorld world;
  world.stop();
  HeldWrites kv(*world.kv_inner);
  auto opened = Online::open(*world.sql, kv, *world.blobs);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  world.online = std::move(opened).value();
  world.ingest = std::make_unique<Ingest>(*world.sql, *world.blobs, *world.online, world.audit,
                                          world.metrics, world.clock);
  world.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
  world.apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
  constexpr int kViews = 24;
  for (int i = 0; i < kViews; ++i) {
    const std::string name = "v" + std::to_string(i);
    world.apply("FeatureView", name,
                R"({"entity":"customer","source":"tx","features":[{"name":"n","type":"int64"}]})");
    ASSERT_TRUE(world.online->make_sure(world.context.project, name).ok());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kViews; ++i) {
    threads.emplace_back([&, name = "v" + std::to_string(i)] {
      const auto report = world.append(name, "customer_id,at,n\n1,2026-05-20,1\n");
      EXPECT_TRUE(report.ok()) << report.error().message;
    });
  }
  while (world.online->commit() < kViews) std::this_thread::yield();
  kv.let_go();
  for (std::thread& thread : threads) thread.join();
  world.stop();
}

TEST(ViewIndex, lets_go_of_rows_that_were_copied_and_not_read) {
  std::atomic<std::int64_t> bytes{0};
  ViewIndex index(1, bytes);
  RowWords words(1);
  constexpr std::int64_t kKeys = 5'000;
  const auto row = [&](std::int64_t key, std::uint64_t commit) {
    words.set_version(key, 0, sequence_of(commit, 0));
    words.set_word(0, static_cast<std::uint64_t>(key));
    return words.row();
  };
  for (std::int64_t key = 0; key < kKeys; ++key) {
    index.put(encode_key({key}), row(key, key < kKeys / 2 ? 1 : 2), ViewIndex::Replaced::kForget);
  }
  const auto seen = [&](std::int64_t key) {
    return index.read(encode_key({key}), 9, [](const RowView&) {});
  };
  EXPECT_EQ(seen(kKeys), ViewIndex::Seen::kNothing);
  const std::int64_t all = bytes.load();
  {
    const ViewIndex::Hold hold(index);
    EXPECT_EQ(index.evict(all, 1), 0);
  }
  EXPECT_GT(index.evict(all, 1), 0);  // Twice around, so that it does not matter what was read.
  EXPECT_LT(bytes.load(), all);
  std::int64_t elsewhere = 0;
  for (std::int64_t key = 0; key < kKeys; ++key) {
    const bool gone = seen(key) == ViewIndex::Seen::kElsewhere;
    elsewhere += gone ? 1 : 0;
    EXPECT_FALSE(gone && key >= kKeys / 2) << "not copied yet: " << key;
  }
  EXPECT_GT(elsewhere, kKeys / 3);
  EXPECT_EQ(seen(kKeys), ViewIndex::Seen::kElsewhere) << "nobody knows any more";
  EXPECT_EQ(index.keys(), std::uint64_t{kKeys});
  // What comes back takes the room of what went.
  for (std::int64_t key = 0; key < kKeys / 2; ++key) {
    index.fill(encode_key({key}), row(key, 1), index.ticket(encode_key({key})));
  }
  for (std::int64_t key = 0; key < kKeys; ++key) {
    ASSERT_EQ(index.read(encode_key({key}), 9,
                         [&](const RowView& there) {
                           EXPECT_EQ(there.word(0), static_cast<std::uint64_t>(key));
                         }),
              ViewIndex::Seen::kRow);
  }
  EXPECT_LE(bytes.load(), all + all / 2);
  // Something was let go between the ticket and the row: it may be an old one.
  const std::uint64_t ticket = index.ticket(encode_key({0}));
  index.evict(all, 2);
  index.evict(all, 2);
  index.fill(encode_key({0}), row(0, 1), ticket);
  EXPECT_EQ(seen(0), ViewIndex::Seen::kElsewhere);
  index.clear();
  EXPECT_EQ(seen(0), ViewIndex::Seen::kNothing);
  EXPECT_EQ(index.keys(), 0u);
}

TEST(ViewIndex, rows_of_a_publish_are_shown_together) {
  std::atomic<std::int64_t> bytes{0};
  ViewIndex index(1, bytes);
  RowWords words(1);
  std::uint64_t shown = 0;
  const auto put = [&](std::int64_t key, std::int64_t event, std::uint64_t commit, double value) {
    words.set_version(event, 0, sequence_of(commit, 0));
    words.set_word(0, std::bit_cast<std::uint64_t>(value));
    return index.put(encode_key({key}), words.row(), ViewIndex::Replaced::kKeep);
  };
  const auto get = [&](std::int64_t key) {
    double value = -1;
    index.read(encode_key({key}), shown,
               [&](const RowView& row) { value = std::bit_cast<double>(row.word(0)); });
    return value;
  };
  const auto show = [&](std::uint64_t commit) {
    shown = commit;
    index.settle();
  };
  EXPECT_EQ(put(1, 10, 1, 1.0), ViewIndex::Put::kNewer);
  EXPECT_EQ(get(1), -1.0);
  show(1);
  EXPECT_EQ(get(1), 1.0);
  EXPECT_EQ(put(1, 20, 2, 2.0), ViewIndex::Put::kNewer);
  EXPECT_EQ(put(2, 20, 2, 3.0), ViewIndex::Put::kNewer);
  EXPECT_EQ(get(1), 1.0);
  EXPECT_EQ(get(2), -1.0);
  show(2);
  EXPECT_EQ(get(1), 2.0);
  EXPECT_EQ(get(2), 3.0);
  EXPECT_EQ(put(1, 15, 3, 9.0), ViewIndex::Put::kStale);
  EXPECT_EQ(put(1, 20, 2, 2.0), ViewIndex::Put::kSame);
  // Who still reads at a commit whose rows are not kept any more is told so.
  shown = 1;
  EXPECT_EQ(index.read(encode_key({1}), shown, [](const RowView&) {}), ViewIndex::Seen::kTooNew);
}

TEST(ViewIndex, keeps_words_and_texts_as_they_are) {
  std::atomic<std::int64_t> bytes{0};
  ViewIndex index(3, bytes);
  RowWords words(3);
  const auto put = [&](std::int64_t event, std::string_view text) {
    words.set_version(event, 0, sequence_of(1, event));
    words.set_word(0, (1ULL << 53) + 1);  // More than a double holds.
    words.set_text(1, text);
    words.set_null(2);
    index.put(encode_key({7}), words.row(), ViewIndex::Replaced::kForget);
  };
  const auto get = [&] {
    std::string seen;
    index.read(encode_key({7}), 1, [&](const RowView& row) {
      EXPECT_EQ(row.word(0), (1ULL << 53) + 1);
      EXPECT_TRUE(row.is_null(2));
      seen = row.text(1);
    });
    return seen;
  };
  put(1, "Abu Dhabi");
  EXPECT_EQ(get(), "Abu Dhabi");
  put(2, "");
  EXPECT_EQ(get(), "");
  put(3, "a text that is too long to lie inside a string object itself");
  EXPECT_EQ(get(), "a text that is too long to lie inside a string object itself");
}

TEST(ViewIndex, readers_see_whole_rows_while_a_writer_works) {
  constexpr std::int64_t kKeys = 200;
  std::atomic<std::int64_t> bytes{0};
  ViewIndex index(8, bytes);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> shown{0};
  std::thread reader([&] {
    while (!done.load() || reads.load() == 0) {
      for (std::int64_t key = 0; key < kKeys; ++key) {
        index.read(encode_key({key}), shown.load(), [&](const RowView& row) {
          for (std::size_t f = 1; f < 8; ++f) torn += row.word(f) != row.word(0);
        });
        ++reads;
      }
    }
  });
  RowWords words(8);
  for (std::uint64_t commit = 1; commit <= 200; ++commit) {
    for (std::int64_t key = 0; key < kKeys; ++key) {
      words.set_version(static_cast<std::int64_t>(commit), 0, sequence_of(commit, key));
      for (std::size_t f = 0; f < 8; ++f) words.set_word(f, commit);
      index.put(encode_key({key}), words.row(), ViewIndex::Replaced::kKeep);
    }
    shown = commit;
    index.settle();
  }
  done = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0u);
  EXPECT_EQ(index.keys(), static_cast<std::uint64_t>(kKeys));
}

}  // namespace
}  // namespace falaj::features
