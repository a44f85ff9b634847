// What is particular to the sealed file; the promises of every vault are in tests/contract.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "security/keys/key_vault.h"
#include "storage/small_file.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security::keys {
namespace {

class FileVaultTest : public ::testing::Test {
 protected:
  FileVaultOptions options(std::string_view passphrase = "") const {
    FileVaultOptions made;
    made.path = folder / "keys.sealed";
    made.machine_key_path = folder / "machine.key";
    made.passphrase = crypto::SecretBytes(passphrase);
    made.cost = {1, 64 << 10};  // Small: the test is not about Argon2id's cost.
    return made;
  }
  std::string content(const std::string& name) const {
    return storage::read_small_file(folder / name)->content;
  }

  storage::TempFolder folder;
};

TEST_F(FileVaultTest, a_machine_key_is_made_once_for_its_owner_only) {
  std::string root;
  {
    const auto vault = open_file_vault(options(), IfMissing::kCreate).value();
    root = vault->create_root(Zone("ae"), Timestamp::from_seconds(5))->id;
  }
  struct stat info {};
  for (const char* name : {"machine.key", "keys.sealed"}) {
    ASSERT_EQ(::stat((folder / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
  const auto again = open_file_vault(options(), IfMissing::kRefuse).value();
  ASSERT_EQ(again->roots()->size(), 1U);
  EXPECT_EQ(again->roots()->front().id, root);
  EXPECT_EQ(again->roots()->front().created, Timestamp::from_seconds(5));
}

TEST_F(FileVaultTest, a_machine_key_that_others_may_read_is_refused) {
  ASSERT_TRUE(open_file_vault(options(), IfMissing::kCreate).ok());
  ASSERT_EQ(::chmod((folder / "machine.key").c_str(), 0640), 0);
  const auto opened = open_file_vault(options(), IfMissing::kRefuse);
  EXPECT_EQ(opened.error().id, ErrorId::kVaultSealed);
  EXPECT_NE(opened.error().message.find("chmod 600"), std::string::npos);
}

TEST_F(FileVaultTest, opens_with_its_passphrase_and_no_other) {
  {
    const auto vault = open_file_vault(options("open sesame"), IfMissing::kCreate).value();
    ASSERT_TRUE(vault->create_root(Zone("ae"), {}).ok());
  }
  EXPECT_FALSE(storage::read_small_file(folder / "machine.key").ok());
  EXPECT_EQ(open_file_vault(options("open sesame"), IfMissing::kRefuse).value()->roots()->size(),
            1U);
  for (const char* wrong : {"open sesamE", "x", ""}) {
    EXPECT_EQ(open_file_vault(options(wrong), IfMissing::kCreate).error().id, ErrorId::kVaultSealed)
        << wrong;
  }
}

TEST_F(FileVaultTest, a_passphrase_does_not_open_what_the_machine_key_sealed) {
  ASSERT_TRUE(open_file_vault(options(), IfMissing::kCreate).ok());
  EXPECT_EQ(open_file_vault(options("x"), IfMissing::kCreate).error().id, ErrorId::kVaultSealed);
}

TEST_F(FileVaultTest, a_changed_byte_is_noticed_wherever_it_is) {
  {
    const auto vault = open_file_vault(options("p"), IfMissing::kCreate).value();
    ASSERT_TRUE(vault->create_root(Zone("ae"), {}).ok());
  }
  const std::string good = content("keys.sealed");
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); i += 3) {
    if (good[i] == ' ' || good[i] == '\n') continue;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    ASSERT_TRUE(storage::write_small_file(folder / "keys.sealed", bad).ok());
    const auto opened = open_file_vault(options("p"), IfMissing::kCreate);
    EXPECT_FALSE(opened.ok()) << i << " " << bad;
    if (!opened.ok() && opened.error().id == ErrorId::kVaultSealed) ++refused;
  }
  EXPECT_GT(refused, 60);
  ASSERT_TRUE(storage::write_small_file(folder / "keys.sealed", good).ok());
  EXPECT_TRUE(open_file_vault(options("p"), IfMissing::kRefuse).ok());
}

TEST_F(FileVaultTest, a_missing_file_is_not_made_anew_when_it_must_be_there) {
  EXPECT_EQ(open_file_vault(options("p"), IfMissing::kRefuse).error().id, ErrorId::kVaultSealed);
  ASSERT_TRUE(open_file_vault(options(), IfMissing::kCreate).ok());
  ASSERT_EQ(::remove((folder / "machine.key").c_str()), 0);
  EXPECT_EQ(open_file_vault(options(), IfMissing::kCreate).error().id, ErrorId::kVaultSealed);
}

}  // namespace
}  // namespace falaj::security::keys
