#include "app/generations.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "app/wiring.h"
#include "storage/testing/temp_folder.h"

namespace falaj::app {
namespace {

namespace fs = std::filesystem;

TEST(Generations, decide_whether_stores_belong_together) {
  const auto check = [](Generation expected, std::optional<std::int64_t> number, bool empty) {
    return check_generation(expected, {{"online", number, empty}});
  };
  EXPECT_TRUE(check({0, 0}, std::nullopt, false).ok()) << "of a version that did not number";
  EXPECT_TRUE(check({5, 5}, 5, false).ok());
  EXPECT_TRUE(check({6, 5}, 5, false).ok()) << "killed before it got its number";
  EXPECT_TRUE(check({6, 5}, 6, false).ok()) << "killed after";
  EXPECT_TRUE(check({5, 5}, std::nullopt, true).ok()) << "nothing in it could be old";
  EXPECT_EQ(check({5, 5}, 4, false).error().id, ErrorId::kRolledBack);
  EXPECT_EQ(check({5, 5}, 4, true).error().id, ErrorId::kRolledBack);
  EXPECT_EQ(check({5, 5}, std::nullopt, false).error().id, ErrorId::kRolledBack);
  const auto in_redis = [](std::optional<std::int64_t> number, bool empty) {
    return check_generation({5, 5}, {{"redis", number, empty}});
  };
  EXPECT_TRUE(in_redis(5, false).ok());
  EXPECT_TRUE(in_redis(std::nullopt, true).ok()) << "flushed: made again";
  EXPECT_TRUE(in_redis(9, false).ok()) << "a backup of the folder was brought back beside it";
  EXPECT_EQ(in_redis(std::nullopt, false).error().id, ErrorId::kRolledBack);
  EXPECT_TRUE(check_generation({5, 5}, {{"redis", std::nullopt, false, true}}).ok())
      << "of a version that numbered the folder and not Redis";
  EXPECT_EQ(check_generation({5, 5}, {{"redis", 4, false, true}}).error().id, ErrorId::kRolledBack);
  const Status dump = in_redis(4, false);
  EXPECT_EQ(dump.error().id, ErrorId::kRolledBack);
  EXPECT_NE(dump.error().message.find("storage.redis.prefix"), std::string::npos);
  const Status newer = check({5, 5}, 6, false);
  EXPECT_EQ(newer.error().id, ErrorId::kRolledBack);
  EXPECT_TRUE(newer.error().message.starts_with("metadata.db is an old copy"));
}

class StoresOnDisk : public ::testing::Test {
 protected:
  StoresOnDisk() { options_.data_folder = folder_ / "data"; }
  // Opens everything and closes it again.
  Status start() {
    const auto storage = wire_storage(options_, clock_);
    return storage.ok() ? Status{} : Status{storage.error()};
  }
  void copy(const std::string& from, const std::string& to) {
    for (const auto& entry : fs::directory_iterator(folder_ / from)) {
      const std::string name = entry.path().filename();
      if (!wanted_.empty() && !name.starts_with(wanted_)) continue;
      const fs::path target = fs::path(folder_ / to) / name;
      fs::remove_all(target);
      fs::create_directories(target.parent_path());
      fs::copy(entry.path(), target, fs::copy_options::recursive);
    }
  }

  FakeClock clock_;
  storage::TempFolder folder_;
  Options options_;
  std::string wanted_;  // Of copy(): names that begin so; "": all.
};

TEST_F(StoresOnDisk, an_old_copy_of_any_one_of_them_is_found) {
  fs::create_directories(options_.data_folder);
  ASSERT_TRUE(start().ok());
  {
    Storage storage = wire_storage(options_, clock_).value();
    ASSERT_TRUE(storage.keys.tree->new_data_key({"default", Zone("local"), "a", "", "x"}).ok());
    fs::create_directories(options_.data_folder + "/blobs/blobs/some");  // It holds something.
  }
  copy("data", "older");
  ASSERT_TRUE(start().ok());
  copy("data", "newest");
  for (const std::string store : {"keys.db", "online", "blobs", "metadata.db"}) {
    wanted_ = store;
    copy("older", "data");
    const Status found = start();
    ASSERT_FALSE(found.ok()) << store;
    EXPECT_EQ(found.error().id, ErrorId::kRolledBack) << found.error().message;
    EXPECT_TRUE(found.error().message.starts_with(store)) << found.error().message;
    wanted_.clear();
    copy("newest", "data");
  }
  EXPECT_TRUE(start().ok());
}

// Redis played by a store that lies beside the folder.
TEST_F(StoresOnDisk, rows_in_redis_pass_without_a_number_until_they_were_given_one) {
  fs::create_directories(options_.data_folder);
  Storage storage = wire_storage(options_, clock_).value();
  const auto redis = storage::open_rocksdb(folder_ / "redis").value();
  const storage::Owner owner{ProjectName(), Zone(), "falaj/generation"};
  const auto open = [&] {
    return Generations::open({*storage.sql, *storage.keys.sql, *redis,
                              NumberedStores::Rows::kInRedis,
                              []() -> Result<bool> { return false; },
                              options_.data_folder + "/blobs", *storage.keys.tree});
  };
  auto upgraded = open();
  ASSERT_TRUE(upgraded.ok()) << upgraded.error().message;
  ASSERT_TRUE((*upgraded)->advance().ok());
  EXPECT_TRUE(open().ok()) << "it has its number";
  ASSERT_TRUE(redis->write(owner, {{"number", std::nullopt}}).ok());
  const auto lost = open();
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().id, ErrorId::kRolledBack) << lost.error().message;
}

TEST_F(StoresOnDisk, online_rows_that_were_removed_may_come_again) {
  fs::create_directories(options_.data_folder);
  ASSERT_TRUE(start().ok());
  fs::remove_all(options_.data_folder + "/online");
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(start().ok());
}

}  // namespace
}  // namespace falaj::app
