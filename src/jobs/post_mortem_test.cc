#include "jobs/post_mortem.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs {
namespace {

Job job_of(int attempts) {
  Job job;
  job.attempts = attempts;
  job.epoch = attempts;
  job.spec.attempts_max = 3;
  job.spec.request.resources = {2000, std::int64_t{1} << 30, 1};
  return job;
}

TEST(PostMortem, tells_signal_last_lines_and_what_was_charged) {
  AttemptEnd end;
  end.reason = EndReason::kSignalled;
  end.code = SIGSEGV;
  end.run_time = Duration::seconds(10);
  end.memory_peak_bytes = 5;
  const Value value = post_mortem(job_of(2), end, "one\ntwo\n", {});
  EXPECT_EQ(value.text("signal_name"), "SIGSEGV");
  EXPECT_EQ(value.integer("signal"), SIGSEGV);
  EXPECT_TRUE(value["exit_code"].is_null());
  EXPECT_EQ(to_json(value["last_lines"]), R"(["one","two"])");
  EXPECT_EQ(value["charged"].integer("attempts"), 2);
  EXPECT_EQ(value["charged"].number("cpu_seconds"), 20);
  EXPECT_EQ(value["charged"].number("gpu_seconds"), 10);
  EXPECT_EQ(value["charged"].number("memory_gib_seconds"), 10);
  EXPECT_TRUE(value["workers"].is_null());
}

TEST(PostMortem, what_was_stopped_or_lost_counts_for_nothing) {
  AttemptEnd end;
  for (const EndReason reason : {EndReason::kStopped, EndReason::kLost}) {
    end.reason = reason;
    const Value value = post_mortem(job_of(1), end, "", {});
    EXPECT_FALSE(value["charged"]["counts"].as_bool());
    EXPECT_EQ(value["charged"].integer("attempts"), 0);
  }
  end.reason = EndReason::kOutOfMemory;
  EXPECT_TRUE(post_mortem(job_of(1), end, "", {})["charged"]["counts"].as_bool());
}

TEST(PostMortem, names_the_worker_that_failed_first) {
  const Value reported = *parse_json(
      R"({"reason":"rank 1 failed","crashes":2,"preemptions":0,"attempts":[
          {"attempt":1,"first_failure":{"process":"rank 0","signal":9}},
          {"attempt":2,"first_failure":{"process":"rank 1","exit_code":3}},
          {"attempt":3}]})");
  AttemptEnd end;
  end.code = 3;
  const Value workers = post_mortem(job_of(1), end, "", reported)["workers"];
  EXPECT_EQ(workers["first_failure"].text("process"), "rank 1");
  EXPECT_EQ(workers["first_failure"].integer("attempt"), 2);
  EXPECT_EQ(workers.integer("crashes"), 2);
}

TEST(PostMortem, what_a_program_says_of_itself_is_cut) {
  Value reported = *parse_json(
      R"({"crashes":{"a":1},"attempts":[{"attempt":1,"first_failure":{"process":"rank 0"}},
          {"attempt":2,"first_failure":{}}]})");
  reported["reason"] = std::string(1 << 20, 'x');
  reported["attempts"].as_array()[1]["first_failure"]["process"] = std::string(1 << 20, 'x');
  const Value workers = post_mortem(job_of(1), {}, "", reported)["workers"];
  EXPECT_LT(to_json(workers).size(), 2048U);
  EXPECT_EQ(workers["first_failure"].text("process"), "rank 0");
}

TEST(PostMortem, a_report_is_read_only_from_a_small_file_of_its_own) {
  const storage::TempFolder folder;
  const std::string path = folder / std::string(kReportFile);
  EXPECT_TRUE(read_report(folder.path()).is_null());
  std::ofstream(path) << R"({"code": 3})";
  EXPECT_EQ(read_report(folder.path()).integer("code"), 3);
  std::ofstream(path) << "no JSON";
  EXPECT_TRUE(read_report(folder.path()).is_null());
  std::ofstream(path) << std::string(2 << 20, ' ') << "{}";
  EXPECT_TRUE(read_report(folder.path()).is_null()) << "too large";
  std::filesystem::rename(path, folder / "elsewhere");
  std::ofstream(folder / "elsewhere") << "{}";
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_TRUE(read_report(folder.path()).is_null()) << "a link";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(read_report(folder.path()).is_null()) << "a pipe that nobody writes to";
}

}  // namespace
}  // namespace falaj::jobs
