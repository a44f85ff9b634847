// Every table says where its rows may be, or why it need not.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "app/backup.h"
#include "app/wiring.h"

namespace falaj::app {
namespace {

// Tables whose rows are data of a project: each row carries its zone, and "" is refused. A backup
// asks for all of them.
const std::set<std::string> kLabelled(labelled_tables().begin(), labelled_tables().end());

// Rows that belong to a row of a labelled table: by which column.
const std::map<std::string, std::pair<std::string, std::string>> kPartOf{
    {"feature_segments", {"commit_number", "feature_commits"}},
    {"run_metrics", {"run", "runs"}},
    {"job_events", {"job", "jobs"}},
    {"job_curves", {"job", "jobs"}},
    {"job_payloads", {"job", "jobs"}},
    {"model_aliases", {"version", "model_versions"}},
};

// Declarations, numbers and the platform's own affairs: no data of anybody.
const std::set<std::string> kNoData{
    "falaj_migrations",
    "objects",
    "object_history",  // What people declare.
    "audit",
    "audit_tiles",
    "audit_heads",
    "audit_witnessed",
    "signing_keys",
    "audit_openings",  // Personal texts of the log, sealed under a key of their own.
    "users",
    "former_names",
    "processes",
    "tokens",  // Who asks; they carry the zone that was declared.
    "transfer_approvals",
    "zone_ledger",           // Zones are what these are about.
    "feature_erased_blobs",  // Names of files that are to go.
    "feature_arrivals",      // That rows are late, not what they are.
    "model_retrain_due",
    "webhook_deliveries",
    "lineage_cursors",  // How far a receiver was told, not what.
    "loop_state",
    "loop_retrains",
    "job_decisions",  // How many of what were free, and who was given them.
    "stored_bytes",   // How much a project holds, not what.
    "store_generations",
    "emergencies",  // Who broke the glass, and where.
};

// Names and types of the columns of a CREATE TABLE.
std::vector<std::pair<std::string, std::string>> columns_of(const std::string& declaration) {
  std::vector<std::pair<std::string, std::string>> out;
  int depth = 0;
  std::string one;
  const auto take = [&] {
    std::istringstream words(one);
    std::string name;
    std::string type;
    words >> name >> type;
    static const std::set<std::string> kRules{"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"};
    if (!name.empty() && !kRules.contains(name)) out.emplace_back(name, type);
    one.clear();
  };
  for (const char c : declaration.substr(declaration.find('(') + 1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) break;
    if (c == ',' && depth == 0) {
      take();
    } else {
      one.push_back(c);
    }
  }
  take();
  return out;
}

class ZoneLabels : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(sql_->migrate(all_migrations()).ok()); }
  std::vector<std::string> tables() {
    std::vector<std::string> out;
    const storage::SqlRows rows =
        storage::query(*sql_,
                       "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE "
                       "'sqlite_%' ORDER BY name")
            .value();
    for (const storage::SqlRow& row : rows) out.push_back(row.text(0));
    return out;
  }
  std::string declaration(const std::string& table) {
    return storage::query(*sql_, "SELECT sql FROM sqlite_master WHERE name = ?", {table})
        .value()
        .front()
        .text(0);
  }
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
};

TEST_F(ZoneLabels, every_table_carries_a_zone_or_says_why_it_need_not) {
  std::set<std::string> seen;
  for (const std::string& table : tables()) {
    const int classes = static_cast<int>(kLabelled.contains(table)) +
                        static_cast<int>(kPartOf.contains(table)) +
                        static_cast<int>(kNoData.contains(table));
    EXPECT_EQ(classes, 1) << table << " holds data or it does not: say so in this test";
    seen.insert(table);
    if (kLabelled.contains(table)) {
      EXPECT_NE(declaration(table).find("zone TEXT NOT NULL CHECK (zone != '')"), std::string::npos)
          << declaration(table);
    }
    const auto part = kPartOf.find(table);
    if (part != kPartOf.end()) {
      EXPECT_NE(declaration(table).find(part->second.first), std::string::npos);
      EXPECT_NE(declaration(table).find("REFERENCES " + part->second.second), std::string::npos)
          << declaration(table);
    }
  }
  for (const std::string& table : kLabelled) EXPECT_TRUE(seen.contains(table)) << table;
  for (const auto& [table, whole] : kPartOf) EXPECT_TRUE(seen.contains(table)) << table;
  for (const std::string& table : kNoData) EXPECT_TRUE(seen.contains(table)) << table;
}

TEST_F(ZoneLabels, an_unlabelled_row_is_refused_by_the_store_itself) {
  for (const std::string& table : kLabelled) {
    std::string names;
    std::string marks;
    storage::SqlParams good;
    storage::SqlParams bad;
    for (const auto& [name, type] : columns_of(declaration(table))) {
      names += (names.empty() ? "" : ", ") + name;
      marks += marks.empty() ? "?" : ", ?";
      if (type == "TEXT") {
        good.emplace_back(std::string(name == "zone" ? "ae" : "x"));
        bad.emplace_back(std::string(name == "zone" ? "" : "x"));
      } else {
        good.emplace_back(std::int64_t{1});
        bad.emplace_back(std::int64_t{1});
      }
    }
    const auto insert = [&](const storage::SqlParams& row) {
      return sql_->write([&](storage::SqlTransaction& tx) -> Status {
        FALAJ_TRY(
            tx.execute("INSERT INTO " + table + " (" + names + ") VALUES (" + marks + ")", row));
        return {};
      });
    };
    EXPECT_FALSE(insert(bad).ok()) << table;
    EXPECT_TRUE(insert(good).ok()) << table << ": " << names;
  }
}

TEST_F(ZoneLabels, whose_rows_there_are_is_known_from_every_labelled_table) {
  EXPECT_TRUE(owners_in(*sql_).value().empty());
  for (const std::string& table : labelled_tables()) {
    EXPECT_NE(declaration(table).find("project TEXT NOT NULL"), std::string::npos) << table;
  }
  FakeClock clock;
  security::Audit audit(*sql_, clock);
  tracking::Runs runs(*sql_, audit, clock);
  for (const char* zone : {"ae", "ae", "eu"}) {
    const auto context = security::system_context("user:x", ProjectName("p"), Zone(zone));
    ASSERT_TRUE(runs.create(context, {}).ok());
  }
  const std::vector<storage::Owner> owners = owners_in(*sql_).value();
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0].project.str(), "p");
  EXPECT_EQ(owners[0].zone.name(), "ae");
  EXPECT_EQ(owners[0].object, "runs");
  EXPECT_EQ(owners[1].zone.name(), "eu");
}

TEST_F(ZoneLabels, runs_and_jobs_without_a_zone_are_refused_by_name) {
  FakeClock clock;
  security::Audit audit(*sql_, clock);
  tracking::Runs runs(*sql_, audit, clock);
  const auto nowhere = security::system_context("user:x", ProjectName("p"), Zone());
  EXPECT_EQ(runs.create(nowhere, {}).error().id, ErrorId::kZoneMissing);
  const auto there = security::system_context("user:x", ProjectName("p"), Zone("ae"));
  EXPECT_EQ(runs.create(there, {}).value().zone.name(), "ae");
}

}  // namespace
}  // namespace falaj::app
