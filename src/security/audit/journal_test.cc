#include "security/audit/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "storage/open.h"

namespace falaj::security {
namespace {

class PlainVault final : public OpeningVault {
 public:
  Result<std::string> seal(const std::string&, std::string_view, std::string_view text) override {
    return std::string(text);
  }
  Result<std::string> open(const std::string&, std::string_view, std::string_view text) override {
    return std::string(text);
  }
};

class Journal : public testing::Test {
 protected:
  Journal() {
    EXPECT_TRUE(store_->migrate({kAuditMigration}).ok());
    audit_.set_openings(&vault_);
  }
  AuditEntry last() { return audit_.get(audit_.head()->sequence).value(); }
  // Over all entries.
  std::int64_t entered(const std::string& member) {
    std::int64_t sum = 0;
    for (std::int64_t i = 1; i <= audit_.head()->sequence; ++i) {
      sum += audit_.get(i)->detail.integer(member);
    }
    return sum;
  }
  std::string rows() {
    std::string all;
    for (std::int64_t i = 1; i <= audit_.head()->sequence; ++i) {
      all += audit_.openings(i)->front().text;
    }
    return all;
  }

  FakeClock clock_;
  PlainVault vault_;
  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  Audit audit_{*store_, clock_};
};

TEST_F(Journal, enters_one_batch_an_interval_that_can_be_opened_and_compared) {
  AccessJournal journal(audit_, clock_);
  ASSERT_TRUE(journal.tick().ok());
  EXPECT_EQ(audit_.head()->sequence, 0);  // Nothing happened: no entry.
  for (int i = 0; i < 1'000; ++i) {
    journal.note({"user:a", "serving.predict", "payments", "Deployment/fraud"});
  }
  journal.note({"user:b", "features.read", "payments", "FeatureView/\"odd\""}, 7);
  ASSERT_TRUE(journal.tick().ok());
  ASSERT_TRUE(journal.tick().ok());
  EXPECT_EQ(audit_.head()->sequence, 1);
  const AuditEntry entry = last();
  EXPECT_EQ(entry.detail.integer("count"), 1'007);
  EXPECT_EQ(entry.detail.integer("rows"), 2);
  const auto openings = audit_.openings(1).value();
  ASSERT_EQ(openings.size(), 1u);
  EXPECT_NE(openings[0].text.find(
                "[\"user:a\",\"serving.predict\",\"payments\",\"Deployment/fraud\",1000]\n"),
            std::string::npos);
  EXPECT_EQ(batch_root(openings[0].text), entry.detail.text("root"));
  EXPECT_NE(batch_root(openings[0].text + "[]\n"), entry.detail.text("root"));
  EXPECT_EQ(entry.detail.text("records"), commitment_of(openings[0].salt, openings[0].text));
}

TEST_F(Journal, counts_of_many_threads_are_complete) {
  AccessJournal journal(audit_, clock_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        journal.note({"user:a", "serving.predict", "p", "Deployment/d"});
      }
    });
  }
  std::int64_t total = 0;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(journal.tick().ok());
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(journal.tick().ok());
  AuditQuery query;
  query.action = "access.batch";
  const auto entries = audit_.list(query).value();
  for (const AuditEntry& entry : entries) total += entry.detail.integer("count");
  EXPECT_EQ(total, 80'000);
}

TEST_F(Journal, made_up_names_fill_neither_the_memory_nor_the_rows_of_others) {
  AccessJournal journal(audit_, clock_, 80);
  for (int i = 0; i < 1'000; ++i) {
    journal.note({"user:a", "serving.predict", "p", "Deployment/" + std::to_string(i)});
  }
  journal.note({"user:b", "features.read", "p", "FeatureView/v"});
  ASSERT_TRUE(journal.tick().ok());
  EXPECT_EQ(entered("count"), 1'001);
  EXPECT_EQ(entered("rows"), 10 + 1 + 1) << "a's share, a's others, and b's";
  EXPECT_NE(rows().find("[\"user:a\",\"serving.predict\",\"\",\"other\",990]\n"),
            std::string::npos);
  EXPECT_NE(rows().find("[\"user:b\",\"features.read\",\"p\",\"FeatureView/v\",1]\n"),
            std::string::npos);
}

TEST_F(Journal, many_rows_become_several_entries_and_none_is_left_out) {
  AccessJournal journal(audit_, clock_, 1 << 20);
  for (int i = 0; i < 20'000; ++i) {
    journal.note({"user:a", "serving.predict", "p",
                  "Deployment/" + std::to_string(i) + "/" + std::string(60, 'x')});
  }
  ASSERT_TRUE(journal.tick().ok());
  EXPECT_GT(audit_.head()->sequence, 2);
  EXPECT_EQ(entered("rows"), 20'000);
  EXPECT_EQ(std::ranges::count(rows(), '\n'), 20'000);
  for (std::int64_t i = 1; i <= audit_.head()->sequence; ++i) {
    const std::string text = audit_.openings(i)->front().text;
    EXPECT_EQ(batch_root(text), audit_.get(i)->detail.text("root"));
  }
}

TEST_F(Journal, each_project_has_entries_of_its_own) {
  AccessJournal journal(audit_, clock_);
  journal.note({"user:a", "serving.predict", "pay", "Deployment/fraud"});
  journal.note({"user:a", "serving.predict", "hr", "Deployment/fraud"});
  ASSERT_TRUE(journal.tick().ok());
  AuditQuery query;
  query.project = "pay";
  const auto entries = audit_.list(query).value();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(audit_.openings(entries[0].sequence)->front().text.find("hr"), std::string::npos);
}

TEST_F(Journal, counts_are_kept_while_the_log_cannot_be_written) {
  AccessJournal journal(audit_, clock_);
  journal.note({"user:a", "serving.predict", "p", "Deployment/d"}, 5);
  const auto sql = [&](const char* text) {
    return store_->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute(text));
      return {};
    });
  };
  ASSERT_TRUE(
      sql("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END").ok());
  EXPECT_EQ(journal.tick().error().id, ErrorId::kAuditUnavailable);
  ASSERT_TRUE(sql("DROP TRIGGER full").ok());
  ASSERT_TRUE(journal.tick().ok());
  EXPECT_EQ(last().detail.integer("count"), 5);
}

}  // namespace
}  // namespace falaj::security
