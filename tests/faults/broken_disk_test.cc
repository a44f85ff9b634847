// A data folder that is read-only, full, newer or damaged: the right code, and a word on what to
// do.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "storage/open.h"
#include "storage/testing/temp_folder.h"
#include "workload.h"

namespace falaj::faults {
namespace {

namespace fs = std::filesystem;
using storage::Durability;
using storage::TempFolder;

constexpr int kNotPermitted = 77;  // What the test needs is not allowed on this machine.

// Runs fault_probe, a fresh process: RocksDB's threads do not live through a bare fork. Its exit
// code; what it printed is on our standard error.
int probe(const char* how, Port port, const std::string& folder) {
  const std::string name = to_string(port);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(FALAJ_FAULT_PROBE, FALAJ_FAULT_PROBE, how, name.c_str(), folder.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A damaged byte range, as a failing disk leaves it.
void scribble(const fs::path& path, std::uintmax_t at, std::size_t length) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << std::string(length, '\x5a');
}

class BrokenDisk : public testing::TestWithParam<Port> {
 protected:
  void fill(int writes) {
    auto target = Target::open(GetParam(), folder_.path(), Durability::kNoSync);
    ASSERT_TRUE(target.ok()) << target.error().message;
    for (int i = 0; i < writes; ++i) {
      const Status written = (*target)->put({0, 0, i});
      ASSERT_TRUE(written.ok()) << written.error().message;
    }
  }
  // The first thing that the damaged store says, on opening or on reading everything.
  Status read_all(int writes) {
    auto target = FALAJ_TRY(Target::open(GetParam(), folder_.path(), Durability::kSync));
    for (int i = 0; i < writes; ++i) FALAJ_TRY(target->check({0, 0, i}));
    return {};
  }
  fs::path largest_file(const std::string& extension) const {
    fs::path largest;
    std::uintmax_t size = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file() || entry.path().extension() != extension) continue;
      if (entry.path().filename() == "keys.db") continue;  // Beside a sealed store, not it.
      if (entry.file_size() >= size) largest = entry.path();
      size = std::max(size, entry.file_size());
    }
    return largest;
  }

  TempFolder folder_;
};

TEST_P(BrokenDisk, a_read_only_folder_is_named_as_such) {
  fill(3);
  fs::permissions(folder_.path(), fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  const int code = probe("read-only", GetParam(), folder_.path());
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add);
  }
  EXPECT_EQ(code, 0);
}

// A real file system without room, not a pretended one.
TEST_P(BrokenDisk, a_full_file_system_refuses_and_keeps_everything) {
  const int code = probe("tiny", GetParam(), folder_.path());
  if (code == kNotPermitted) GTEST_SKIP() << "mounting is not permitted here";
  EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(Storage, BrokenDisk,
                         testing::Values(Port::kSql, Port::kKv, Port::kBlob, Port::kSealedSql,
                                         Port::kSealedKv, Port::kSealedBlob),
                         [](const auto& test) { return to_string(test.param); });

class BrokenSql : public BrokenDisk {};
INSTANTIATE_TEST_SUITE_P(Storage, BrokenSql, testing::Values(Port::kSql, Port::kSealedSql));

TEST_P(BrokenSql, a_damaged_page_is_corrupt_not_wrong) {
  fill(400);
  const fs::path database = largest_file(".db");
  scribble(database, fs::file_size(database) / 2 / 4096 * 4096, 3 * 4096);
  const Status read = read_all(400);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().id, ErrorId::kDatabaseCorrupt) << read.error().message;
}

TEST_P(BrokenSql, a_damaged_header_is_corrupt) {
  fill(10);
  scribble(largest_file(".db"), 0, 100);
  EXPECT_EQ(read_all(10).error().id, ErrorId::kDatabaseCorrupt);
}

TEST_P(BrokenSql, a_truncated_database_is_corrupt) {
  fill(400);
  const fs::path database = largest_file(".db");
  fs::resize_file(database, fs::file_size(database) / 2 / 4096 * 4096);
  EXPECT_EQ(read_all(400).error().id, ErrorId::kDatabaseCorrupt);
}

class BrokenKv : public BrokenDisk {};
INSTANTIATE_TEST_SUITE_P(Storage, BrokenKv, testing::Values(Port::kKv, Port::kSealedKv));

TEST_P(BrokenKv, a_damaged_table_is_corrupt_not_wrong) {
  fill(8'000);  // More than one write buffer, so that a table was written.
  const fs::path table = largest_file(".sst");
  ASSERT_FALSE(table.empty());
  scribble(table, fs::file_size(table) / 2, 64);
  const Status read = read_all(8'000);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().id, ErrorId::kDatabaseCorrupt) << read.error().message;
}

TEST_P(BrokenKv, a_missing_table_is_corrupt) {
  fill(8'000);
  fs::remove(largest_file(".sst"));
  EXPECT_EQ(read_all(8'000).error().id, ErrorId::kDatabaseCorrupt);
}

TEST(BrokenBlob, a_damaged_blob_is_named_with_its_hash) {
  const TempFolder folder;
  const storage::Owner owner{ProjectName("pay"), Zone("ae"), "Model/fraud"};
  const BlobId id =
      storage::open_files(folder.path()).value()->put(owner, std::string(10'000, 'm'))->id;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "blobs")) {
    if (entry.path().filename() == id.str()) scribble(entry.path().string(), 5'000, 1);
  }
  const auto store = storage::open_files(folder.path()).value();
  const auto read = store->get(owner, id);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().id, ErrorId::kBlobCorrupt);
  EXPECT_NE(read.error().message.find(id.str()), std::string::npos);
}

TEST(BrokenFolder, the_lock_of_another_process_names_it) {
  const TempFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto held = storage::FolderLock::acquire(folder.path());
    const char word = held.ok() ? 'y' : 'n';
    if (::write(ready[1], &word, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  ASSERT_EQ(word, 'y');
  const auto second = storage::FolderLock::acquire(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked);
  EXPECT_NE(second.error().message.find(std::to_string(holder)), std::string::npos);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(storage::FolderLock::acquire(folder.path()).ok());  // A dead holder holds nothing.
}

}  // namespace
}  // namespace falaj::faults
