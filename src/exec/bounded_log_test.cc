#include "exec/bounded_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

namespace falaj::exec {
namespace {

class BoundedLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "falaj_log_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/log";
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }
  std::string text() const {
    std::ifstream file(path_);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }
  bool exists(const std::string& name) const {
    struct stat info {};
    return ::stat((folder_ + "/" + name).c_str(), &info) == 0;
  }
  std::string folder_;
  std::string path_;
};

TEST_F(BoundedLogTest, keeps_a_short_log_whole) {
  auto log = BoundedLog::open(path_, 1 << 20);
  ASSERT_TRUE(log.ok());
  log->write("one\n");
  log->write("two\n");
  EXPECT_EQ(text(), "one\ntwo\n") << "readable while it is written";
  EXPECT_EQ(log->finish(), 0);
  EXPECT_EQ(text(), "one\ntwo\n");
  EXPECT_FALSE(exists("log.tail"));
}

TEST_F(BoundedLogTest, a_log_at_its_bound_is_whole) {
  std::string all;
  for (int i = 0; all.size() < 6000; ++i) all += "line " + std::to_string(i) + "\n";
  auto log = BoundedLog::open(path_, 8192);
  ASSERT_TRUE(log.ok());
  log->write(all);
  EXPECT_EQ(log->finish(), 0);
  EXPECT_EQ(text(), all) << "the second half went through the files beside it";
}

TEST_F(BoundedLogTest, keeps_the_beginning_and_the_end_and_says_what_lacks) {
  constexpr std::int64_t kMax = 16 << 10;
  auto log = BoundedLog::open(path_, kMax);
  ASSERT_TRUE(log.ok());
  std::string all;
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    all += line;
    log->write(line);
  }
  const std::int64_t cut = log->finish();
  const std::string kept = text();
  const std::string note = "\n[" + std::to_string(cut) + " bytes of this log were left out]\n";
  const std::size_t at = kept.find(note);
  ASSERT_NE(at, std::string::npos) << kept.substr(0, 200);
  EXPECT_EQ(at, static_cast<std::size_t>(kMax / 2));
  EXPECT_TRUE(all.starts_with(kept.substr(0, at)));
  const std::string tail = kept.substr(at + note.size());
  EXPECT_TRUE(all.ends_with(tail));
  EXPECT_GE(tail.size(), static_cast<std::size_t>(kMax / 4));
  EXPECT_EQ(at + tail.size() + static_cast<std::size_t>(cut), all.size()) << "every byte counted";
  EXPECT_FALSE(exists("log.tail"));
  EXPECT_FALSE(exists("log.tail.old"));
}

TEST_F(BoundedLogTest, of_a_dead_writer_is_put_together) {
  {
    auto log = BoundedLog::open(path_, 4096);
    ASSERT_TRUE(log.ok());
    log->write(std::string(2048, 'a') + std::string(1024, 'b') + std::string(10, 'c'));
  }
  EXPECT_TRUE(exists("log.tail"));
  finish_abandoned_log(path_);
  const std::string kept = text();
  EXPECT_TRUE(kept.starts_with(std::string(2048, 'a')));
  EXPECT_TRUE(kept.ends_with(std::string(1024, 'b') + std::string(10, 'c')));
  EXPECT_NE(kept.find("may have been left out"), std::string::npos);
  EXPECT_FALSE(exists("log.tail"));
  finish_abandoned_log(path_);
  EXPECT_EQ(text(), kept);
}

TEST_F(BoundedLogTest, a_folder_that_is_missing_is_named) {
  const auto log = BoundedLog::open(folder_ + "/absent/log", 4096);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().code, Code::kUnavailable);
  EXPECT_NE(log.error().message.find("absent/log"), std::string::npos);
}

}  // namespace
}  // namespace falaj::exec
