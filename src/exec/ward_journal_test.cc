#include "exec/internal/ward_journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

namespace falaj::exec::internal {
namespace {

class WardJournalTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "falaj_journal_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/journal";
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }
  WardJournal open() const {
    auto journal = WardJournal::open(path_);
    EXPECT_TRUE(journal.ok()) << journal.error().message;
    return std::move(*journal);
  }
  static Ward ward(const std::string& id) {
    Ward out;
    out.id = id;
    out.started_at = Timestamp::from_seconds(5);
    return out;
  }
  static Ward ended(const std::string& id, int code) {
    Ward out = ward(id);
    out.end = WardEnd{};
    out.end->code = code;
    return out;
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }
  std::string folder_;
  std::string path_;
};

TEST_F(WardJournalTest, tells_the_next_one_what_was_meant_and_what_became_of_it) {
  {
    WardJournal journal = open();
    for (const char* id : {"meant", "begun", "ended", "forgotten"}) {
      ASSERT_TRUE(journal.intend(ward(id), "/log/" + std::string(id)).ok());
    }
    Ward begun = ward("begun");
    begun.pid = 42;
    begun.protections = {"seccomp"};
    ASSERT_TRUE(journal.begun(begun, 1234).ok());
    ASSERT_TRUE(journal.ended(ended("ended", 7)).ok());
    ASSERT_TRUE(journal.ended(ended("forgotten", 0)).ok());
    ASSERT_TRUE(journal.forget("forgotten").ok());
    ASSERT_TRUE(journal.sync().ok());
  }
  WardJournal again = open();
  const auto kept = again.take_kept();
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_FALSE(kept.at("meant").ward.end.has_value());
  EXPECT_EQ(kept.at("meant").log_path, "/log/meant");
  EXPECT_EQ(kept.at("begun").ward.pid, 42);
  EXPECT_EQ(kept.at("begun").birth, 1234);
  EXPECT_EQ(kept.at("begun").ward.protections, std::vector<std::string>{"seccomp"});
  EXPECT_EQ(kept.at("ended").ward, ended("ended", 7));
}

// Seed 11; every prefix is what a crash may leave.
TEST_F(WardJournalTest, any_prefix_is_read_up_to_its_last_whole_record) {
  {
    WardJournal journal = open();
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(journal.intend(ward("w" + std::to_string(i)), "/log").ok());
      ASSERT_TRUE(journal.ended(ended("w" + std::to_string(i), i)).ok());
    }
  }
  const std::string whole = bytes();
  const std::size_t used = whole.find_last_not_of('\0') + 1;
  std::mt19937 random(11);
  std::size_t before = 0;
  for (std::size_t cut = 0; cut <= used; cut += 1 + random() % 40) {
    std::string torn = whole.substr(0, cut);
    torn.resize(whole.size(), cut % 2 == 0 ? '\0' : '\x5a');  // Old bytes may lie behind it.
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << torn;
    WardJournal journal = open();
    const auto kept = journal.take_kept();
    EXPECT_GE(kept.size(), before);
    before = kept.size();
    // What follows is read again too.
    ASSERT_TRUE(journal.intend(ward("later"), "/log").ok());
    WardJournal next = open();
    EXPECT_EQ(next.take_kept().size(), kept.size() + 1);
  }
  EXPECT_EQ(before, 20u);
}

TEST_F(WardJournalTest, is_rewritten_without_the_forgotten) {
  WardJournal journal = open();
  for (int i = 0; i < 9'000; ++i) {
    const std::string id = "w" + std::to_string(i);
    ASSERT_TRUE(journal.intend(ward(id), "/log").ok());
    ASSERT_TRUE(journal.ended(ended(id, 0)).ok());
    ASSERT_TRUE(journal.forget(id).ok());
  }
  ASSERT_TRUE(journal.worth_rewriting(2));
  struct stat large {};
  ASSERT_EQ(::stat(path_.c_str(), &large), 0);
  Ward running = ward("runs");
  running.pid = 9;
  ASSERT_TRUE(journal.rewrite({{ended("over", 3), "/l", 0}, {running, "/m", 77}}).ok());
  EXPECT_FALSE(journal.worth_rewriting(2));
  ASSERT_TRUE(journal.ended(ended("runs", 1)).ok());
  ASSERT_TRUE(journal.sync().ok());
  struct stat small {};
  ASSERT_EQ(::stat(path_.c_str(), &small), 0);
  EXPECT_LT(small.st_size, large.st_size);
  WardJournal again = open();
  const auto kept = again.take_kept();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.at("over").ward.end->code, 3);
  EXPECT_EQ(kept.at("runs").ward.end->code, 1);
}

TEST_F(WardJournalTest, keeps_a_long_reason_short_and_readable) {
  {
    WardJournal journal = open();
    ASSERT_TRUE(journal.intend(ward("a"), std::string(5000, 'p')).ok());
    Ward over = ended("a", 0);
    for (int i = 0; i < 3000; ++i) over.end->detail += "\u00fc\"";
    ASSERT_TRUE(journal.ended(over).ok());
  }
  WardJournal again = open();
  const auto kept = again.take_kept();
  ASSERT_TRUE(kept.at("a").ward.end.has_value());
  EXPECT_GT(kept.at("a").ward.end->detail.size(), 500u);
}

}  // namespace
}  // namespace falaj::exec::internal
