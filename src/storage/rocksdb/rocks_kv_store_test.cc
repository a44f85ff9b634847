#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/time.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::storage {
namespace {

const Owner kOwner{ProjectName("pay"), Zone("ae"), "FeatureView/v"};

TEST(RocksKvStore, keeps_what_was_written_after_reopening) {
  const TempFolder folder;
  {
    auto store = open_rocksdb(folder / "kv");
    ASSERT_TRUE(store.ok()) << store.error().message;
    ASSERT_TRUE((*store)->write(kOwner, {{"a", "1"}, {"b", "2"}}).ok());
    ASSERT_TRUE((*store)->write(kOwner, {{"a", std::nullopt}}).ok());
  }
  auto store = open_rocksdb(folder / "kv");
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ((*store)->get(kOwner, "a").value(), std::nullopt);
  EXPECT_EQ((*store)->get(kOwner, "b").value(), "2");
}

TEST(RocksKvStore, a_copy_holds_what_was_there_and_lives_by_itself) {
  const TempFolder folder;
  auto store = open_rocksdb(folder / "kv").value();
  ASSERT_TRUE(store->write(kOwner, {{"a", "1"}}).ok());
  ASSERT_TRUE(store->copy_to(folder / "copy").ok());
  EXPECT_FALSE(store->copy_to(folder / "copy").ok()) << "it exists";
  ASSERT_TRUE(store->write(kOwner, {{"a", "2"}, {"b", "2"}}).ok());
  auto copy = open_rocksdb(folder / "copy").value();
  EXPECT_EQ(copy->get(kOwner, "a").value(), "1");
  EXPECT_EQ(copy->get(kOwner, "b").value(), std::nullopt);
  ASSERT_TRUE(copy->write(kOwner, {{"a", "3"}}).ok());
  EXPECT_EQ(store->get(kOwner, "a").value(), "2");
}

// How many files below `folder` hold these bytes.
int files_with(const std::string& folder, const std::string& bytes) {
  int found = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    found += all.find(bytes) == std::string::npos ? 0 : 1;
  }
  return found;
}

TEST(RocksKvStore, what_was_deleted_is_in_no_file_after_a_purge) {
  const TempFolder folder;
  auto store = open_rocksdb(folder / "kv").value();
  const Owner other{ProjectName("hr"), Zone("ae"), "FeatureView/v"};
  ASSERT_TRUE(store->write(kOwner, {{"a", "CANARY-OF-FATIMA"}, {"b", "CANARY-OF-OMAR"}}).ok());
  ASSERT_TRUE(store->write(other, {{"a", "CANARY-OF-OTHERS"}}).ok());
  ASSERT_TRUE(store->purge(kOwner).ok());  // So that it lies in a table, not in the log alone.
  ASSERT_TRUE(store->write(kOwner, {{"a", std::nullopt}}).ok());
  EXPECT_GT(files_with(folder / "kv", "CANARY-OF-FATIMA"), 0) << "or this proves nothing";
  ASSERT_TRUE(store->purge(kOwner).ok());
  EXPECT_EQ(files_with(folder / "kv", "CANARY-OF-FATIMA"), 0);
  EXPECT_EQ(store->get(kOwner, "b").value(), "CANARY-OF-OMAR");
  EXPECT_EQ(store->get(other, "a").value(), "CANARY-OF-OTHERS");
}

TEST(RocksKvStore, a_second_opener_is_refused_as_locked) {
  const TempFolder folder;
  auto store = open_rocksdb(folder / "kv");
  ASSERT_TRUE(store.ok());
  const auto second = open_rocksdb(folder / "kv");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked) << second.error().message;
}

TEST(RocksKvStore, serves_many_threads) {
  const TempFolder folder;
  auto store = open_rocksdb(folder / "kv");
  ASSERT_TRUE(store.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        EXPECT_TRUE((*store)->write(kOwner, {{key, key}}).ok());
        EXPECT_EQ((*store)->get(kOwner, key).value(), key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int seen = 0;
  ASSERT_TRUE(
      (*store)->scan(kOwner, [&](std::string_view, std::string_view) { return ++seen > 0; }).ok());
  EXPECT_EQ(seen, 200);
}

// The log must not be cut in silence where an acknowledged record is damaged.
TEST(RocksKvStore, a_damaged_log_is_refused_not_shortened) {
  const TempFolder folder;
  {
    auto store = open_rocksdb(folder / "kv");
    ASSERT_TRUE(store.ok());
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE((*store)->write(kOwner, {{std::to_string(i), std::string(1000, 'v')}}).ok());
    }
    // As a crash leaves it: a clean end would have emptied the log.
    std::filesystem::copy(folder / "kv", folder / "crashed");
  }
  std::filesystem::path log;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "crashed")) {
    if (entry.path().extension() == ".log" && entry.file_size() > 50'000) log = entry.path();
  }
  ASSERT_FALSE(log.empty());
  std::filesystem::copy(folder / "crashed", folder / "intact");
  std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40'000);
  file.put('~');
  file.close();
  const auto damaged = open_rocksdb(folder / "crashed");
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().id, ErrorId::kDatabaseCorrupt) << damaged.error().message;
  const auto intact = open_rocksdb(folder / "intact");
  ASSERT_TRUE(intact.ok()) << intact.error().message;
  EXPECT_TRUE((*intact)->get(kOwner, "99")->has_value());
}

}  // namespace
}  // namespace falaj::storage
