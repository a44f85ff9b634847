#include "cli/cli.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cli/commands.h"

namespace falaj::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Hooks test_hooks() {
  Hooks hooks;
  hooks.version = "1.2.3";
  hooks.build = "test";
  hooks.serve = [](ServerMode, const config::Settings&) { return 0; };
  return hooks;
}

Outcome falaj(std::vector<std::string> words) {
  words.insert(words.begin(), "falaj");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  const Hooks hooks = test_hooks();
  outcome.code = run(static_cast<int>(argv.size()), argv.data(), hooks);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Sets a variable for one test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(Cli, a_flag_beats_the_environment) {
  const Environment server("FALAJ_SERVER", "http://127.0.0.1:1");
  EXPECT_TRUE(contains(falaj({"list"}).err, "127.0.0.1:1"));
  const Outcome flagged = falaj({"list", "--server", "http://127.0.0.1:2"});
  EXPECT_TRUE(contains(flagged.err, "127.0.0.1:2")) << flagged.err;
  EXPECT_EQ(flagged.code, 1);
}

TEST(Cli, the_help_does_not_depend_on_the_environment) {
  const std::string before = cli_reference(test_hooks());
  const Environment server("FALAJ_SERVER", "http://elsewhere:1");
  EXPECT_EQ(cli_reference(test_hooks()), before);
  EXPECT_TRUE(contains(before, "(env FALAJ_SERVER)"));
}

TEST(Cli, the_configuration_flag_beats_its_variable) {
  const std::string file = testing::TempDir() + "falaj_cli_test.yaml";
  std::ofstream(file) << "server: {port: 1234}\n";
  const Environment config("FALAJ_CONFIG", testing::TempDir() + "falaj_missing.yaml");
  EXPECT_EQ(falaj({"config", "show"}).code, 3);
  const Outcome shown = falaj({"config", "show", "--config", file});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(contains(shown.out, "1234"));
}

TEST(Cli, a_folder_in_place_of_a_file_is_refused) {
  const std::string folder = testing::TempDir();
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"apply", "-f", folder},
           {"diff", "-f", folder},
           {"config", "show", "--config", folder},
           {"freeze", "set", "--spine", folder},
           {"ingest", "view", "-f", folder, "--server", "http://127.0.0.1:1"}}) {
    const Outcome outcome = falaj(words);
    EXPECT_EQ(outcome.code, 3) << words[0];
    EXPECT_TRUE(contains(outcome.err, "FJ-1015")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "irectory")) << outcome.err;
  }
}

TEST(Cli, a_missing_file_is_not_taken_for_a_missing_object) {
  const Outcome outcome = falaj({"apply", "-f", testing::TempDir() + "falaj_missing.yaml"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(contains(outcome.err, "FJ-1015"));
  EXPECT_FALSE(contains(outcome.err, "falaj list"));
}

TEST(Cli, wrong_usage_ends_with_two) {
  const std::string text = testing::TempDir() + "falaj_cli_test.txt";
  std::ofstream(text) << "a\n";
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"dev", "--port", "abc"},
           {"dev", "--set", "nonsense"},
           {"dev", "--set", "server.prot=1"},
           {"config", "explain", "server.prot"},
           {"completion", "tcsh"},
           {"ingest", "view", "-f", text, "--format", "xml"},
           {"ingest", "view", "-f", text},
           {"freeze", "set", "--spine", text},
           {"list", "--server", "not an address"},
           {"predict", "d", "customer_id"},
           {"predict", "d", "a=1", "a=2"},
           {"models", "explain", "d"},
           {"models", "explain", "d", "a=1", "-f", text},
           {"models", "explain", "d", "a=1", "a=2"},
           {"models", "optimize", "m", "--rows", text},
           {"models", "optimize", "m", "--int8"},
           {"models", "optimize", "--int8", "--rows", text},
           {"models", "optimize", "m", "--int8", "--trim", "--rows", text},
           {"models", "optimize", "m", "--int8", "--rows", text, "--training-set", "s"},
           {"models", "optimize", "m", "--prune", "2"},
           {"jobs", "--log"},
           {"audit", "list", "--limit", "0"},
           {"audit", "list", "--limit", "1001"},
           {"demo", "--end", "soon"},
           {"help", "nothing"},
           {"nothing"}}) {
    const Outcome outcome = falaj(words);
    EXPECT_EQ(outcome.code, 2) << words[0] << " " << words.back() << ": " << outcome.err;
  }
}

TEST(Cli, settings_that_do_not_come_from_a_flag_are_no_wrong_usage) {
  const Environment port("FALAJ_SERVER_PORT", "abc");
  EXPECT_EQ(falaj({"config", "show"}).code, 1);
}

TEST(Cli, says_its_version_and_its_commands) {
  EXPECT_EQ(falaj({"--version"}).out, "falaj 1.2.3 (test)\n");
  const Outcome help = falaj({"help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "promote"));
  EXPECT_TRUE(contains(falaj({"help", "audit", "list"}).out, "--limit"));
}

TEST(Cli, explains_a_setting_in_every_format) {
  EXPECT_TRUE(contains(falaj({"config", "explain", "server.port"}).out, "--set server.port="));
  const Outcome json = falaj({"config", "explain", "server.port", "-o", "json"});
  EXPECT_TRUE(contains(json.out, "\"key\": \"server.port\"")) << json.out;
}

TEST(Cli, completes_formats_and_kinds) {
  const std::string script = falaj({"completion", "bash"}).out;
  EXPECT_TRUE(contains(script, "-o|--output) words='table json yaml'"));
  EXPECT_TRUE(contains(script, "get|list|delete)"));
  EXPECT_TRUE(contains(script, "falaj kinds"));
}

TEST(Objects, are_named_by_two_words_or_by_one) {
  const auto says = [](const ObjectWords& words) {
    const Result<ObjectWords> split = split_object(words);
    return split.ok() ? split->kind + " " + split->name : split.error().message;
  };
  EXPECT_EQ(says({"Grant", "risk"}), "Grant risk");
  EXPECT_EQ(says({"Grant/risk", ""}), "Grant risk");
  EXPECT_TRUE(contains(says({"Grant", ""}), "write Grant NAME, or Grant/NAME"));
  EXPECT_TRUE(contains(says({"Grant/", ""}), "names no object"));
  EXPECT_TRUE(contains(says({"/risk", ""}), "names no object"));
  EXPECT_EQ(falaj({"delete", "Grant"}).code, 2);
}

TEST(Checkpoints, the_saver_travels_inside_the_program) {
  const Outcome said = falaj({"checkpoints", "saver"});
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(contains(said.out, "class Saver"));
  EXPECT_TRUE(contains(said.out, "def fence(self)"));
}

TEST(Launch, more_devices_than_there_are_are_refused) {
  const Environment devices("CUDA_VISIBLE_DEVICES", "3,5");
  const Outcome said = falaj({"launch", "--workers", "3", "--gpus", "1", "--", "true"});
  EXPECT_EQ(said.code, 2);
  EXPECT_TRUE(contains(said.err, "for 3 workers are 3 and 2 may be used here")) << said.err;
}

TEST(Logs, are_asked_for_directly_too) {
  const Environment server("FALAJ_SERVER", "http://127.0.0.1:1");
  EXPECT_TRUE(contains(falaj({"logs", "-f", "01JOB"}).err, "127.0.0.1:1"));
  EXPECT_EQ(falaj({"logs"}).code, 2);
}

TEST(Audit, a_replay_without_an_entry_says_where_the_numbers_are) {
  const Outcome said = falaj({"audit", "replay"});
  EXPECT_EQ(said.code, 2);
  EXPECT_TRUE(contains(said.err, "falaj audit list --action loop"));
}

TEST(Promote, fails_when_a_deployment_did_not_take_the_version) {
  Value reply;
  EXPECT_TRUE(alias_taken(reply, 2).ok());
  Value row;
  row["name"] = "fraud";
  row["version"] = 2;
  row["state"] = "ready";
  row["error"] = "";
  reply["deployments"].push(row);
  EXPECT_TRUE(alias_taken(reply, 2).ok());
  row["name"] = "shadow";
  row["version"] = 1;
  row["error"] = "the inputs differ";
  reply["deployments"].push(row);
  const Status refused = alias_taken(reply, 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(contains(refused.error().message, "'shadow' serves version 1"));
  EXPECT_TRUE(contains(refused.error().message, "the inputs differ"));
  EXPECT_FALSE(contains(refused.error().message, "'fraud'"));
  EXPECT_EQ(exit_code(refused.error().code), ExitCode::kFailed);
}

TEST(FollowRun, a_failed_job_keeps_its_own_code) {
  Value job;
  job["status"] = "failed";
  job["error"] = "it took 3 s";
  job["code"] = "FJ-4004";
  EXPECT_EQ(job_error("r1", job).id, ErrorId::kJobTimedOut);
  EXPECT_EQ(exit_code(job_error("r1", job).code), ExitCode::kTimeout);
  job["code"] = Value();
  EXPECT_EQ(job_error("r1", job).id, ErrorId::kJobFailed);
}

}  // namespace
}  // namespace falaj::cli
