#include "security/audit.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security {
namespace {

using storage::SqlTransaction;

constexpr int kEntries = 12;

class AuditLog : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_->migrate({kAuditMigration}).ok());
    for (int i = 1; i <= kEntries; ++i) {
      clock_.advance(Duration::milliseconds(7));
      Value detail;
      detail["count"] = i;
      detail["share"] = 0.25 * i;
      detail["note"] = "entry \"" + std::to_string(i) + "\"";
      const auto entry =
          audit_.record(context_, {i % 2 == 0 ? "model.promote" : "object.apply",
                                   "Model/payments/m" + std::to_string(i % 3), detail});
      ASSERT_TRUE(entry.ok()) << entry.error().message;
    }
  }

  // What somebody with the database file could do.
  void tamper(const std::string& sql, const storage::SqlParams& params = {}) {
    const Status done = store_->write([&](SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute("DROP TRIGGER IF EXISTS audit_no_update"));
      FALAJ_TRY(tx.execute("DROP TRIGGER IF EXISTS audit_no_delete"));
      FALAJ_TRY(tx.execute(sql, params));
      return {};
    });
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  void expect_broken_at(std::int64_t sequence) {
    const auto verified = audit_.verify();
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.error().id, ErrorId::kAuditBroken);
    EXPECT_NE(verified.error().message.find("entry " + std::to_string(sequence) + " "),
              std::string::npos)
        << verified.error().message;
  }

  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  Audit audit_{*store_, clock_};
  RequestContext context_{{PrincipalKind::kUser, "user:dev"},
                          ProjectName("payments"),
                          Zone("ae"),
                          Timestamp::max(),
                          "request-1",
                          ""};
};

TEST_F(AuditLog, verifies_to_its_head) {
  const auto verified = audit_.verify();
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_EQ(verified->sequence, kEntries);
  EXPECT_EQ(verified->hash, audit_.head()->hash);
  const AuditEntry first = audit_.get(1).value();
  EXPECT_EQ(first.previous, std::string(64, '0'));
  EXPECT_EQ(first.actor, "user:dev");
  EXPECT_EQ(first.project, "payments");
  EXPECT_EQ(first.request_id, "request-1");
  EXPECT_EQ(first.detail.integer("count"), 1);
  EXPECT_EQ(audit_.get(2)->previous, first.hash);
}

TEST_F(AuditLog, an_empty_log_verifies) {
  const auto store = storage::make_fake_sql();
  ASSERT_TRUE(store->migrate({kAuditMigration}).ok());
  const Audit audit(*store, clock_);
  EXPECT_EQ(audit.verify()->sequence, 0);
}

TEST_F(AuditLog, refuses_updates_and_deletions_through_the_store) {
  for (const char* sql : {"UPDATE audit SET actor = 'eve'", "DELETE FROM audit"}) {
    const Status done = store_->write([&](SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute(sql));
      return {};
    });
    EXPECT_FALSE(done.ok()) << sql;
  }
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(AuditLog, a_flipped_bit_in_any_stored_text_is_found) {
  std::mt19937 random(20'260);
  const char* columns[] = {"actor",      "project", "action",   "object",
                           "request_id", "detail",  "previous", "hash"};
  for (int round = 0; round < 200; ++round) {
    const std::int64_t sequence = 1 + static_cast<std::int64_t>(random() % kEntries);
    const std::string column = columns[random() % std::size(columns)];
    const auto rows =
        storage::query(*store_, "SELECT " + column + " FROM audit WHERE sequence = ?", {sequence});
    const std::string intact = rows->front().text(0);
    std::string flipped = intact;
    const std::size_t at = random() % flipped.size();
    flipped[at] = static_cast<char>(flipped[at] ^ static_cast<char>(1u << (random() % 7)));
    const std::string sql = "UPDATE audit SET " + column + " = ? WHERE sequence = ?";
    tamper(sql, {flipped, sequence});
    SCOPED_TRACE(column + " of " + std::to_string(sequence) + ": " + flipped);
    expect_broken_at(sequence);
    tamper(sql, {intact, sequence});
    ASSERT_TRUE(audit_.verify().ok());
  }
}

TEST_F(AuditLog, a_moved_time_is_found) {
  tamper("UPDATE audit SET at = at + 1 WHERE sequence = 5");
  expect_broken_at(5);
}

TEST_F(AuditLog, the_same_detail_written_differently_is_found) {
  tamper("UPDATE audit SET detail = ' ' || detail WHERE sequence = 3");
  expect_broken_at(3);
}

TEST_F(AuditLog, a_recomputed_entry_breaks_the_one_behind_it) {
  AuditEntry forged = audit_.get(4).value();
  const std::string stored = forged.hash;
  tamper("UPDATE audit SET hash = previous WHERE sequence = 4");
  expect_broken_at(4);
  tamper("UPDATE audit SET hash = ? WHERE sequence = 4", {stored});
  tamper("UPDATE audit SET previous = ? WHERE sequence = 5", {std::string(64, 'a')});
  expect_broken_at(5);
}

TEST_F(AuditLog, swapped_entries_are_found) {
  tamper("UPDATE audit SET sequence = -1 WHERE sequence = 6");
  tamper("UPDATE audit SET sequence = 6 WHERE sequence = 7");
  tamper("UPDATE audit SET sequence = 7 WHERE sequence = -1");
  expect_broken_at(6);
}

TEST_F(AuditLog, an_entry_hidden_below_the_first_is_found) {
  tamper(
      "INSERT INTO audit SELECT -1, at, actor, project, action, object, request_id, detail,"
      " previous, hash FROM audit WHERE sequence = 1");
  EXPECT_EQ(audit_.verify().error().id, ErrorId::kAuditBroken);
}

TEST_F(AuditLog, a_deletion_in_the_middle_is_found) {
  tamper("DELETE FROM audit WHERE sequence = 8");
  expect_broken_at(8);
}

TEST_F(AuditLog, entries_cut_off_at_the_end_are_found_by_the_head) {
  const AuditHead known = audit_.head().value();
  tamper("DELETE FROM audit WHERE sequence > 9");
  expect_broken_at(10);
  // Whoever also sets the head back makes a log that is consistent in itself, but not the one
  // whose head was known.
  tamper("UPDATE audit_head SET sequence = 9, hash = (SELECT hash FROM audit WHERE sequence = 9)");
  const auto verified = audit_.verify();
  ASSERT_TRUE(verified.ok());
  EXPECT_NE(verified->hash, known.hash);
  EXPECT_EQ(audit_.get(known.sequence).error().code, Code::kNotFound);
}

TEST_F(AuditLog, a_change_that_is_rolled_back_leaves_no_entry) {
  const Status failed = store_->write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(audit_.append(tx, context_, {"object.apply", "Entity/payments/x", Value()}));
    return Error(Code::kConflict, "the change failed");
  });
  EXPECT_EQ(failed.error().code, Code::kConflict);
  EXPECT_EQ(audit_.head()->sequence, kEntries);
  const auto next = audit_.record(context_, {"object.apply", "Entity/payments/y", Value()});
  EXPECT_EQ(next->sequence, kEntries + 1);
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(AuditLog, refuses_what_could_not_be_read_back) {
  const auto refused = audit_.record(context_, {"object.apply", "\xff", Value()});
  EXPECT_EQ(refused.error().id, ErrorId::kInvalidUtf8);
  Value deep;
  for (int i = 0; i < 100; ++i) {
    Value outer;
    outer.push(deep);
    deep = outer;
  }
  EXPECT_FALSE(audit_.record(context_, {"object.apply", "x", deep}).ok());
  EXPECT_EQ(audit_.verify()->sequence, kEntries);
}

TEST_F(AuditLog, an_unreadable_detail_is_kept_repaired_and_verifies) {
  Value detail;
  detail["bad"] = "\xff\xfe";
  const auto entry = audit_.record(context_, {"object.apply", "x", detail});
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_TRUE(is_valid_utf8(entry->detail.text("bad")));
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(AuditLog, lists_by_action_object_and_page) {
  AuditQuery query;
  query.limit = 5;
  const auto newest = audit_.list(query).value();
  ASSERT_EQ(newest.size(), 5u);
  EXPECT_EQ(newest.front().sequence, kEntries);
  query.after = newest.back().sequence;
  EXPECT_EQ(audit_.list(query)->front().sequence, newest.back().sequence - 1);
  query.order = AuditQuery::Order::kOldestFirst;
  EXPECT_EQ(audit_.list(query)->front().sequence, newest.back().sequence + 1);

  AuditQuery by_action;
  by_action.action = "model.";
  EXPECT_EQ(audit_.list(by_action)->size(), 6u);
  by_action.action = "model";
  EXPECT_EQ(audit_.list(by_action)->size(), 0u);
  by_action.action = "object.apply";
  EXPECT_EQ(audit_.list(by_action)->size(), 6u);
  by_action.object = "Model/payments/m1";
  EXPECT_EQ(audit_.list(by_action)->size(), 2u);
  by_action.project = "elsewhere";
  EXPECT_EQ(audit_.list(by_action)->size(), 0u);
}

TEST_F(AuditLog, refuses_unbounded_lists) {
  AuditQuery query;
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1'000'000}}) {
    query.limit = limit;
    EXPECT_EQ(audit_.list(query).error().id, ErrorId::kOutOfRange);
  }
}

TEST(AuditOnDisk, one_flipped_byte_in_the_file_is_found) {
  const storage::TempFolder folder;
  const std::string path = folder / "meta.db";
  const FakeClock clock;
  {
    const auto store = storage::open_sqlite(path).value();
    ASSERT_TRUE(store->migrate({kAuditMigration}).ok());
    Audit audit(*store, clock);
    const RequestContext context = system_context("service:loop", ProjectName("p"), Zone("ae"));
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(audit.record(context, {"loop.retrain", "Model/p/fraud", Value(i)}).ok());
    }
    ASSERT_TRUE(audit.verify().ok());
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  const std::size_t at = content.str().find("Model/p/fraud");
  ASSERT_NE(at, std::string::npos);
  file.seekp(static_cast<std::streamoff>(at));
  file.put('N');
  file.close();
  const auto store = storage::open_sqlite(path).value();
  const Audit audit(*store, clock);
  EXPECT_EQ(audit.verify().error().id, ErrorId::kAuditBroken);
}

TEST(AuditOnDisk, concurrent_changes_make_one_chain) {
  const storage::TempFolder folder;
  const auto store = storage::open_sqlite(folder / "meta.db").value();
  ASSERT_TRUE(store->migrate({kAuditMigration}).ok());
  const FakeClock clock;
  Audit audit(*store, clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto context = system_context("service:" + std::to_string(t), ProjectName("p"), Zone());
      for (int i = 0; i < 25; ++i) EXPECT_TRUE(audit.record(context, {"loop.tick", "", i}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(audit.verify()->sequence, 100);
}

}  // namespace
}  // namespace falaj::security
