#include "security/audit.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "crypto/merkle.h"
#include "security/audit/request_ids.h"
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
  EXPECT_EQ(first.actor, "user:dev");
  EXPECT_EQ(first.project, "payments");
  EXPECT_EQ(first.request_id, "request-1");
  EXPECT_EQ(first.detail.integer("count"), 1);
  EXPECT_EQ(first.hash, crypto::leaf_hash(audit_.lines(1, 1)->front()).hex());
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

TEST_F(AuditLog, a_flipped_bit_in_any_entry_is_found) {
  ASSERT_TRUE(audit_.advance().ok());
  std::mt19937 random(20'260);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t sequence = 1 + static_cast<std::int64_t>(random() % kEntries);
    const std::string intact = audit_.lines(sequence, 1)->front();
    std::string flipped = intact;
    const std::size_t at = random() % flipped.size();
    flipped[at] = static_cast<char>(flipped[at] ^ static_cast<char>(1u << (random() % 7)));
    tamper("UPDATE audit SET entry = ? WHERE sequence = ?", {flipped, sequence});
    SCOPED_TRACE(flipped);
    expect_broken_at(sequence);
    tamper("UPDATE audit SET entry = ? WHERE sequence = ?", {intact, sequence});
    ASSERT_TRUE(audit_.verify().ok());
  }
}

TEST_F(AuditLog, an_entry_written_otherwise_is_found_even_before_it_is_in_the_tree) {
  tamper(
      "UPDATE audit SET entry = replace(entry, '{\"action\"', '{ \"action\"')"
      " WHERE sequence = 3");
  expect_broken_at(3);
}

TEST_F(AuditLog, an_entry_listed_under_other_words_is_found) {
  tamper("UPDATE audit SET actor = 'user:eve' WHERE sequence = 4");
  expect_broken_at(4);
}

TEST_F(AuditLog, an_altered_tile_is_found) {
  ASSERT_TRUE(audit_.advance().ok());
  tamper("UPDATE audit_tiles SET hashes = replace(hashes, substr(hashes, 1, 4), 'abcd')");
  expect_broken_at(1);
}

TEST_F(AuditLog, swapped_entries_are_found) {
  tamper("UPDATE audit SET sequence = -1 WHERE sequence = 6");
  tamper("UPDATE audit SET sequence = 6 WHERE sequence = 7");
  tamper("UPDATE audit SET sequence = 7 WHERE sequence = -1");
  expect_broken_at(6);
}

TEST_F(AuditLog, an_entry_hidden_below_the_first_is_found) {
  tamper(
      "INSERT INTO audit SELECT -1, entry, action, object, project, actor FROM audit"
      " WHERE sequence = 1");
  EXPECT_EQ(audit_.verify().error().id, ErrorId::kAuditBroken);
}

TEST_F(AuditLog, a_deletion_in_the_middle_is_found) {
  tamper("DELETE FROM audit WHERE sequence = 8");
  expect_broken_at(8);
}

TEST_F(AuditLog, entries_cut_off_at_the_end_are_found_by_the_tree) {
  const crypto::TreeHead known = audit_.advance().value();
  tamper("DELETE FROM audit WHERE sequence > 9");
  expect_broken_at(10);
  // Whoever also cuts the tiles makes a log that is consistent in itself, but not the one whose
  // head was known.
  tamper("UPDATE audit_tiles SET hashes = substr(hashes, 1, 9 * 64)");
  const auto verified = audit_.verify();
  ASSERT_TRUE(verified.ok()) << verified.error().message;
  EXPECT_NE(verified->hash, known.root.hex());
  EXPECT_FALSE(audit_.head_at(known.size).ok());
}

TEST_F(AuditLog, proves_inclusion_and_growth) {
  const crypto::TreeHead early = audit_.advance().value();
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(audit_.record(context_, {"x.y", "", i}).ok());
  EXPECT_EQ(audit_.tree_head().value(), audit_.advance().value());
  const crypto::TreeHead late = audit_.advance().value();
  EXPECT_EQ(late.size, early.size + 600);
  EXPECT_EQ(audit_.head_at(early.size).value(), early);
  const auto growth = audit_.consistency(early.size, late.size).value();
  EXPECT_TRUE(crypto::verify_consistency(early, late, growth).ok());
  for (const std::int64_t sequence : {1, 2, 255, 256, 257, 511, 612}) {
    const auto proof = audit_.inclusion(sequence, late.size).value();
    const Sha256 leaf = crypto::leaf_hash(audit_.lines(sequence, 1)->front());
    EXPECT_TRUE(
        crypto::verify_inclusion(leaf, static_cast<std::uint64_t>(sequence - 1), late, proof).ok())
        << sequence;
  }
  EXPECT_FALSE(audit_.inclusion(0, late.size).ok());
  EXPECT_FALSE(audit_.inclusion(1, late.size + 1).ok());
  EXPECT_TRUE(audit_.verify().ok());
}

TEST_F(AuditLog, time_never_runs_back_and_a_clock_set_back_is_told) {
  const Timestamp last = audit_.get(kEntries)->at;
  clock_.set(last - Duration::hours(1));
  const auto entry = audit_.record(context_, {"x.y", "", Value()}).value();
  EXPECT_EQ(entry.at, last);
  EXPECT_EQ(entry.clock_behind, Duration::hours(1));
  // Another program on the same log knows the last time too.
  Audit again(*store_, clock_);
  EXPECT_EQ(again.record(context_, {"x.y", "", Value()})->clock_behind, Duration::hours(1));
  EXPECT_TRUE(audit_.verify().ok());
}

// Seals with nothing but a mark: enough to see what is kept where.
class MarkingVault final : public OpeningVault {
 public:
  Result<std::string> seal(const std::string& project, std::string_view about,
                           std::string_view plaintext) override {
    return project + "|" + std::string(about) + "|" +
           std::string(plaintext.rbegin(), plaintext.rend());
  }
  Result<std::string> open(const std::string& project, std::string_view about,
                           std::string_view sealed) override {
    const std::string head = project + "|" + std::string(about) + "|";
    if (!sealed.starts_with(head)) return Error(ErrorId::kDecryptFailed, "not this one");
    sealed.remove_prefix(head.size());
    return std::string(sealed.rbegin(), sealed.rend());
  }
};

TEST_F(AuditLog, a_personal_text_is_a_commitment_that_can_be_opened_and_forgotten) {
  MarkingVault vault;
  audit_.set_openings(&vault);
  const AuditEvent event{"access.break_glass",
                         "Model/payments/m",
                         Value(),
                         {{"reason", "Fatima called about invoice 7"}}};
  const std::int64_t sequence = audit_.record(context_, event)->sequence;
  EXPECT_EQ(audit_.lines(sequence, 1)->front().find("Fatima"), std::string::npos);
  const auto openings = audit_.openings(sequence).value();
  ASSERT_EQ(openings.size(), 1u);
  EXPECT_EQ(openings[0].text, "Fatima called about invoice 7");
  EXPECT_EQ(audit_.get(sequence)->detail.text("reason"),
            commitment_of(openings[0].salt, openings[0].text));
  // The same text twice gives two commitments: nobody can tell that they are one.
  EXPECT_NE(audit_.record(context_, event)->detail.text("reason"),
            audit_.get(sequence)->detail.text("reason"));
  EXPECT_EQ(audit_.erase_openings(context_, sequence).value_or(0), 1);
  EXPECT_TRUE(audit_.openings(sequence)->empty());
  EXPECT_EQ(audit_.erase_openings(context_, sequence).error().code, Code::kNotFound);
  EXPECT_TRUE(audit_.verify().ok());
}

TEST(RequestIds, say_nothing_of_what_a_caller_chose) {
  const std::string carried = carry_chosen_id("user:u_1", "layla.784-1980-7654321-1");
  const RequestIds ids = request_ids_of(carried);
  EXPECT_EQ(ids.chosen, "layla.784-1980-7654321-1");
  EXPECT_EQ(ids.told(), ids.chosen);
  EXPECT_EQ(ids.ours.size(), 16U);
  EXPECT_EQ(ids.ours.find("784"), std::string_view::npos);
  EXPECT_EQ(carried, carry_chosen_id("user:u_1", "layla.784-1980-7654321-1"))
      << "all entries of one request have one";
  EXPECT_NE(ids.ours, request_ids_of(carry_chosen_id("user:u_2", std::string(ids.chosen))).ours)
      << "two callers with the same id are two requests";
  EXPECT_EQ(request_ids_of("5f0c").ours, "5f0c");
  EXPECT_EQ(request_ids_of("5f0c").told(), "5f0c");
}

TEST_F(AuditLog, an_id_that_the_caller_chose_is_a_commitment) {
  MarkingVault vault;
  audit_.set_openings(&vault);
  RequestContext chosen = context_;
  chosen.request_id = carry_chosen_id("user:dev", "layla.784-1980-7654321-1");
  Value detail;
  detail["count"] = 7;
  const AuditEntry one = audit_.record(chosen, {"x.y", "", detail}).value();
  // Also among others that are written with one commit, and beside a text of the event's own.
  ASSERT_TRUE(audit_
                  .record_all({{context_, {"x.y", "", detail}},
                               {chosen, {"x.y", "", Value()}},
                               {chosen, {"x.y", "", Value(), {{"reason", "Fatima called"}}}},
                               {context_, {"x.y", "", detail}}})
                  .ok());
  for (const std::string& line : audit_.lines(one.sequence, 10).value()) {
    EXPECT_EQ(line.find("layla"), std::string::npos) << line;
  }
  for (const std::int64_t sequence : {one.sequence, one.sequence + 2, one.sequence + 3}) {
    const AuditEntry entry = audit_.get(sequence).value();
    EXPECT_EQ(entry.request_id, request_ids_of(chosen.request_id).ours);
    const auto openings = audit_.openings(sequence).value();
    ASSERT_FALSE(openings.empty());
    const Opening& last = openings.back();
    EXPECT_EQ(last.name, "request_id");
    EXPECT_EQ(last.text, "layla.784-1980-7654321-1");
    EXPECT_EQ(entry.detail.text("request_id"), commitment_of(last.salt, last.text));
  }
  EXPECT_EQ(audit_.get(one.sequence)->detail.integer("count"), 7);
  EXPECT_EQ(audit_.get(one.sequence + 1)->request_id, "request-1");
  EXPECT_FALSE(audit_.get(one.sequence + 4)->detail.has("request_id"));
  EXPECT_EQ(audit_.erase_openings(context_, one.sequence + 3).value_or(0), 2);
  EXPECT_TRUE(audit_.openings(one.sequence + 3)->empty());
  EXPECT_TRUE(audit_.verify().ok());
}

// A vault that has lost the keys of projects, as after shredding.
class ShreddedVault final : public OpeningVault {
 public:
  Result<std::string> seal(const std::string& project, std::string_view,
                           std::string_view plaintext) override {
    if (!project.empty()) return Error(ErrorId::kKeyMissing, "it was shredded");
    return std::string(plaintext);
  }
  Result<std::string> open(const std::string&, std::string_view, std::string_view sealed) override {
    return std::string(sealed);
  }
};

TEST_F(AuditLog, a_caller_s_id_does_not_keep_an_entry_about_a_shredded_project_from_being_written) {
  ShreddedVault vault;
  audit_.set_openings(&vault);
  RequestContext chosen = context_;
  chosen.request_id = carry_chosen_id("user:dev", "mine");
  const auto entry = audit_.record(chosen, {"key.shred", "", Value()});
  ASSERT_TRUE(entry.ok()) << entry.error().message;
  EXPECT_EQ(audit_.openings(entry->sequence)->front().text, "mine");
}

TEST_F(AuditLog, a_change_fails_when_its_entry_cannot_be_written) {
  tamper("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END");
  const auto refused = audit_.record(context_, {"x.y", "", Value()});
  EXPECT_EQ(refused.error().id, ErrorId::kAuditUnavailable);
}

TEST_F(AuditLog, records_many_with_one_commit_or_none) {
  ASSERT_TRUE(
      audit_.record_all({{context_, {"a.b", "1", Value()}}, {context_, {"a.b", "2", Value()}}})
          .ok());
  EXPECT_EQ(audit_.head()->sequence, kEntries + 2);
  EXPECT_FALSE(
      audit_.record_all({{context_, {"a.b", "3", Value()}}, {context_, {"a.b", "\xff", Value()}}})
          .ok());
  EXPECT_EQ(audit_.head()->sequence, kEntries + 2);
}

TEST_F(AuditLog, many_with_one_commit_are_the_entries_that_one_by_one_would_make) {
  RequestContext other = context_;
  other.principal.id = "service:loop";
  other.project = ProjectName("fraud");
  Value detail;
  detail["text"] = "a \"quoted\" line\n";
  detail["list"].push(1);
  const std::vector<AuditRecord> records{
      {context_, {"a.b", "one", detail}},
      {other, {"c.d", "two", Value(), {{"reason", "because"}}}},
      {other, {"e.f", "three", detail}},
  };
  ASSERT_TRUE(audit_.record_all(records).ok());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& [context, event] = records[i];
    const AuditEntry entry = audit_.get(kEntries + 1 + static_cast<std::int64_t>(i)).value();
    EXPECT_EQ(entry.actor, context.principal.id);
    EXPECT_EQ(entry.project, context.project.str());
    EXPECT_EQ(entry.action, event.action);
    EXPECT_EQ(entry.object, event.object);
    EXPECT_EQ(entry.at, clock_.now());
    if (event.personal.empty()) {
      EXPECT_EQ(to_json(entry.detail), to_json(event.detail));
    }
  }
  EXPECT_TRUE(audit_.get(kEntries + 2)->detail.text("reason").starts_with("sha256:"));
  EXPECT_TRUE(audit_.verify().ok());
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
  EXPECT_TRUE(is_valid_utf8(audit_.get(entry->sequence)->detail.text("bad")));
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
    ASSERT_TRUE(audit.advance().ok());
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

TEST(AuditOnDisk, concurrent_changes_make_one_log) {
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
