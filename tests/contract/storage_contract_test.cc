// What every adapter of a storage port promises. To add an adapter, add one line to its list at the
// end of the suite; a server that is not there is left out by its factory's caller, not here.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "security/keys/testing/key_world.h"
#include "security/sealed/blobs.h"
#include "security/sealed/kv.h"
#include "security/sealed/pages.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

#ifdef FALAJ_REDIS_SERVER
#include "app/redis_rows.h"
#include "redis_server.h"
#endif

namespace falaj::storage {
namespace {

using namespace std::string_literals;

template <class Port>
struct Adapter {
  std::string name;
  std::unique_ptr<Port> (*open)(const std::string& folder);
};

template <class Port>
void PrintTo(const Adapter<Port>& adapter, std::ostream* out) {
  *out << adapter.name;
}

template <class Port>
std::string adapter_name(const testing::TestParamInfo<Adapter<Port>>& info) {
  return info.param.name;
}

template <class Port>
std::unique_ptr<Port> opened(Result<std::unique_ptr<Port>> result) {
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? std::move(result).value() : nullptr;
}

template <class Port>
class PortTest : public testing::TestWithParam<Adapter<Port>> {
 protected:
  void SetUp() override { ASSERT_NE(store_, nullptr); }
  TempFolder folder_;
  std::unique_ptr<Port> store_ = this->GetParam().open(folder_.path());
};

// Keys for the sealed adapters; one world for all, since each test has a store of its own.
security::keys::KeyTree& keys() {
  static security::keys::testing::KeyWorld world;
  return *world.tree;
}

// ---- SqlStore -------------------------------------------------------------------------------

class SqlContract : public PortTest<SqlStore> {
 protected:
  void SetUp() override {
    PortTest::SetUp();
    const Status migrated = store_->migrate({kPeople});
    ASSERT_TRUE(migrated.ok()) << migrated.error().message;
  }

  Result<std::int64_t> execute(std::string_view sql, const SqlParams& params = {}) {
    std::int64_t changed = 0;
    FALAJ_TRY(store_->write([&](SqlTransaction& tx) -> Status {
      changed = FALAJ_TRY(tx.execute(sql, params));
      return {};
    }));
    return changed;
  }

  std::int64_t count() {
    const auto rows = query(*store_, "SELECT count(*) FROM people");
    EXPECT_TRUE(rows.ok());
    return rows.ok() ? rows->front().integer(0) : -1;
  }

  const Migration kPeople{
      "contract-001-people",
      "CREATE TABLE people (name TEXT PRIMARY KEY, age INTEGER, height REAL);\n"
      "-- A comment between statements.\n"
      "CREATE TABLE pets (name TEXT PRIMARY KEY, owner TEXT NOT NULL REFERENCES people (name)"
      " DEFERRABLE INITIALLY DEFERRED);\n"};
};

TEST_P(SqlContract, reads_back_every_type) {
  const std::string odd = "a\0b '\"; DROP TABLE people;-- \xd8\xb9"s;
  ASSERT_EQ(execute("INSERT INTO people VALUES (?, ?, ?)", {odd, INT64_MIN, 0.1}).value(), 1);
  ASSERT_EQ(execute("INSERT INTO people VALUES (?, ?, ?)", {"", nullptr, nullptr}).value(), 1);
  const auto rows = query(*store_, "SELECT name, age, height FROM people ORDER BY name");
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].text(0), "");
  EXPECT_FALSE((*rows)[0].is_null(0));
  EXPECT_TRUE((*rows)[0].is_null(1));
  EXPECT_EQ((*rows)[1].text(0), odd);
  EXPECT_EQ((*rows)[1].integer(1), INT64_MIN);
  EXPECT_EQ((*rows)[1].real(2), 0.1);
  EXPECT_EQ((*rows)[1].text(1), "");  // A wrong type reads as nothing.
  EXPECT_EQ((*rows)[1].integer(9), 0);
}

TEST_P(SqlContract, a_failing_body_leaves_nothing) {
  const Status failed = store_->write([](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT INTO people (name) VALUES (?)", {"ali"}));
    return Error(ErrorId::kQueueFull, "changed my mind");
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().id, ErrorId::kQueueFull);
  EXPECT_EQ(count(), 0);
}

TEST_P(SqlContract, a_body_sees_its_own_changes) {
  const Status done = store_->write([](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT INTO people (name) VALUES (?)", {"ali"}));
    const SqlRows rows = FALAJ_TRY(tx.query("SELECT name FROM people"));
    EXPECT_EQ(rows.size(), 1u);
    return {};
  });
  EXPECT_TRUE(done.ok());
}

TEST_P(SqlContract, a_broken_unique_constraint_is_a_conflict) {
  ASSERT_TRUE(execute("INSERT INTO people (name) VALUES ('ali')").ok());
  const auto again = execute("INSERT INTO people (name) VALUES ('ali')");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::kConflict);
}

TEST_P(SqlContract, a_broken_deferred_foreign_key_is_a_conflict_of_its_own_body) {
  const auto orphan = execute("INSERT INTO pets VALUES ('cat', 'nobody')");
  ASSERT_FALSE(orphan.ok());
  EXPECT_EQ(orphan.error().code, Code::kConflict);
  const Status repaired = store_->write([](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT INTO pets VALUES ('cat', 'ali')"));
    FALAJ_TRY(tx.execute("INSERT INTO people (name) VALUES ('ali')"));
    return {};
  });
  EXPECT_TRUE(repaired.ok()) << repaired.error().message;
}

TEST_P(SqlContract, counts_changed_rows_of_this_statement_only) {
  ASSERT_TRUE(execute("INSERT INTO people (name) VALUES ('a'), ('b'), ('c')").ok());
  EXPECT_EQ(execute("UPDATE people SET age = 1 WHERE name <> 'a'").value(), 2);
  EXPECT_EQ(execute("UPDATE people SET age = 1 WHERE name = 'nobody'").value(), 0);
  EXPECT_EQ(execute("CREATE TABLE other (x INTEGER)").value(), 0);
  EXPECT_EQ(execute("DELETE FROM people").value(), 3);
}

TEST_P(SqlContract, a_read_cannot_write) {
  const Status read = store_->read([](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT INTO people (name) VALUES ('ali')"));
    return {};
  });
  EXPECT_FALSE(read.ok());
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(execute("INSERT INTO people (name) VALUES ('ali')").ok());  // Still usable.
}

TEST_P(SqlContract, refuses_transaction_control_and_several_statements) {
  for (const char* sql :
       {"COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT x", "DELETE FROM people; DELETE FROM people", "",
        "SELECT nothing FROM", "DELETE FROM people WHERE name = ?"}) {
    EXPECT_FALSE(execute(sql).ok()) << sql;
  }
  EXPECT_TRUE(execute("INSERT INTO people (name) VALUES ('ali');  ").ok());
  EXPECT_EQ(count(), 1);
}

TEST_P(SqlContract, refuses_a_call_from_inside_a_body) {
  const auto inside = [&](SqlTransaction&) -> Status {
    EXPECT_EQ(store_->write([](SqlTransaction&) { return Status(); }).error().code,
              Code::kInternal);
    EXPECT_EQ(store_->read([](SqlTransaction&) { return Status(); }).error().code, Code::kInternal);
    return {};
  };
  EXPECT_TRUE(store_->write(inside).ok());
  EXPECT_TRUE(store_->read(inside).ok());
}

TEST_P(SqlContract, applies_each_migration_once_and_in_order) {
  const Migration more{"contract-002-more", "ALTER TABLE people ADD COLUMN town TEXT;"};
  ASSERT_TRUE(store_->migrate({kPeople, more}).ok());
  ASSERT_TRUE(store_->migrate({kPeople, more}).ok());
  EXPECT_TRUE(execute("UPDATE people SET town = 'Al Ain'").ok());
}

TEST_P(SqlContract, refuses_migrations_of_a_newer_program_and_changed_texts) {
  const auto newer = store_->migrate({});
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().id, ErrorId::kDataFolderNewer);
  const auto changed = store_->migrate({{kPeople.name, kPeople.sql + " "}});
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, Code::kFailedPrecondition);
}

TEST_P(SqlContract, a_failing_migration_leaves_nothing) {
  const auto failed = store_->migrate(
      {kPeople, {"contract-002-bad", "CREATE TABLE half (x INTEGER); CREATE NONSENSE;"}});
  ASSERT_FALSE(failed.ok());
  EXPECT_FALSE(query(*store_, "SELECT * FROM half").ok());
  EXPECT_TRUE(store_->migrate({kPeople}).ok());
}

TEST_P(SqlContract, serves_many_threads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string name = std::to_string(t) + "/" + std::to_string(i);
        const bool written =
            execute("INSERT INTO people (name, age) VALUES (?, ?)", {name, std::int64_t{i}}).ok();
        const auto rows = query(*store_, "SELECT age FROM people WHERE name = ?", {name});
        if (!written || !rows.ok() || rows->size() != 1) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(count(), 120);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, SqlContract,
    testing::Values(Adapter<SqlStore>{"fake", [](const std::string&) { return make_fake_sql(); }},
                    Adapter<SqlStore>{
                        "sqlite",
                        [](const std::string& f) { return opened(open_sqlite(f + "/m.db")); }},
                    Adapter<SqlStore>{"sealed",
                                      [](const std::string& f) {
                                        return opened(open_sqlite(
                                            f + "/m.db", Durability::kSync,
                                            security::sealed::make_page_cipher(
                                                keys().store_key("m.db").value(), "m.db")));
                                      }}),
    adapter_name<SqlStore>);

// ---- KvStore --------------------------------------------------------------------------------

const Owner kView{ProjectName("pay"), Zone("ae"), "FeatureView/v"};

class KvContract : public PortTest<KvStore> {
 protected:
  std::vector<std::string> keys(const Owner& owner, std::size_t most = 1'000) {
    std::vector<std::string> found;
    const Status done = store_->scan(owner, [&](std::string_view key, std::string_view) {
      found.emplace_back(key);
      return found.size() < most;
    });
    EXPECT_TRUE(done.ok());
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_P(KvContract, reads_what_was_written_last) {
  EXPECT_EQ(store_->get(kView, "a").value(), std::nullopt);
  ASSERT_TRUE(store_->write(kView, {{"a", "1"}}).ok());
  ASSERT_TRUE(store_->write(kView, {{"a", "2"}, {"b", ""}}).ok());
  EXPECT_EQ(store_->get(kView, "a").value(), "2");
  EXPECT_EQ(store_->get(kView, "b").value(), "");
  ASSERT_TRUE(store_->write(kView, {{"a", std::nullopt}, {"never", std::nullopt}}).ok());
  EXPECT_EQ(store_->get(kView, "a").value(), std::nullopt);
}

TEST_P(KvContract, within_a_batch_the_last_write_wins) {
  ASSERT_TRUE(store_->write(kView, {{"a", "1"}, {"a", std::nullopt}, {"a", "3"}}).ok());
  EXPECT_EQ(store_->get(kView, "a").value(), "3");
  EXPECT_TRUE(store_->write(kView, {}).ok());
}

TEST_P(KvContract, answers_many_keys_in_their_order) {
  ASSERT_TRUE(store_->write(kView, {{"a", "1"}, {"c", "3"}}).ok());
  const auto answers = store_->get_many(kView, {"c", "b", "a", "c"}).value();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0], "3");
  EXPECT_EQ(answers[1], std::nullopt);
  EXPECT_EQ(answers[2], "1");
  EXPECT_EQ(answers[3], "3");
  EXPECT_TRUE(store_->get_many(kView, {})->empty());
}

TEST_P(KvContract, scans_an_owner_until_told_to_stop) {
  const std::string zero = "p\0x"s;
  ASSERT_TRUE(store_->write(kView, {{"p\xff", "4"}, {"pa", "3"}, {"p", "1"}, {zero, "2"}}).ok());
  EXPECT_EQ(keys(kView), (std::vector<std::string>{"p", zero, "pa", "p\xff"}));
  EXPECT_EQ(keys(kView, 2).size(), 2u);
}

TEST_P(KvContract, owners_do_not_see_each_other) {
  const std::vector<Owner> others{{ProjectName("other"), Zone("ae"), "FeatureView/v"},
                                  {ProjectName("pay"), Zone("eu"), "FeatureView/v"},
                                  {ProjectName("pay"), Zone("ae"), "FeatureView/"},
                                  {ProjectName("payae"), Zone(""), "FeatureView/v"}};
  ASSERT_TRUE(store_->write(kView, {{"a", "mine"}}).ok());
  for (const Owner& other : others) {
    if (!other.zone.labelled()) continue;
    EXPECT_EQ(store_->get(other, "a").value(), std::nullopt);
    EXPECT_TRUE(keys(other).empty());
    ASSERT_TRUE(store_->write(other, {{"a", "theirs"}}).ok());
    ASSERT_TRUE(store_->write(other, {{"a", std::nullopt}}).ok());
  }
  EXPECT_EQ(store_->get(kView, "a").value(), "mine");
}

TEST_P(KvContract, clear_deletes_all_of_one_owner_and_nothing_else) {
  const Owner other{ProjectName("pay"), Zone("ae"), "FeatureView/other"};
  std::vector<KvWrite> batch;
  for (int i = 0; i < 1'000; ++i) batch.push_back({std::to_string(i), "x"});
  batch.push_back({"own", "x", RowKey::kItsOwn});
  ASSERT_TRUE(store_->write(kView, batch).ok());
  ASSERT_TRUE(store_->write(other, {{"1", "theirs"}}).ok());
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(store_->clear(kView).ok());
    EXPECT_EQ(store_->get(kView, "1").value(), std::nullopt);
    EXPECT_EQ(store_->get(kView, "own").value(), std::nullopt);
    EXPECT_TRUE(keys(kView).empty());
    EXPECT_EQ(store_->get(other, "1").value(), "theirs");
  }
  ASSERT_TRUE(store_->write(kView, {{"1", "again"}}).ok());
  EXPECT_EQ(store_->get(kView, "1").value(), "again");
}

TEST_P(KvContract, keeps_arbitrary_bytes_and_large_values) {
  std::string key;
  for (int i = 0; i < 256; ++i) key += static_cast<char>(i);
  const std::string value(2u << 20, '\xab');
  ASSERT_TRUE(store_->write(kView, {{key, value}}).ok());
  EXPECT_EQ(store_->get(kView, key).value(), value);
}

TEST_P(KvContract, a_batch_is_seen_whole) {
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  ASSERT_TRUE(store_->write(kView, {{"x", "0"}, {"y", "0"}}).ok());
  std::thread reader([&] {
    while (!stop.load()) {
      std::vector<std::string> values;
      static_cast<void>(store_->scan(kView, [&](std::string_view, std::string_view value) {
        values.emplace_back(value);
        return true;
      }));
      if (values.size() != 2 || values[0] != values[1]) torn.fetch_add(1);
    }
  });
  for (int i = 1; i <= 100; ++i) {
    EXPECT_TRUE(store_->write(kView, {{"x", std::to_string(i)}, {"y", std::to_string(i)}}).ok());
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(torn.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, KvContract,
    testing::Values(Adapter<KvStore>{"fake", [](const std::string&) { return make_fake_kv(); }},
                    Adapter<KvStore>{
                        "rocksdb",
                        [](const std::string& f) { return opened(open_rocksdb(f + "/kv")); }},
                    Adapter<KvStore>{"sealed",
                                     [](const std::string& f) {
                                       return security::sealed::seal_kv(
                                           opened(open_rocksdb(f + "/kv")), keys());
                                     }}),
    adapter_name<KvStore>);

#ifdef FALAJ_REDIS_SERVER
// One server for all; each test has a prefix of its own, so a store of its own.
app::RedisSettings redis_for(const std::string& folder, std::string (RedisServer::*url)() const) {
  static const RedisServer server;
  app::RedisSettings settings;
  settings.url = (server.*url)();
  settings.zone = "ae";
  settings.ca_file = server.folder() / "ca.pem";
  settings.prefix = sha256_hex(folder).substr(0, 16) + ":";
  return settings;
}

std::unique_ptr<KvStore> redis_rows(const std::string& folder,
                                    std::string (RedisServer::*url)() const) {
  return opened(app::open_redis_rows(redis_for(folder, url), keys(), folder + "/online"));
}

INSTANTIATE_TEST_SUITE_P(
    Redis, KvContract,
    testing::Values(
        Adapter<KvStore>{"redis",
                         [](const std::string& f) { return redis_rows(f, &RedisServer::url); }},
        Adapter<KvStore>{"redis_tls",
                         [](const std::string& f) { return redis_rows(f, &RedisServer::tls_url); }},
        Adapter<KvStore>{"redis_sealed",
                         [](const std::string& f) {
                           return security::sealed::seal_kv(redis_rows(f, &RedisServer::tls_url),
                                                            keys());
                         }}),
    adapter_name<KvStore>);
#endif

// ---- BlobStore ------------------------------------------------------------------------------

class BlobContract : public PortTest<BlobStore> {};

const Owner kPay{ProjectName("pay"), Zone("ae"), "Model/fraud"};
const std::vector<Owner> kOthers{{ProjectName("other"), Zone("ae"), "Model/fraud"},
                                 {ProjectName("pay"), Zone("eu"), "Model/fraud"},
                                 {ProjectName("pay"), Zone("ae"), "Model/frau"},
                                 {ProjectName("paya"), Zone("e"), "Model/fraud"}};

TEST_P(BlobContract, keeps_content_and_says_its_hash) {
  const std::string bytes = "\0\xff binary"s;
  const StoredBlob blob = store_->put(kPay, bytes).value();
  EXPECT_EQ(blob.content_sha256, sha256_hex(bytes));
  EXPECT_EQ(blob.bytes, 9);
  EXPECT_EQ(blob.id.str().size(), 64u);
  EXPECT_EQ(store_->get(kPay, blob.id).value(), bytes);
  EXPECT_EQ(store_->size(kPay, blob.id).value(), 9);
  EXPECT_EQ(store_->list(kPay).value(), std::vector<BlobId>{blob.id});
}

TEST_P(BlobContract, an_empty_blob_is_a_blob) {
  const BlobId id = store_->put(kPay, "")->id;
  EXPECT_EQ(store_->get(kPay, id).value(), "");
  EXPECT_EQ(store_->size(kPay, id).value(), 0);
}

TEST_P(BlobContract, writes_in_pieces_and_reads_any_part) {
  auto writer = store_->create(kPay).value();
  std::string whole;
  for (int i = 0; i < 600; ++i) {
    const std::string piece(static_cast<std::size_t>(i) * 3, static_cast<char>('a' + i % 26));
    whole += piece;
    ASSERT_TRUE(writer->append(piece).ok());
  }
  const StoredBlob blob = writer->commit().value();
  EXPECT_EQ(blob.content_sha256, sha256_hex(whole));
  EXPECT_EQ(store_->get(kPay, blob.id).value(), whole);
  const auto reader = store_->open(kPay, blob.id).value();
  ASSERT_EQ(reader->size(), static_cast<std::int64_t>(whole.size()));
  for (const std::size_t offset : {0u, 1u, 65'535u, 65'536u, 131'000u, 539'000u}) {
    for (const std::size_t length : {1u, 100u, 70'000u, 200'000u}) {
      std::string out(length, '?');
      const std::size_t got = reader->read_at(static_cast<std::int64_t>(offset), out).value();
      EXPECT_EQ(got, std::min(length, whole.size() - offset));
      EXPECT_EQ(out.substr(0, got), whole.substr(offset, length)) << offset << " " << length;
    }
  }
  std::string out(10, '?');
  EXPECT_EQ(reader->read_at(reader->size(), out).value(), 0u);
  EXPECT_EQ(reader->read_at(-1, out).error().code, Code::kInvalidArgument);
}

TEST_P(BlobContract, nothing_appears_before_commit) {
  {
    auto writer = store_->create(kPay).value();
    ASSERT_TRUE(writer->append("half").ok());
    EXPECT_TRUE(store_->list(kPay)->empty());
  }
  EXPECT_TRUE(store_->list(kPay)->empty());
  EXPECT_EQ(store_->get(kPay, BlobId(sha256_hex("half"))).error().code, Code::kNotFound);
}

TEST_P(BlobContract, an_owner_sees_only_its_own) {
  const StoredBlob mine = store_->put(kPay, "the same bytes").value();
  for (const Owner& other : kOthers) {
    EXPECT_EQ(store_->get(other, mine.id).error().code, Code::kNotFound);
    EXPECT_EQ(store_->grant(other, mine.id).error().code, Code::kNotFound);
    EXPECT_EQ(store_->remove(other, mine.id).error().code, Code::kNotFound);
    EXPECT_TRUE(store_->list(other)->empty());
    // Equal content is not shared: removing one's own leaves the other's.
    const StoredBlob theirs = store_->put(other, "the same bytes").value();
    EXPECT_TRUE(store_->remove(other, theirs.id).ok());
  }
  EXPECT_EQ(store_->get(kPay, mine.id).value(), "the same bytes");
}

TEST_P(BlobContract, grants_a_file_to_another_process) {
  const BlobId id = store_->put(kPay, "for a process")->id;
  BlobGrant grant = store_->grant(kPay, id).value();
  const auto reader = security::sealed::open_granted(std::move(grant.file), grant.ticket);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(read_whole(**reader).value(), "for a process");
}

TEST_P(BlobContract, an_absent_blob_is_not_found_everywhere) {
  const BlobId absent(std::string(64, 'a'));
  EXPECT_EQ(store_->get(kPay, absent).error().code, Code::kNotFound);
  EXPECT_EQ(store_->open(kPay, absent).error().code, Code::kNotFound);
  EXPECT_EQ(store_->grant(kPay, absent).error().code, Code::kNotFound);
  EXPECT_EQ(store_->size(kPay, absent).error().code, Code::kNotFound);
  EXPECT_EQ(store_->remove(kPay, absent).error().code, Code::kNotFound);
}

TEST_P(BlobContract, removes) {
  const BlobId id = store_->put(kPay, "gone soon")->id;
  const BlobId other = store_->put(kPay, "stays")->id;
  EXPECT_TRUE(store_->remove(kPay, id).ok());
  EXPECT_EQ(store_->get(kPay, id).error().code, Code::kNotFound);
  EXPECT_EQ(store_->list(kPay).value(), std::vector<BlobId>{other});
}

INSTANTIATE_TEST_SUITE_P(
    Storage, BlobContract,
    testing::Values(
        Adapter<BlobStore>{"fake", [](const std::string&) { return make_fake_blobs(); }},
        Adapter<BlobStore>{"files",
                           [](const std::string& f) { return opened(open_files(f + "/blobs")); }},
        Adapter<BlobStore>{"sealed",
                           [](const std::string& f) {
                             return security::sealed::seal_blobs(opened(open_files(f + "/blobs")),
                                                                 keys());
                           }}),
    adapter_name<BlobStore>);

}  // namespace
}  // namespace falaj::storage
