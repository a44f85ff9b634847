#include "cli/credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace falaj::cli {
namespace {

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    std::string name = ::testing::TempDir() + "falaj-credentials-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/deep/falaj/credentials.json";
  }
  ~CredentialsTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
  std::string path_;
};

TEST_F(CredentialsTest, are_kept_for_each_server_and_forgotten) {
  EXPECT_EQ(find_login(path_, "https://a")->token, "");
  ASSERT_TRUE(keep_login(path_, "https://a", {"fj_one", "sha256:aa"}).ok());
  ASSERT_TRUE(keep_login(path_, "https://b", {"fj_two", ""}).ok());
  EXPECT_EQ(find_login(path_, "https://a")->token, "fj_one");
  EXPECT_EQ(find_login(path_, "https://a")->authority, "sha256:aa");
  EXPECT_EQ(find_login(path_, "https://b")->token, "fj_two");
  EXPECT_EQ(find_login(path_, "https://a/")->token, "");  // Another address: not its token.
  ASSERT_TRUE(keep_login(path_, "https://a", {}).ok());
  EXPECT_EQ(find_login(path_, "https://a")->token, "");
  EXPECT_EQ(find_login(path_, "https://b")->token, "fj_two");
}

TEST_F(CredentialsTest, are_readable_by_their_owner_only) {
  ASSERT_TRUE(keep_login(path_, "https://a", {"fj_one", ""}).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(find_login(path_, "https://a").error().code, Code::kPermissionDenied);
  EXPECT_FALSE(keep_login(path_, "https://a", {"fj_two", ""}).ok());
}

TEST_F(CredentialsTest, a_broken_file_or_a_link_is_refused) {
  ASSERT_TRUE(keep_login(path_, "https://a", {"fj_one", ""}).ok());
  std::ofstream(path_) << "{";
  EXPECT_EQ(find_login(path_, "https://a").error().id, ErrorId::kMalformedJson);
  std::ofstream(path_) << "[]";
  EXPECT_FALSE(find_login(path_, "https://a").ok());
  const std::string link = folder_ + "/link.json";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_FALSE(find_login(link, "https://a").ok());
}

TEST_F(CredentialsTest, without_a_home_there_is_no_place) {
  EXPECT_EQ(find_login("", "https://a")->token, "");
  EXPECT_FALSE(keep_login("", "https://a", {"fj_one", ""}).ok());
}

}  // namespace
}  // namespace falaj::cli
