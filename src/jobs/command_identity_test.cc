// Who a command is to the server while it runs.
#include <algorithm>
#include <atomic>
#include <fstream>

#include "crypto/testing/fake_random.h"
#include "exec/sandbox.h"
#include "jobs/reach.h"
#include "jobs/runtime.h"
#include "jobs/testing/commands_world.h"
#include "security/identity/job_identities.h"

namespace falaj::jobs {
namespace {

using security::JobIdentities;

std::string value_of(const Work& work, std::string_view name) {
  const auto found = std::find_if(work.env.begin(), work.env.end(),
                                  [&](const auto& variable) { return variable.first == name; });
  return found == work.env.end() ? "" : found->second;
}

class CommandIdentityTest : public testing::CommandsWorld {
 protected:
  void SetUp() override {
    CommandsWorld::SetUp();
    start_server();
  }
  // As after a restart: other memory, the same key.
  void start_server() {
    queue_.reset();  // It calls what is replaced here.
    identities_ = std::make_unique<JobIdentities>(
        random_, crypto::SecretBytes(std::string_view("what this server knows for ever")));
    identity_.begin = [this](const AttemptId& id, std::vector<security::Scope> scopes,
                             security::PrincipalPtr submitter, const Zone& place) {
      return identities_->mint_for(id.job, to_string(id), std::move(scopes), clock_.now(),
                                   std::move(submitter), place);
    };
    identities_->bound_by([this](const security::Principal& submitter, const security::Scope&) {
      return submitter.id == "user:u_1" && submitter.kind == security::PrincipalKind::kUser &&
             submitter.groups == std::vector<std::string>{"risk"} && granted_;
    });
    identity_.end = [this](const JobId& id) { identities_->end(id); };
    reopen();
  }
  // Says its token, then that it runs.
  JobSpec telling(const std::string& name) {
    JobSpec spec = spec_of("echo $FALAJ_TOKEN > $FOLDER/" + name + ".token; " + gated(name));
    spec.payload["inputs"].push("TrainingSet/fraud");
    return spec;
  }
  std::string told(const std::string& name) {
    std::string token;
    std::ifstream file(folder_ / (name + ".token"));
    std::getline(file, token);
    return token;
  }
  Result<security::PrincipalPtr> shown(const std::string& token) {
    const auto parts = security::parse_token_text(token);
    if (!parts.ok()) return parts.error();
    return identities_->check(*parts, clock_.now());
  }

  std::atomic<bool> granted_ = true;
  crypto::testing::FakeRandom random_{5};
  std::unique_ptr<JobIdentities> identities_;
};

TEST_F(CommandIdentityTest, holds_while_it_runs_and_for_what_it_names) {
  queue_->start();
  const JobId id = submit(telling("a"));
  runs("a");
  const auto principal = shown(told("a"));
  ASSERT_TRUE(principal.ok()) << principal.error().message;
  EXPECT_EQ((*principal)->id, "job:" + id.str());
  EXPECT_TRUE(
      security::within_scopes(**principal, "features.read", "payments", "TrainingSet/fraud"));
  EXPECT_FALSE(security::within_scopes(**principal, "features.read", "lab", "TrainingSet/fraud"));
  EXPECT_FALSE(
      security::within_scopes(**principal, "models.write", "payments", "TrainingSet/fraud"));
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(shown(told("a")).error().id, ErrorId::kCredentialRefused) << "as soon as it has ended";
}

TEST_F(CommandIdentityTest, shrinks_with_its_submitter_also_after_a_restart) {
  queue_->start();
  JobSpec spec = telling("a");
  spec.payload["submitter"] = submitter_value(
      {.kind = security::PrincipalKind::kUser, .id = "user:u_1", .groups = {"risk"}});
  const JobId id = submit(spec);
  runs("a");
  const auto may_read = [&] {
    const auto principal = shown(told("a"));
    return principal.ok() &&
           security::within_scopes(**principal, "features.read", "payments", "TrainingSet/fraud");
  };
  EXPECT_TRUE(may_read());
  granted_ = false;
  EXPECT_FALSE(may_read()) << "at once, with the token that it has";
  granted_ = true;
  EXPECT_TRUE(may_read());
  queue_->stop();
  start_server();
  EXPECT_TRUE(may_read());
  granted_ = false;
  EXPECT_FALSE(may_read());
  EXPECT_FALSE(to_value(queue_->get(id).value())["payload"].has("submitter")) << "nobody's to see";
  queue_->start();
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
}

TEST_F(CommandIdentityTest, of_a_cancelled_command_ends_with_its_process) {
  queue_->start();
  const JobId id = submit(telling("a"));
  runs("a");
  ASSERT_TRUE(shown(told("a")).ok());
  ASSERT_TRUE(queue_->cancel(context_, id).ok());
  EXPECT_EQ(ended(id).status, JobStatus::kCancelled);
  EXPECT_FALSE(shown(told("a")).ok());
}

TEST_F(CommandIdentityTest, of_the_next_attempt_is_another) {
  queue_->start();
  JobSpec spec = spec_of("echo $FALAJ_TOKEN; [ $FALAJ_ATTEMPT != $FALAJ_JOB-1 ]");
  spec.attempts_max = 2;
  const JobId id = submit(spec);
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  const std::string first = *queue_->log_tail(id, 1);
  const std::string second = *queue_->log_tail(id, 2);
  EXPECT_TRUE(first.starts_with("fj_j")) << first;
  EXPECT_TRUE(second.starts_with("fj_j")) << second;
  EXPECT_NE(first, second);
  EXPECT_EQ(identities_->size(), 0u);
}

TEST_F(CommandIdentityTest, is_known_again_by_the_server_after_this_one) {
  queue_->start();
  const JobId id = submit(telling("a"));
  const JobId over = submit(telling("b"));
  runs("a");
  runs("b");
  queue_->stop();
  go("b");  // Ends while no server is there.
  clock_.advance(Duration::hours(2));
  start_server();
  const auto principal = shown(told("a"));
  ASSERT_TRUE(principal.ok()) << "before anything else is started";
  EXPECT_EQ((*principal)->id, "job:" + id.str());
  EXPECT_EQ((*principal)->expires, clock_.now() + security::kJobIdentityLifetime);
  queue_->start();
  EXPECT_EQ(ended(over).status, JobStatus::kSucceeded);
  EXPECT_FALSE(shown(told("b")).ok());
  EXPECT_TRUE(shown(told("a")).ok());
  go("a");
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_EQ(identities_->size(), 0u);
}

TEST_F(CommandIdentityTest, cannot_be_replaced_by_the_jobs_own_environment) {
  queue_->start();
  JobSpec spec = spec_of("echo $FALAJ_TOKEN");
  spec.payload["env"]["FALAJ_TOKEN"] = "mine";
  const JobId id = submit(spec);
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded);
  EXPECT_TRUE(queue_->log_tail(id, 0)->starts_with("fj_j"));
}

TEST_F(CommandIdentityTest, tells_where_the_server_is_to_who_has_a_network) {
  CommandOptions options;
  options.network = true;
  identity_.server = [] {
    return CommandIdentity::Server{"https://127.0.0.1:7070", "/srv/falaj/tls/authority.pem"};
  };
  Job job;
  job.id = JobId("j1");
  job.epoch = 1;
  job.spec = spec_of("true");
  options.identity = identity_;
  Work alone = command_work(options, job, {"/w", "/w.log"}, 0);
  ASSERT_TRUE(give_identity(options, job, alone).ok());
  EXPECT_FALSE(alone.sandbox.network) << "it did not ask";
  EXPECT_NE(value_of(alone, "FALAJ_TOKEN"), "");
  EXPECT_EQ(value_of(alone, "FALAJ_SERVER"), "");
  job.spec.payload["network"] = true;
  Work with = command_work(options, job, {"/w", "/w.log"}, 0);
  ASSERT_TRUE(give_identity(options, job, with).ok());
  EXPECT_TRUE(with.sandbox.network);
  EXPECT_EQ(value_of(with, "FALAJ_SERVER"), "https://127.0.0.1:7070");
  EXPECT_EQ(value_of(with, "FALAJ_CA"), "/srv/falaj/tls/authority.pem");
  EXPECT_EQ(with.sandbox.read_only.back(), "/srv/falaj/tls/authority.pem");
  options.network = false;
  EXPECT_FALSE(command_work(options, job, {"/w", "/w.log"}, 0).sandbox.network);
}

TEST_F(CommandIdentityTest, is_not_given_to_images_whose_environment_lies_in_a_file) {
  Job job;
  job.id = JobId("j1");
  job.epoch = 1;
  job.spec = spec_of("true");
  ASSERT_TRUE(may_be_known(job));
  job.spec.payload["runtime"]["form"] = "image";
  ASSERT_EQ(runtime_of(job.spec.payload).form, RuntimeForm::kImage);
  CommandOptions options;
  options.identity = identity_;
  Work work = command_work(options, job, {"/w", "/w.log"}, 0);
  ASSERT_TRUE(give_identity(options, job, work).ok());
  EXPECT_FALSE(may_be_known(job));
  EXPECT_EQ(value_of(work, "FALAJ_TOKEN"), "");
  EXPECT_EQ(identities_->size(), 0u) << "nobody else is known by it either";
}

// With a network, what it reads can leave: each input is asked about when it comes, and again
// whenever an attempt begins.
class DepartureTest : public CommandIdentityTest {
 protected:
  void SetUp() override {
    network_ = true;
    departs_ = [this](const security::RequestContext& context, const std::string& object,
                      Departure why) -> Status {
      MutexLock lock(mutex_);
      asked_.push_back((why == Departure::kAsked ? "asked " : "begins ") + object + " of " +
                       context.zone.name());
      if (object == barred_) return Error(ErrorId::kZoneRefused, object + " stays");
      return {};
    };
    CommandIdentityTest::SetUp();
  }
  JobSpec reading(const std::string& script) {
    JobSpec spec = spec_of(script);
    spec.payload["network"] = true;
    spec.payload["inputs"].push("FeatureView/a");
    spec.payload["inputs"].push("TrainingSet/b");
    return spec;
  }
  void bar(const std::string& object) {
    MutexLock lock(mutex_);
    barred_ = object;
  }
  std::vector<std::string> asked() {
    MutexLock lock(mutex_);
    return std::exchange(asked_, {});
  }

 private:
  Mutex mutex_;
  std::string barred_ FALAJ_GUARDED_BY(mutex_);
  std::vector<std::string> asked_ FALAJ_GUARDED_BY(mutex_);
};

TEST_F(DepartureTest, of_each_input_is_asked_when_it_comes_and_when_it_begins) {
  const JobId id = submit(reading("true"));
  const std::vector<std::string> first{"asked FeatureView/a of ae", "asked TrainingSet/b of ae"};
  EXPECT_EQ(asked(), first);
  queue_->start();
  EXPECT_EQ(ended(id).status, JobStatus::kSucceeded) << ended(id).error;
  const std::vector<std::string> then{"begins FeatureView/a of ae", "begins TrainingSet/b of ae"};
  EXPECT_EQ(asked(), then);
}

TEST_F(DepartureTest, that_is_refused_lets_no_command_begin) {
  bar("TrainingSet/b");
  const auto refused = queue_->submit(context_, reading("true"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kZoneRefused);
  EXPECT_NE(refused.error().message.find("TrainingSet/b stays"), std::string::npos);
  bar("");
  const JobId id = submit(reading("touch $FOLDER/ran"));
  bar("TrainingSet/b");  // A transfer ended while it waited.
  queue_->start();
  const Job job = ended(id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_NE(job.error.find("TrainingSet/b stays"), std::string::npos) << job.error;
  EXPECT_FALSE(std::ifstream(folder_ / "ran").good()) << "it ran";
}

TEST_F(DepartureTest, is_not_asked_of_a_command_without_a_network) {
  bar("TrainingSet/b");
  JobSpec spec = reading("true");
  spec.payload["network"] = false;
  queue_->start();
  EXPECT_EQ(ended(submit(spec)).status, JobStatus::kSucceeded);
  EXPECT_TRUE(asked().empty());
}

TEST_F(DepartureTest, is_asked_of_the_set_that_it_learns_from_too) {
  JobSpec spec = spec_of("true");
  spec.payload["network"] = true;
  spec.payload["capture"]["data"]["training_set"] = "c";
  bar("TrainingSet/c");
  EXPECT_EQ(queue_->submit(context_, spec).error().id, ErrorId::kZoneRefused);
}

TEST_F(DepartureTest, is_asked_of_what_it_may_read_as_its_output_too) {
  JobSpec spec = spec_of("true");
  spec.payload["network"] = true;
  spec.payload["outputs"].push("Model/d");
  bar("Model/d");
  EXPECT_EQ(queue_->submit(context_, spec).error().id, ErrorId::kZoneRefused);
}

TEST_F(DepartureTest, puts_its_identity_where_the_network_leads) {
  queue_->start();
  JobSpec spec = telling("a");
  const JobId alone = submit(spec);
  runs("a");
  EXPECT_FALSE((*shown(told("a")))->zone.labelled());
  go("a");
  EXPECT_EQ(ended(alone).status, JobStatus::kSucceeded);
  spec = telling("b");
  spec.payload["network"] = true;
  const JobId with = submit(spec);
  runs("b");
  EXPECT_EQ((*shown(told("b")))->zone, Zone("lan"));
  go("b");
  EXPECT_EQ(ended(with).status, JobStatus::kSucceeded);
}

TEST_F(CommandIdentityTest, a_network_of_its_own_is_not_required_of_who_has_the_machines) {
  CommandOptions options;
  options.network = true;
  options.sandbox.required = exec::full_confinement();
  Job job;
  job.id = JobId("j1");
  job.spec = spec_of("true");
  EXPECT_EQ(command_work(options, job, {"/w", "/w.log"}, 0).sandbox.required,
            exec::full_confinement());
  job.spec.payload["network"] = true;
  EXPECT_EQ(command_work(options, job, {"/w", "/w.log"}, 0).sandbox.required,
            (std::vector<std::string>{"no_new_privs", "landlock", "seccomp"}));
}

TEST_F(CommandIdentityTest, a_network_that_nobody_granted_is_refused_at_submit) {
  JobSpec spec = spec_of("true");
  spec.payload["network"] = true;
  const auto refused = queue_->submit(context_, spec);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kOutOfRange);
  EXPECT_NE(refused.error().message.find("jobs.network"), std::string::npos);
  network_ = true;
  reopen();
  EXPECT_TRUE(queue_->submit(context_, spec).ok());
}

}  // namespace
}  // namespace falaj::jobs
