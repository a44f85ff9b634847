#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::storage {
namespace {

const Migration kRows{"test-001-rows", "CREATE TABLE rows (k TEXT PRIMARY KEY, v INTEGER) STRICT;"};

Status insert(SqlStore& store, const std::string& key, std::int64_t value) {
  return store.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("INSERT INTO rows (k, v) VALUES (?, ?)", {key, value}));
    return {};
  });
}

std::int64_t count_rows(SqlStore& store) {
  const auto rows = query(store, "SELECT count(*) FROM rows");
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  return rows.ok() ? rows->front().integer(0) : -1;
}

std::unique_ptr<SqlStore> open_with_rows(const std::string& path) {
  auto store = open_sqlite(path);
  EXPECT_TRUE(store.ok()) << store.error().message;
  const Status migrated = (*store)->migrate({kRows});
  EXPECT_TRUE(migrated.ok()) << migrated.error().message;
  return std::move(store).value();
}

TEST(SqliteStore, keeps_what_was_written_after_reopening) {
  const TempFolder folder;
  {
    const auto store = open_with_rows(folder / "meta.db");
    ASSERT_TRUE(insert(*store, "a", 1).ok());
  }
  const auto store = open_with_rows(folder / "meta.db");
  EXPECT_EQ(count_rows(*store), 1);
}

TEST(SqliteStore, is_its_owner_s_alone_wherever_it_lies) {
  const TempFolder folder;
  const std::string path = folder / "meta.db";
  const auto rights = [](const std::string& file) {
    struct stat info {};
    EXPECT_EQ(::stat(file.c_str(), &info), 0) << file;
    return info.st_mode & 0777;
  };
  const mode_t before = ::umask(022);  // As most machines have it.
  {
    const auto store = open_with_rows(path);
    ASSERT_TRUE(insert(*store, "a", 1).ok());
    for (const char* part : {"", "-wal", "-shm"}) EXPECT_EQ(rights(path + part), 0600U) << part;
  }
  // As a version before this one left it, and a copy that somebody put there.
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const auto store = open_with_rows(path);
  ::umask(before);
  ASSERT_TRUE(insert(*store, "b", 2).ok());
  for (const char* part : {"", "-wal", "-shm"}) EXPECT_EQ(rights(path + part), 0600U) << part;
  EXPECT_EQ(count_rows(*store), 2);
}

TEST(SqliteStore, commits_many_writers_together_and_each_by_itself) {
  const TempFolder folder;
  const auto store = open_with_rows(folder / "meta.db");
  constexpr int kThreads = 8;
  constexpr int kWrites = 40;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWrites; ++i) {
        // Every fourth body fails after its change; only that change may vanish.
        const Status status = store->write([&](SqlTransaction& tx) -> Status {
          FALAJ_TRY(tx.execute("INSERT INTO rows (k, v) VALUES (?, ?)",
                               {std::to_string(t) + "/" + std::to_string(i), std::int64_t{i}}));
          if (i % 4 == 3) return Error(Code::kCancelled, "not this one");
          return {};
        });
        if (!status.ok()) {
          EXPECT_EQ(status.error().code, Code::kCancelled);
          failed.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed.load(), kThreads * kWrites / 4);
  EXPECT_EQ(count_rows(*store), kThreads * kWrites * 3 / 4);
}

TEST(SqliteStore, readers_see_a_snapshot_while_the_writer_commits) {
  const TempFolder folder;
  const auto store = open_with_rows(folder / "meta.db");
  ASSERT_TRUE(insert(*store, "a", 1).ok());
  const Status read = store->read([&](SqlTransaction& tx) -> Status {
    const auto before = FALAJ_TRY(tx.query("SELECT count(*) FROM rows"));
    std::thread writer([&] { EXPECT_TRUE(insert(*store, "b", 2).ok()); });
    writer.join();
    const auto after = FALAJ_TRY(tx.query("SELECT count(*) FROM rows"));
    EXPECT_EQ(before.front().integer(0), 1);
    EXPECT_EQ(after.front().integer(0), 1);
    return {};
  });
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(count_rows(*store), 2);
}

TEST(SqliteStore, a_second_opener_is_told_who_is_in_the_way) {
  const TempFolder folder;
  const auto store = open_with_rows(folder / "meta.db");
  const auto second = open_sqlite(folder / "meta.db");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked);
}

TEST(SqliteStore, a_file_that_is_no_database_is_corrupt) {
  const TempFolder folder;
  std::ofstream(folder / "meta.db") << std::string(8192, 'x');
  const auto store = open_sqlite(folder / "meta.db");
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().id, ErrorId::kDatabaseCorrupt) << store.error().message;
}

// They reach clients as they are.
TEST(SqliteStore, errors_name_neither_the_file_nor_the_statement) {
  const TempFolder folder;
  const auto store = open_with_rows(folder / "meta.db");
  const std::string unknown = query(*store, "SELECT secret FROM nowhere").error().message;
  const Status conflict = store->write([](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("CREATE TABLE hidden (id INTEGER PRIMARY KEY)"));
    FALAJ_TRY(tx.execute("INSERT INTO hidden VALUES (1)"));
    FALAJ_TRY(tx.execute("INSERT INTO hidden VALUES (1)"));
    return {};
  });
  ASSERT_FALSE(conflict.ok());
  EXPECT_EQ(conflict.error().id, ErrorId::kConflict);
  const std::string two = query(*store, "SELECT 1; SELECT 2").error().message;
  for (const std::string& text : {unknown, conflict.error().message, two}) {
    for (const char* word : {"meta.db", "SELECT", "INSERT", "secret", "nowhere", "hidden"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << text;
    }
  }
}

TEST(SqliteStore, survives_more_log_than_one_checkpoint) {
  const TempFolder folder;
  const auto store = open_with_rows(folder / "meta.db");
  ASSERT_TRUE(store
                  ->write([](SqlTransaction& tx) -> Status {
                    FALAJ_TRY(tx.execute("CREATE TABLE big (t TEXT)"));
                    return {};
                  })
                  .ok());
  for (int i = 0; i < 12; ++i) {  // About 12 MB of log: three checkpoints.
    const Status status = store->write([&](SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute("INSERT INTO big VALUES (?)", {std::string(1u << 20, 'b')}));
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  const auto rows = query(*store, "SELECT count(*), sum(length(t)) FROM big");
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->front().integer(0), 12);
  EXPECT_EQ(rows->front().integer(1), 12 << 20);
}

}  // namespace
}  // namespace falaj::storage
