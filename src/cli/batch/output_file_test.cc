#include "cli/batch/output_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "table/testing/test_folder.h"

namespace falaj::cli::batch {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder_.path())) {
      found.insert(each.path().filename());
    }
    return found;
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  table::TestFolder folder_;
  std::string path_ = folder_.file("out.csv");
};

TEST_F(OutputFileTest, appears_whole) {
  {
    const auto file = OutputFile::create(path_);
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_TRUE((*file)->append("a,b\n").ok());
    EXPECT_FALSE(names().contains("out.csv")) << "not before it is whole";
    ASSERT_TRUE((*file)->append("1,2\n").ok());
    ASSERT_TRUE((*file)->keep().ok());
  }
  EXPECT_EQ(names(), std::set<std::string>{"out.csv"});
  EXPECT_EQ(text(), "a,b\n1,2\n");
}

TEST_F(OutputFileTest, dropped_it_leaves_what_was_there) {
  folder_.write("out.csv", "before");
  ASSERT_TRUE(OutputFile::create(path_).value()->append("half").ok());
  EXPECT_EQ(names(), std::set<std::string>{"out.csv"});
  EXPECT_EQ(text(), "before");
}

TEST_F(OutputFileTest, kept_it_takes_the_place_of_what_was_there) {
  folder_.write("out.csv", "before");
  const auto file = OutputFile::create(path_).value();
  ASSERT_TRUE(file->append("after").ok());
  ASSERT_TRUE(file->keep().ok());
  EXPECT_EQ(text(), "after");
}

TEST_F(OutputFileTest, a_folder_is_refused_before_any_work) {
  for (const std::string& path : {folder_.path() + "/", std::string(folder_.path()), std::string(),
                                  folder_.path() + "/missing/out.csv"}) {
    const auto file = OutputFile::create(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().id, ErrorId::kFileUnreadable);
  }
}

TEST_F(OutputFileTest, a_signal_leaves_nothing_and_still_ends_the_program) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto file = OutputFile::create(path_);
      if (!file.ok() || !(*file)->append("half").ok()) ::_exit(1);
      ::raise(number);
      ::_exit(2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_TRUE(names().empty());
  }
}

}  // namespace
}  // namespace falaj::cli::batch
