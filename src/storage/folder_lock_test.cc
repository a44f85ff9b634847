#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <latch>
#include <thread>

#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::storage {
namespace {

TEST(FolderLock, is_held_once_and_released_when_dropped) {
  const TempFolder folder;
  auto first = FolderLock::acquire(folder / "a/b");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto second = FolderLock::acquire(folder / "a/b");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
  first.value().reset();
  EXPECT_TRUE(FolderLock::acquire(folder / "a/b").ok());
}

pid_t dead_process() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST(FolderLock, waits_for_what_a_killed_holder_left_behind) {
  const TempFolder folder;
  { ASSERT_TRUE(FolderLock::acquire(folder.path()).ok()); }
  std::ofstream(folder / "falaj.lock") << dead_process() << "\n";
  const int left_behind = ::open((folder / "falaj.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(left_behind, LOCK_EX), 0);
  EXPECT_EQ(FolderLock::acquire(folder.path()).error().id, ErrorId::kDataFolderLocked);
  std::latch begun(1);
  std::thread starter([&] {
    begun.count_down();
    EXPECT_TRUE(FolderLock::acquire(folder.path()).ok());
  });
  begun.wait();
  ::close(left_behind);
  starter.join();
}

TEST(FolderLock, refuses_a_folder_of_a_newer_program) {
  const TempFolder folder;
  std::ofstream(folder / "version") << "falaj-data 999\n";
  const auto lock = FolderLock::acquire(folder.path());
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().id, ErrorId::kDataFolderNewer);
}

TEST(FolderLock, refuses_a_version_file_it_cannot_read) {
  for (const char* text :
       {"", "falaj-data", "falaj-data x\n", "falaj-data 1x\n", "falaj-data 0\n"}) {
    const TempFolder folder;
    std::ofstream(folder / "version") << text;
    const auto lock = FolderLock::acquire(folder.path());
    ASSERT_FALSE(lock.ok()) << text;
    EXPECT_EQ(lock.error().id, ErrorId::kDatabaseCorrupt) << text;
  }
}

TEST(FolderLock, refuses_a_path_that_is_a_file) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(FolderLock::acquire(folder / "file").error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace falaj::storage
