#include "jobs/command.h"

#include <gtest/gtest.h>

namespace falaj::jobs {
namespace {

std::string told(const std::string& word, const std::string& log) {
  Work work;
  work.argv = {"/usr/bin/python3", "-u", word};
  work.sandbox.enabled = true;
  work.sandbox.read_only = {"/srv/code"};
  work.sandbox.read_write = {"/tmp/job"};
  AttemptEnd end;
  end.reason = EndReason::kExited;
  end.code = 2;
  const Status outcome = check_end(end, work, log);
  return outcome.ok() ? "ok" : outcome.error().message;
}

TEST(CommandEnd, names_the_setting_when_a_word_is_outside_what_a_job_may_read) {
  const std::string log = "can't open file '/opt/mine/train.py': [Errno 13] Permission denied";
  EXPECT_EQ(told("/opt/mine/train.py", log),
            "the process exited with code 2; /opt/mine/train.py is outside what a job may read: "
            "have its folder added to jobs.readable; its last lines:\n" +
                log);
}

TEST(CommandEnd, says_nothing_of_it_when_that_was_not_the_reason) {
  const auto quiet = [](const std::string& word, const std::string& log) {
    return told(word, log).find("jobs.readable") == std::string::npos;
  };
  const std::string denied = ": Permission denied";
  EXPECT_TRUE(quiet("/srv/code/train.py", "/srv/code/train.py" + denied));
  EXPECT_TRUE(quiet("/tmp/job/made.py", "/tmp/job/made.py: No such file or directory"));
  EXPECT_TRUE(quiet("/etc/shadow", "/etc/shadow" + denied));
  EXPECT_TRUE(quiet("/opt/mine/train.py", "ValueError: 3")) << "it failed otherwise";
  EXPECT_TRUE(quiet("/opt/mine/train.py", "/var/data" + denied)) << "it could be read";
  EXPECT_TRUE(quiet("train.py", "train.py: No such file")) << "in its own folder";
  EXPECT_FALSE(quiet("/srv/codes/train.py", "/srv/codes/train.py" + denied)) << "another folder";
}

}  // namespace
}  // namespace falaj::jobs
