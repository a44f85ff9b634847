// Real interpreters and a real virtual environment, from a wheel that the test makes.
#include "jobs/runtimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "jobs/testing/commands_world.h"

namespace falaj::jobs {
namespace {

constexpr const char* kPython = "/usr/bin/python3";

// Writes the wheel of a package `pearl` that says where it was found; prints its hash.
constexpr const char* kMakeWheel = R"(
import base64, hashlib, sys, zipfile
path = sys.argv[1] + "/pearl-1.0-py3-none-any.whl"
files = {
    "pearl.py": "def say():\n    return 'a pearl of ' + __file__\n",
    "pearl-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: pearl\nVersion: 1.0\n",
    "pearl-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
record = ""
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
        digest = hashlib.sha256(text.encode()).digest()
        digest = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    wheel.writestr("pearl-1.0.dist-info/RECORD", record + "pearl-1.0.dist-info/RECORD,,\n")
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
)";

class RuntimesTest : public testing::CommandsWorld {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import pip, venv' 2>/dev/null") != 0) {
      GTEST_SKIP() << "this machine has no /usr/bin/python3 with pip and venv";
    }
    CommandsWorld::SetUp();
    RuntimesOptions own;
    own.folder = folder_ / "runtimes";
    own.sandbox.enabled = true;
    runtimes_ = *Runtimes::open(own, *sql_, *queue_);
    queue_->handle(std::string(kRuntimeType), *runtimes_);
    CommandOptions commands;
    commands.sandbox.enabled = true;
    commands.resolve = [this](const security::RequestContext& context, JobSpec& spec) {
      return runtimes_->resolve(context, spec);
    };
    queue_->run_commands(*executor_, commands);
    queue_->start();
  }
  void TearDown() override {
    if (queue_) CommandsWorld::TearDown();
  }

  void declare(const std::string& name, const std::string& spec) {
    storage::Object object;
    object.kind = "Runtime";
    object.project = "payments";
    object.name = name;
    object.spec = *parse_json(spec);
    ASSERT_TRUE(decode_runtime(object).ok()) << decode_runtime(object).error().message;
    ASSERT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(storage::put_object(tx, object, clock_.now()));
                      return {};
                    })
                    .ok());
  }
  // A venv with `pearl`, whose hash is as the file says or another.
  void declare_venv(const std::string& name, std::string hash = "") {
    std::filesystem::create_directories(folder_ / "wheels");
    std::ofstream(folder_ / "make.py") << kMakeWheel;
    const std::string hash_file = folder_ / "hash";
    const std::string make = std::string(kPython) + " " + (folder_ / "make.py") + " " +
                             (folder_ / "wheels") + " > " + hash_file;
    ASSERT_EQ(std::system(make.c_str()), 0);
    if (hash.empty()) std::getline(std::ifstream(hash_file) >> std::ws, hash);
    declare(name, R"({"venv": {"python": "/usr/bin/python3", "wheels": ")" + (folder_ / "wheels") +
                      R"(", "lock": "pearl==1.0 --hash=sha256:)" + hash + "\"}}");
  }
  Result<JobId> try_submit(const std::string& runtime, std::vector<std::string> command) {
    JobSpec spec = spec_of("");
    Submission submission;
    submission.command = std::move(command);
    submission.runtime = runtime;
    spec.payload = payload_of(submission);
    return queue_->submit(context_, std::move(spec));
  }
  JobId run(const std::string& runtime, std::vector<std::string> command) {
    const auto id = try_submit(runtime, std::move(command));
    EXPECT_TRUE(id.ok()) << id.error().message;
    return id.value_or(JobId());
  }
  std::size_t builds() {
    std::size_t count = 0;
    for (const Job& job : *queue_->list(context_.project)) count += job.spec.type == kRuntimeType;
    return count;
  }

  std::string builds_say() {
    std::string out;
    for (const Job& job : *queue_->list(context_.project)) {
      if (job.spec.type == kRuntimeType) out += "\n" + job.error;
    }
    return out;
  }

  std::unique_ptr<Runtimes> runtimes_;
};

TEST_F(RuntimesTest, a_venv_is_built_once_from_its_lock_and_then_shared_read_only) {
  declare_venv("pearls");
  const std::vector<std::string> command{"python", "-c",
                                         "import pearl; print(pearl.say())\n"
                                         "try: open(pearl.__file__, 'a'); print('written to')\n"
                                         "except OSError: print('not for writing')"};
  const JobId first = run("pearls", command);
  const JobId second = run("pearls", command);
  for (const JobId& id : {first, second}) {
    const Job job = ended(id);
    EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error << builds_say();
    const std::string log = *queue_->log_tail(id, 0);
    EXPECT_NE(log.find("a pearl of " + (folder_ / "runtimes")), std::string::npos) << log;
    EXPECT_NE(log.find("not for writing"), std::string::npos) << log;
    EXPECT_EQ(runtime_of(job.spec.payload).digest.size(), 64u);
  }
  EXPECT_EQ(builds(), 1u);
  EXPECT_EQ(ended(run("pearls", {"python", "-c", "import pearl"})).status, JobStatus::kSucceeded);
  EXPECT_EQ(builds(), 1u) << "what was built is found again";
  const auto missing = try_submit("pearls", {"no-such-program"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().id, ErrorId::kFileUnreadable);
}

TEST_F(RuntimesTest, a_wheel_that_is_not_what_was_locked_is_refused_and_says_so) {
  declare_venv("forged", std::string(64, 'b'));
  const JobId id = run("forged", {"python", "-c", "import pearl"});
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kCancelled);
  EXPECT_NE(job.error.find("did not succeed"), std::string::npos) << job.error;
  const std::vector<Job> jobs = *queue_->list(context_.project);
  const auto build = std::find_if(jobs.begin(), jobs.end(),
                                  [](const Job& each) { return each.spec.type == kRuntimeType; });
  ASSERT_NE(build, jobs.end());
  EXPECT_EQ(build->status, JobStatus::kFailed);
  EXPECT_NE(build->error.find("DO NOT MATCH"), std::string::npos) << build->error;
  queue_->stop();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "runtimes/builds")) << "nothing is left of it";
}

TEST_F(RuntimesTest, an_interpreter_of_the_machine_comes_first_in_the_path) {
  std::filesystem::create_directories(folder_ / "own");
  std::filesystem::create_symlink(kPython, folder_ / "own/python3");
  declare("own", R"({"host": {"python": ")" + (folder_ / "own/python3") + R"("}, "readable": [")" +
                     (folder_ / "own") + "\"]}");
  const JobId id = run("own", {"sh", "-c", "command -v python3; python3 -c 'print(6*7)'"});
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(*queue_->log_tail(id, 0), (folder_ / "own/python3") + "\n42\n");
}

TEST_F(RuntimesTest, what_is_not_there_is_refused_at_submit) {
  EXPECT_EQ(try_submit("none", {"true"}).error().id, ErrorId::kObjectNotFound);
  declare("gone", R"({"host": {"python": "/no/python3"}})");
  EXPECT_EQ(try_submit("gone", {"true"}).error().id, ErrorId::kFileUnreadable);
}

TEST_F(RuntimesTest, a_command_that_is_refused_leaves_no_build) {
  declare_venv("pearls");
  JobSpec spec = spec_of("true");
  spec.payload["runtime"] = "pearls";
  spec.request.resources.memory_bytes = 64 * testing::kGi;
  EXPECT_EQ(queue_->submit(context_, spec).error().id, ErrorId::kOutOfRange);
  spec.request.resources.memory_bytes = testing::kGi / 8;
  spec.request.after = {JobId("01NOSUCHJOB")};
  EXPECT_EQ(queue_->submit(context_, spec).error().code, Code::kNotFound);
  EXPECT_EQ(builds(), 0u);
}

TEST_F(RuntimesTest, a_half_built_one_is_swept_and_a_whole_one_stays) {
  queue_->stop();
  const std::string folder = folder_ / "runtimes";
  std::filesystem::create_directories(folder + "/builds/half/bin");
  std::filesystem::create_directories(folder + "/builds/whole/bin");
  std::filesystem::create_directory_symlink(folder + "/builds/whole", folder + "/digest");
  RuntimesOptions own;
  own.folder = folder;
  ASSERT_TRUE(Runtimes::open(own, *sql_, *queue_).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/builds/half"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/digest/bin"));
}

}  // namespace
}  // namespace falaj::jobs
