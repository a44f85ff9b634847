#include "launch/agent.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "launch/testing/gang_fixture.h"
#include "launch/testing/node_certificates.h"

namespace falaj::launch {
namespace {

class AgentTest : public GangTest {
 protected:
  static ChannelOptions channel() {
    ChannelOptions options;
    options.secret = "what all the nodes of this test know";
    options.silence_max = Duration::seconds(30);  // The machine of a test may be slow.
    options.handshake_max = Duration::seconds(30);
    return options;
  }

  LaunchOptions open_to_others(const std::string& text, int slots, int least, int most) {
    LaunchOptions options = script(text, slots);
    options.launcher.policy.workers_min = least;
    options.launcher.policy.workers_max = most;
    options.launcher.policy.gather = Duration::milliseconds(1);
    options.listen = ListenOptions{{"127.0.0.1", 0}, channel()};
    options.name = "first";
    return options;
  }

  static void ignore(std::string_view) {}

  // It ended well without a node, and nobody's crash was counted.
  void expect_went_on(const LaunchReport& report) {
    EXPECT_EQ(report.code, 0) << told_;
    EXPECT_EQ(report.crashes, 0);
    EXPECT_EQ(report.preemptions, 1);
    EXPECT_EQ(report.attempts.back().world, 1);
  }

  // A node that joined and obeys, on a thread of its own.
  class Second {
   public:
    explicit Second(Result<std::unique_ptr<Agent>> agent) : agent_(std::move(agent)) {
      EXPECT_TRUE(agent_.ok()) << (agent_.ok() ? "" : agent_.error().message);
      if (agent_.ok()) obeying_ = std::thread([this] { code_ = (*agent_)->run(); });
    }
    ~Second() { lose(); }
    Second(const Second&) = delete;
    Second& operator=(const Second&) = delete;
    void notice() {
      if (agent_.ok()) (*agent_)->notice();
    }
    // As a machine that is switched off.
    void lose() {
      if (agent_.ok()) (*agent_)->kill();
      end();
    }
    // Waits for its end: its exit code, -1 when it never joined.
    int end() {
      if (obeying_.joinable()) obeying_.join();
      return code_;
    }

   private:
    Result<std::unique_ptr<Agent>> agent_;
    int code_ = -1;
    std::thread obeying_;
  };

  Result<std::unique_ptr<Agent>> join(const Launch& run, const std::string& name, int slots,
                                      ChannelOptions with = channel(),
                                      std::function<void(std::string_view)> tell = ignore) {
    AgentOptions options;
    options.coordinator = {"127.0.0.1", run.port()};
    options.channel = std::move(with);
    options.name = name;
    options.slots = slots;
    options.node = bash("");
    options.node.host.clear();
    options.tell = std::move(tell);
    return Agent::join(std::move(options));
  }
};

TEST_F(AgentTest, a_gang_spans_the_nodes_that_joined) {
  const LaunchReport report = launch(
      open_to_others("echo rank $RANK local $LOCAL_RANK node $GROUP_RANK of $WORLD_SIZE", 1, 3, 3),
      [&](Launch& run) { EXPECT_EQ(Second(join(run, "second", 2)).end(), 0); });
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_TRUE(has("[0] rank 0 local 0 node 0 of 3\n")) << output();
  EXPECT_TRUE(has("[1] rank 1 local 0 node 1 of 3\n"));
  EXPECT_TRUE(has("[2] rank 2 local 1 node 1 of 3\n"));
}

TEST_F(AgentTest, the_gang_goes_on_without_a_node_that_is_lost) {
  const LaunchReport report =
      launch(open_to_others("echo of $WORLD_SIZE; until [ -e $FOLDER/lost ]; do sleep 0.02; done",
                            1, 1, 3),
             [&](Launch& run) {
               Second second(join(run, "second", 2));
               expect_printed("[2] of 3\n");
               second.lose();
               touch("lost");
             });
  expect_went_on(report);
}

TEST_F(AgentTest, below_the_minimum_it_waits_for_another_node) {
  const LaunchReport report =
      launch(open_to_others("echo from $RANK; if [ ! -e $FOLDER/again ]; then exec sleep 100; fi",
                            1, 2, 2),
             [&](Launch& run) {
               Second second(join(run, "second", 1));
               expect_printed("[1] from 1\n");
               touch("again");
               second.lose();
               EXPECT_EQ(Second(join(run, "third", 1)).end(), 0);
             });
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_EQ(report.attempts.size(), 2u);
  EXPECT_EQ(report.attempts.back().world, 2);
}

TEST_F(AgentTest, a_silent_node_is_lost) {
  LaunchOptions options = open_to_others(
      "echo of $WORLD_SIZE; until [ -e $FOLDER/quiet ]; do echo alive; sleep 0.05; done; "
      "until [ -e $FOLDER/lost ]; do sleep 0.02; done",
      1, 1, 2);
  // The test lasts as long; a slow machine may take a while until its worker prints.
  options.listen->channel.silence_max = Duration::seconds(10);
  const LaunchReport report = launch(std::move(options), [&](Launch& run) {
    ChannelOptions frozen = channel();
    frozen.beat = Duration::hours(1);  // Only what its worker prints is a sign of life.
    Second second(join(run, "second", 1, frozen));
    expect_printed("[1] of 2\n");
    touch("quiet");
    EXPECT_EQ(second.end(), 1);  // It is cut off, and kills what it had started.
    touch("lost");
  });
  expect_went_on(report);
}

TEST_F(AgentTest, a_node_that_is_to_go_leaves_after_a_checkpoint) {
  const LaunchReport report =
      launch(open_to_others("trap 'echo saved $RANK; exit 75' TERM; echo of $WORLD_SIZE; "
                            "if [ $WORLD_SIZE = 1 ] && [ $FALAJ_ATTEMPT != 0 ]; then exit 0; fi; "
                            "while :; do sleep 0.05; done",
                            1, 1, 2),
             [&](Launch& run) {
               Second second(join(run, "second", 1));
               expect_printed("[1] of 2\n");
               expect_printed("[0] of 2\n");
               second.notice();
               EXPECT_EQ(second.end(), 0);
             });
  expect_went_on(report);
  EXPECT_TRUE(has("[0] saved 0\n")) << output();
  EXPECT_TRUE(has("[1] saved 1\n"));
}

TEST_F(AgentTest, workers_of_different_nodes_meet_at_the_rendezvous) {
  const std::string ask =
      "exec 5<>/dev/tcp/127.0.0.1/$HOROVOD_GLOO_RENDEZVOUS_PORT; "
      "printf '%s /global/addr HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n"
      "Content-Length: %d\\r\\n\\r\\n%s' $1 ${#2} $2 >&5; cat <&5; exec 5<&-; ";
  const LaunchReport report = launch(
      open_to_others("ask() { " + ask +
                         " }; "
                         "if [ $RANK = 0 ]; then ask PUT here >/dev/null; "
                         "else until ask GET | grep -q here; do sleep 0.02; done; echo met; fi",
                     1, 2, 2),
      [&](Launch& run) { EXPECT_EQ(Second(join(run, "second", 1)).end(), 0); });
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_TRUE(has("[1] met\n")) << output();
}

TEST_F(AgentTest, a_program_that_the_node_does_not_have_fails_there) {
  LaunchOptions options = open_to_others("sleep 100", 1, 2, 2);
  options.node.argv = {folder_ + "/only-here"};
  std::filesystem::copy_file("/bin/sleep", folder_ + "/only-here");
  options.node.argv.push_back("100");
  const LaunchReport report = launch(std::move(options), [&](Launch& run) {
    AgentOptions agent_options;
    agent_options.coordinator = {"127.0.0.1", run.port()};
    agent_options.channel = channel();
    agent_options.name = "second";
    agent_options.node = bash("");
    agent_options.node.argv = {"no-such-program-here"};
    agent_options.tell = [](std::string_view) {};
    EXPECT_EQ(Second(Agent::join(std::move(agent_options))).end(), 127);
  });
  EXPECT_EQ(report.code, 127);
  EXPECT_EQ(report.attempts.back().failed_on, "second");
  EXPECT_NE(report.attempts.back().first_failure->last_lines.back().find("no-such-program-here"),
            std::string::npos);
}

TEST_F(AgentTest, a_second_node_of_one_name_is_refused_and_told_why) {
  const LaunchReport report =
      launch(open_to_others("echo here; until [ -e $FOLDER/over ]; do sleep 0.02; done", 1, 2, 2),
             [&](Launch& run) {
               Second second(join(run, "second", 1));
               expect_printed("[1] here\n");
               for (const std::string taken : {"first", "second"}) {
                 std::string told;
                 const auto tell = [&](std::string_view line) { told += line; };
                 EXPECT_EQ(Second(join(run, taken, 1, channel(), tell)).end(), 1);
                 EXPECT_NE(told.find("'" + taken + "'"), std::string::npos) << told;
                 EXPECT_NE(told.find("--node"), std::string::npos) << told;
               }
               touch("over");
               EXPECT_EQ(second.end(), 0);
             });
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_EQ(report.attempts.size(), 1u) << "nobody was disturbed";
  EXPECT_EQ(told_, "waiting for 1 more worker(s)\n");
}

TEST_F(AgentTest, says_once_what_it_waits_for_though_nobody_is_there) {
  const LaunchReport report = launch(open_to_others("true", 0, 2, 2), [&](Launch& run) {
    Second one(join(run, "one", 1));
    Second two(join(run, "two", 1));
    EXPECT_EQ(one.end(), 0);
    EXPECT_EQ(two.end(), 0);
  });
  EXPECT_EQ(report.code, 0) << told_;
  EXPECT_NE(told_.find("more worker(s)\n"), std::string::npos) << told_;
  EXPECT_EQ(told_.find("waiting for"), told_.rfind("waiting for")) << told_;
}

TEST_F(AgentTest, who_does_not_know_the_secret_does_not_join) {
  const LaunchReport report = launch(open_to_others("exec sleep 100", 1, 2, 2), [&](Launch& run) {
    ChannelOptions wrong = channel();
    wrong.secret = "something else that is long enough";
    auto agent = join(run, "second", 1, wrong);
    EXPECT_FALSE(agent.ok());
    run.launcher().notice();
  });
  EXPECT_EQ(report.code, 75);
  EXPECT_TRUE(report.attempts.empty());
}

TEST_F(AgentTest, nodes_with_certificates_of_one_authority_form_a_gang) {
  const NodeCertificates made(folder_);
  LaunchOptions options = open_to_others("echo rank $RANK of $WORLD_SIZE", 1, 2, 2);
  CertificateFiles own = made.node("first");
  own.peers = {"spiffe://falaj.local/service/third", "spiffe://falaj.local/service/second"};
  options.listen->channel.certificates = std::make_shared<KeptCertificates>(own);
  Mutex mutex;
  std::string said;
  options.listen->tell = [&](std::string_view line) {
    MutexLock lock(mutex);
    said.append(line).append("\n");
  };
  const LaunchReport report = launch(std::move(options), [&](Launch& run) {
    EXPECT_FALSE(join(run, "second", 1).ok()) << "the secret alone does not let it in";
    const auto with = [&](const std::string& name, const std::string& peer) {
      CertificateFiles files = made.node(name);
      files.peers = {peer};
      ChannelOptions known = channel();
      known.certificates = std::make_shared<KeptCertificates>(files);
      return known;
    };
    const std::string first = "spiffe://falaj.local/service/first";
    auto elsewhere = join(run, "second", 1, with("second", "spiffe://falaj.local/service/other"));
    ASSERT_FALSE(elsewhere.ok()) << "it looks for another coordinator";
    EXPECT_EQ(elsewhere.error().id, ErrorId::kPeerRefused);
    EXPECT_NE(elsewhere.error().message.find(first), std::string::npos)
        << elsewhere.error().message;
    EXPECT_FALSE(join(run, "second", 1, with("fourth", first)).ok()) << "nobody named it";
    EXPECT_EQ(Second(join(run, "second", 1, with("second", first))).end(), 0);
  });
  EXPECT_EQ(report.code, 0) << told_;
  MutexLock lock(mutex);
  EXPECT_NE(said.find("accepted spiffe://falaj.local/service/second from 127.0.0.1"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("it is spiffe://falaj.local/service/fourth, which no --peer names"),
            std::string::npos)
      << said;
  EXPECT_TRUE(has("[1] rank 1 of 2\n")) << output();
}

}  // namespace
}  // namespace falaj::launch
