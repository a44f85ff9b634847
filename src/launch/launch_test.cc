#include "launch/launch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "launch/testing/gang_fixture.h"

namespace falaj::launch {
namespace {

using LaunchTest = GangTest;

TEST_F(LaunchTest, every_worker_is_told_its_rank_and_its_lines_carry_it) {
  const LaunchReport report =
      launch(script("echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR; cat $FALAJ_HOSTFILE; "
                    "cat $FALAJ_LIGHTGBM_MACHINE_LIST | wc -l; echo to stderr >&2",
                    3));
  EXPECT_EQ(report.code, 0) << told_;
  for (const char* rank : {"0", "1", "2"}) {
    const std::string prefix = std::string("[") + rank + "] ";
    EXPECT_TRUE(has(prefix + "rank " + rank + " of 3 at 127.0.0.1\n")) << output();
    EXPECT_TRUE(has(prefix + "127.0.0.1 slots=3\n"));
    EXPECT_TRUE(has(prefix + "3\n"));
    EXPECT_TRUE(has(prefix + "to stderr\n"));
  }
  ASSERT_EQ(report.attempts.size(), 1u);
  EXPECT_EQ(report.attempts[0].world, 3);
  EXPECT_FALSE(report.attempts[0].first_failure.has_value());
}

TEST_F(LaunchTest, a_killed_worker_is_started_again_with_the_others) {
  const LaunchReport report =
      launch(script("echo attempt $FALAJ_ATTEMPT; "
                    "if [ $FALAJ_ATTEMPT = 0 ] && [ $RANK = 1 ]; then echo dying; kill -9 $$; fi; "
                    "if [ $FALAJ_ATTEMPT = 0 ]; then exec sleep 100; fi",
                    2, 1));
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_EQ(report.crashes, 1);
  ASSERT_EQ(report.attempts.size(), 2u);
  ASSERT_TRUE(report.attempts[0].first_failure.has_value());
  EXPECT_EQ(report.attempts[0].first_failure->name, "1");
  EXPECT_EQ(report.attempts[0].first_failure->status.signal, 9);
  EXPECT_EQ(report.attempts[0].first_failure->last_lines.back(), "dying");
  EXPECT_TRUE(has("[0] attempt 1\n"));
  EXPECT_TRUE(has("[1] attempt 1\n"));
  EXPECT_NE(told_.find("post-mortem: [1] failed first of 2 workers"), std::string::npos) << told_;
}

TEST_F(LaunchTest, every_start_is_told_anew_what_to_go_on_from) {
  LaunchOptions options =
      script("echo from ${FALAJ_CKPT_RESTORE-nothing}; test $FALAJ_ATTEMPT = 2 || exit 75", 1);
  options.node.inherited.emplace_back("FALAJ_CKPT_RESTORE", "/stale");
  int starts = 0;
  options.node.restore = [&starts](Begins who) -> Result<std::string> {
    EXPECT_EQ(who, Begins::kAll);
    return starts++ == 0 ? "" : "/kept/" + std::to_string(starts);
  };
  EXPECT_EQ(launch(std::move(options)).code, 0) << told_;
  EXPECT_EQ(starts, 3);
  EXPECT_EQ(output(), "[0] from nothing\n[0] from /kept/2\n[0] from /kept/3\n");
}

TEST_F(LaunchTest, reports_go_to_one_file_by_a_descriptor_too) {
  LaunchOptions options = script("echo from $RANK >&$FALAJ_METRICS_FD", 2);
  const std::string file = folder_ + "/metrics.jsonl";
  options.node.inherited.emplace_back("FALAJ_METRICS", file);
  EXPECT_EQ(launch(std::move(options)).code, 0) << told_;
  std::ifstream lines(file);
  std::set<std::string> read;
  for (std::string line; std::getline(lines, line);) read.insert(line);
  EXPECT_EQ(read, (std::set<std::string>{"from 0", "from 1"}));
  EXPECT_EQ(launch(script("test -z \"$FALAJ_METRICS_FD\"", 1)).code, 0);
}

TEST_F(LaunchTest, without_a_whole_checkpoint_nothing_is_started) {
  LaunchOptions options = script("echo started", 2);
  options.node.restore = [](Begins) -> Result<std::string> {
    return Error(Code::kDataLoss, "all checkpoints are damaged");
  };
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 127);
  EXPECT_FALSE(has("started"));
  EXPECT_NE(told_.find("| all checkpoints are damaged"), std::string::npos) << told_;
}

TEST_F(LaunchTest, the_code_of_the_first_failure_is_the_code_of_the_gang) {
  const LaunchReport report =
      launch(script("if [ $RANK = 1 ]; then exit 3; fi; exec sleep 100", 2));
  EXPECT_EQ(report.code, 3);
  EXPECT_EQ(report.crashes, 0);
  EXPECT_EQ(report.attempts.back().first_failure->status.code, 3);
}

TEST_F(LaunchTest, exit_75_is_started_again_for_nothing_and_77_is_not) {
  const LaunchReport report =
      launch(script("case $FALAJ_ATTEMPT in 0|1) exit 75;; *) exit 77;; esac", 1, 5));
  EXPECT_EQ(report.code, 77);
  EXPECT_EQ(report.crashes, 0);
  EXPECT_EQ(report.attempts.size(), 3u);
}

TEST_F(LaunchTest, a_notice_reaches_every_worker_with_its_deadline) {
  LaunchOptions options = script(
      "trap 'read -r line <&$FALAJ_DEADLINE_FD; echo told $line; exit 75' TERM; echo ready; "
      "while :; do sleep 0.05; done",
      2);
  options.launcher.grace = Duration::seconds(20);
  const LaunchReport report = launch(std::move(options), [this](Launch& run) {
    expect_printed("[0] ready");
    expect_printed("[1] ready");
    run.launcher().notice();
  });
  EXPECT_EQ(report.code, 75) << output();
  EXPECT_TRUE(has("[0] told {\"deadline_ms\":")) << output();
  EXPECT_TRUE(has(",\"grace_ms\":20000}"));
}

TEST_F(LaunchTest, who_ignores_the_notice_is_killed_after_the_grace) {
  LaunchOptions options = script("trap '' TERM; echo ready; while :; do sleep 0.05; done", 1);
  options.launcher.grace = Duration::milliseconds(100);
  const LaunchReport report = launch(std::move(options), [this](Launch& run) {
    expect_printed("[0] ready");
    run.launcher().notice();
  });
  EXPECT_EQ(report.code, 143);
}

TEST_F(LaunchTest, kill_ends_it_at_once) {
  LaunchOptions options = script("trap '' TERM; echo ready; while :; do sleep 0.05; done", 2);
  options.launcher.grace = Duration::hours(1);
  const LaunchReport report = launch(std::move(options), [this](Launch& run) {
    expect_printed("[0] ready");
    expect_printed("[1] ready");
    run.launcher().kill();
  });
  EXPECT_EQ(report.code, 143);
}

TEST_F(LaunchTest, a_log_rule_stops_the_gang) {
  LaunchOptions options =
      script("if [ $RANK = 1 ]; then echo CUDA out of memory; fi; exec sleep 100", 2, 5);
  options.launcher.rules = LogRules::parse({"stop=out of memory"}).value();
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 1);
  EXPECT_EQ(report.crashes, 0);
  EXPECT_NE(report.reason.find("out of memory"), std::string::npos);
}

TEST_F(LaunchTest, a_log_rule_retries_without_spending_the_crash_budget) {
  LaunchOptions options = script(
      "if [ $FALAJ_ATTEMPT = 0 ]; then while :; do echo link down; sleep 0.01; done; fi", 2, 0);
  options.launcher.rules = LogRules::parse({"retry=link down"}).value();
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 0);
  EXPECT_EQ(report.crashes, 0);
  EXPECT_EQ(report.preemptions, 1);
}

TEST_F(LaunchTest, survivors_are_kept_when_asked) {
  LaunchOptions options = script(
      "if [ $RANK = 1 ] && mkdir $FOLDER/died 2>/dev/null; then kill -9 $$; fi; "
      "if [ $RANK = 1 ]; then touch $FOLDER/again; exit 0; fi; "
      "echo started; until [ -e $FOLDER/again ]; do sleep 0.02; done",
      2, 1);
  options.launcher.policy.on_crash = OnCrash::kKeepSurvivors;
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_EQ(report.crashes, 1);
  EXPECT_EQ(report.attempts.size(), 1u);
  EXPECT_EQ(output(), "[0] started\n");  // Once: it was never stopped.
}

TEST_F(LaunchTest, parameter_servers_and_their_scheduler_run_beside_the_workers) {
  LaunchOptions options = script(
      "echo $DMLC_ROLE $DMLC_NUM_SERVER; "
      "if [ $DMLC_ROLE != worker ]; then touch $FOLDER/$DMLC_ROLE; exec sleep 100; fi; "
      "until [ -e $FOLDER/server ] && [ -e $FOLDER/scheduler ]; do sleep 0.02; done",
      2);
  options.launcher.servers = 1;
  const LaunchReport report = launch(std::move(options));
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_TRUE(has("[scheduler] scheduler 1\n")) << output();
  EXPECT_TRUE(has("[server 0] server 1\n"));
  EXPECT_TRUE(has("[1] worker 1\n"));
}

TEST_F(LaunchTest, the_error_file_of_torch_is_read) {
  const LaunchReport report = launch(script(
      "echo '{\"message\": {\"message\": \"ValueError: bad batch\"}}' > $TORCHELASTIC_ERROR_FILE; "
      "exit 1",
      1));
  EXPECT_EQ(report.attempts.back().first_failure->error, "ValueError: bad batch");
  EXPECT_EQ(to_value(report)["attempts"].as_array()[0]["first_failure"].text("error"),
            "ValueError: bad batch");
}

TEST_F(LaunchTest, leaves_no_folder_behind) {
  std::string folder;
  launch(script("echo $FALAJ_LAUNCH_DIR", 1));
  folder = output().substr(4, output().size() - 5);
  EXPECT_TRUE(folder.starts_with("/")) << folder;
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(LaunchTest, refuses_what_cannot_run) {
  LaunchOptions missing = script("", 1);
  missing.node.argv = {"no-such-program-here"};
  EXPECT_EQ(Launch::create(std::move(missing)).error().code, Code::kNotFound);
  LaunchOptions none = script("", 1);
  none.node.argv.clear();
  EXPECT_EQ(Launch::create(std::move(none)).error().code, Code::kInvalidArgument);
  LaunchOptions workers = script("", 1);
  workers.launcher.policy.workers_min = 2;
  EXPECT_EQ(Launch::create(std::move(workers)).error().code, Code::kInvalidArgument);
  LaunchOptions host = script("", 1);
  host.node.host = "203.0.113.7";
  EXPECT_EQ(Launch::create(std::move(host)).error().code, Code::kInvalidArgument);
}

TEST(FindProgram, looks_where_a_shell_would) {
  const Environment env = {{"PATH", "/nowhere:/usr/bin:/bin"}};
  EXPECT_TRUE(find_program("bash", env, "/").ok());
  EXPECT_EQ(find_program("/bin/bash", {}, "/").value(), "/bin/bash");
  EXPECT_EQ(find_program("./bash", {}, "/bin").value(), "/bin/./bash");
  EXPECT_EQ(find_program("bin/bash", env, "/").value(), "//bin/bash");
  for (const char* name : {"", "bash-that-is-not", "/bin/bash-that-is-not", "./bash"}) {
    EXPECT_EQ(find_program(name, env, "/").error().code, Code::kNotFound) << name;
  }
}

}  // namespace
}  // namespace falaj::launch
