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

TEST_F(StoresOnDisk, online_rows_that_were_removed_may_come_again) {
  fs::create_directories(options_.data_folder);
  ASSERT_TRUE(start().ok());
  fs::remove_all(options_.data_folder + "/online");
  EXPECT_TRUE(start().ok());
  EXPECT_TRUE(start().ok());
}

}  // namespace
}  // namespace falaj::app
