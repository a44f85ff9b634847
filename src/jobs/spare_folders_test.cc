#include "jobs/internal/spare_folders.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>

#include "storage/testing/temp_folder.h"

namespace falaj::jobs::internal {
namespace {

namespace fs = std::filesystem;

class SpareFoldersTest : public ::testing::Test {
 protected:
  std::string make(const std::string& name) {
    const std::string path = parent_ + "/" + name;
    fs::create_directories(path + "/output");
    fs::permissions(path, fs::perms::owner_all);
    fs::permissions(path + "/output", fs::perms::owner_all);
    return path;
  }

  storage::TempFolder folder_;
  std::string parent_ = folder_.path();
  SpareFolders spares_{parent_ + "/spare", "output"};
};

TEST_F(SpareFoldersTest, gives_a_folder_that_was_left_as_it_was_another_name) {
  EXPECT_FALSE(spares_.take(parent_ + "/b"));
  ASSERT_TRUE(spares_.keep(make("a")));
  EXPECT_FALSE(fs::exists(parent_ + "/a"));
  ASSERT_TRUE(spares_.take(parent_ + "/b"));
  EXPECT_TRUE(fs::is_directory(parent_ + "/b/output"));
  EXPECT_FALSE(spares_.take(parent_ + "/c"));
}

TEST_F(SpareFoldersTest, takes_none_that_something_was_done_to) {
  std::ofstream(make("file") + "/left") << "x";
  EXPECT_FALSE(spares_.keep(parent_ + "/file"));
  std::ofstream(make("output") + "/output/left") << "x";
  EXPECT_FALSE(spares_.keep(parent_ + "/output"));
  ASSERT_EQ(::chmod(make("mode").c_str(), 0755), 0);
  EXPECT_FALSE(spares_.keep(parent_ + "/mode"));
  fs::remove(make("none") + "/output");
  EXPECT_FALSE(spares_.keep(parent_ + "/none"));
  fs::remove(make("link") + "/output");
  fs::create_directory_symlink("/", parent_ + "/link/output");
  EXPECT_FALSE(spares_.keep(parent_ + "/link"));
  if (::setxattr(make("note").c_str(), "user.note", "x", 1, 0) == 0) {
    EXPECT_FALSE(spares_.keep(parent_ + "/note"));
  }
  EXPECT_FALSE(spares_.keep(parent_ + "/absent"));
  EXPECT_FALSE(spares_.take(parent_ + "/b"));
}

TEST_F(SpareFoldersTest, forgets_those_of_a_server_that_died) {
  ASSERT_TRUE(spares_.keep(make("a")));
  SpareFolders next(parent_ + "/spare", "output");
  EXPECT_FALSE(fs::exists(parent_ + "/spare"));
  EXPECT_FALSE(next.take(parent_ + "/b"));
}

}  // namespace
}  // namespace falaj::jobs::internal
