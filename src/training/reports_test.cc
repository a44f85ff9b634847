#include "training/reports.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "storage/testing/temp_folder.h"

namespace falaj::training {
namespace {

using Until = ReportTail::Until;

TEST(Reported, the_newest_value_of_a_step_counts_and_garbage_does_not) {
  const Reported reported = read_reported(
      "{\"metric\": \"loss\", \"step\": 2, \"value\": 0.5}\n"
      "not json\n\n[1]\n{\"metric\": \"loss\", \"step\": 1, \"value\": 0.9}\n"
      "{\"metric\": \"loss\", \"step\": 2, \"value\": 0.4, \"progress\": 0.25}\n"
      "{\"metric\": \"auc\", \"step\": 1, \"value\": \"high\"}\n{\"progress\": 7}\n"
      "{\"metric\": \"auc\", \"step\": 1, \"value\": 0.8}");
  ASSERT_EQ(reported.points.size(), 3u);
  EXPECT_EQ(reported.points[0].metric, "auc");
  EXPECT_EQ(reported.points[1].step, 1);
  EXPECT_EQ(reported.points[2].value, 0.4);
  EXPECT_EQ(reported.progress, 0.25);
  EXPECT_EQ(read_reported("").progress, -1);
}

TEST(Reported, a_line_may_say_when) {
  const Reported reported = read_reported(
      "{\"metric\": \"a\", \"step\": 1, \"value\": 1, \"at\": 1700000000.5}\n"
      "{\"metric\": \"a\", \"step\": 2, \"value\": 1, \"at\": \"2024-01-01T00:00:00Z\"}\n"
      "{\"metric\": \"a\", \"step\": 3, \"value\": 1, \"at\": 1e300}\n"
      "{\"metric\": \"a\", \"step\": 4, \"value\": 1, \"at\": -4}\n"
      "{\"metric\": \"a\", \"step\": 5, \"value\": 1, \"at\": \"noon\"}\n");
  ASSERT_EQ(reported.points.size(), 5u);
  EXPECT_EQ(reported.points[0].at.nanos, 1'700'000'000'500'000'000);
  EXPECT_EQ(to_rfc3339(reported.points[1].at).substr(0, 10), "2024-01-01");
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(reported.points[i].at, Timestamp{}) << i;
}

class ReportTailTest : public ::testing::Test {
 protected:
  void append(std::string_view text) {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }
  storage::TempFolder folder_;
  const std::string path_ = folder_ / "metrics.jsonl";
  ReportTail tail_{path_};
};

TEST_F(ReportTailTest, whole_lines_come_once) {
  EXPECT_EQ(tail_.read(Until::kLines), "") << "there is no file yet";
  append("one\ntw");
  EXPECT_EQ(tail_.read(Until::kLines), "one\n");
  EXPECT_EQ(tail_.read(Until::kLines), "");
  append("o\nthree");
  EXPECT_EQ(tail_.read(Until::kLines), "two\n");
  EXPECT_EQ(tail_.read(Until::kEnd), "three") << "nobody ends that line any more";
  EXPECT_EQ(tail_.read(Until::kEnd), "");
}

TEST_F(ReportTailTest, a_copy_that_is_dropped_has_read_nothing) {
  append("one\n");
  ReportTail copy = tail_;
  EXPECT_EQ(copy.read(Until::kLines), "one\n");
  EXPECT_EQ(tail_.read(Until::kLines), "one\n");
}

TEST_F(ReportTailTest, a_file_that_was_cut_or_replaced_is_read_anew) {
  append("one\ntwo\n");
  EXPECT_EQ(tail_.read(Until::kLines), "one\ntwo\n");
  std::filesystem::resize_file(path_, 4);
  EXPECT_EQ(tail_.read(Until::kLines), "one\n");
  std::ofstream(folder_ / "other") << "another\n";
  std::filesystem::rename(folder_ / "other", path_);
  EXPECT_EQ(tail_.read(Until::kLines), "another\n");
}

TEST_F(ReportTailTest, nothing_but_a_regular_file_is_read_and_not_without_end) {
  append("secret\n");
  const std::string link = folder_ / "link";
  ASSERT_EQ(::symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_EQ(ReportTail(link).read(Until::kEnd), "");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReportTail(pipe).read(Until::kEnd), "");
  std::filesystem::resize_file(path_, std::uintmax_t{20} << 20);  // One line without an end.
  std::size_t read = 0;
  for (std::string some = "x"; !some.empty(); read += some.size()) some = tail_.read(Until::kLines);
  EXPECT_LE(read, std::size_t{16} << 20);
  EXPECT_GE(read, std::size_t{15} << 20);
}

}  // namespace
}  // namespace falaj::training
