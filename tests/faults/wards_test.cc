// Wards, their warden and whoever starts them, each killed at random points: none is lost without
// being said to be, none runs twice. FALAJ_FAULT_ROUNDS makes it long; seed 20261116.
#include "exec/wards.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

#include "exec/testing/processes.h"
#include "exec/warden.h"

namespace falaj::exec {
namespace {

using testing::own_program;
using testing::text_of;

constexpr int kWardsOfARound = 12;

// Leaves one line each time it runs, behind a wait that gives a killer time to come.
WardSpec spec_of(const std::string& folder, const std::string& id) {
  WardSpec spec;
  spec.argv = {"/bin/sh", "-c", "echo $$ >> ran-" + id + "; exit 5"};
  spec.env = {{"PATH", "/usr/bin:/bin"}};
  spec.work_dir = folder;
  spec.log_path = folder + "/log";
  return spec;
}

WardsOptions options_of(const std::string& folder, testing::Bell* bell) {
  WardsOptions options;
  options.folder = folder + "/warden";
  options.warden = {own_program(), "warden"};
  options.patience = Duration::seconds(60);
  options.changed = [bell](std::string_view) {
    if (bell != nullptr) bell->ring();
  };
  return options;
}

std::string id_of(int round, int i) { return std::to_string(round) + "-" + std::to_string(i); }

// The client that is killed: starts the wards of a round, says so, and never ends by itself.
int run_client(const std::string& folder, int round) {
  auto wards = Wards::open(options_of(folder, nullptr));
  if (!wards.ok()) return 1;
  for (int i = 0; i < kWardsOfARound; ++i) {
    const std::string id = id_of(round, i);
    while (!(*wards)->start(id, spec_of(folder, id)).ok()) {
    }
    if (::write(STDOUT_FILENO, "s", 1) != 1) return 1;
  }
  ::pause();
  return 0;
}

class Client {
 public:
  Client(const std::string& folder, int round) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const std::string number = std::to_string(round);
    const std::string program = own_program();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), "client", folder.c_str(), number.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    said_ = ends[0];
  }
  ~Client() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(said_);
  }
  // Waits until it has said that so many began.
  void wait_for(int count) const {
    char one = 0;
    for (int i = 0; i < count; ++i) ASSERT_EQ(::read(said_, &one, 1), 1);
  }

 private:
  pid_t pid_ = -1;
  int said_ = -1;
};

// The warden's number, from its lock; 0 if there is none.
pid_t warden_of(const std::string& folder) {
  const std::string pid = text_of(folder + "/warden/lock");
  // It may have ended, and the number may be another's now.
  const std::string words = text_of("/proc/" + pid + "/cmdline");
  return words.find(folder) == std::string::npos ? 0 : std::atoi(pid.c_str());
}

class WardFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "falaj_ward_faults_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }
  int lines_of(const std::string& id) const {
    const std::string text = text_of(folder_ + "/ran-" + id);
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  void check(const Ward& ward) {
    ASSERT_TRUE(ward.end.has_value());
    const int ran = lines_of(ward.id);
    EXPECT_LE(ran, 1) << ward.id << " ran twice";
    if (ward.end->reason == WardEndReason::kLost) {
      ++lost_;
    } else {
      EXPECT_EQ(ward.end->reason, WardEndReason::kExited) << ward.id << " " << ward.end->detail;
      EXPECT_EQ(ward.end->code, 5);
      EXPECT_EQ(ran, 1) << ward.id;
      ++ended_;
    }
  }

  std::string folder_;
  int lost_ = 0;
  int ended_ = 0;
};

TEST_F(WardFaults, none_is_lost_in_silence_and_none_runs_twice) {
  const char* asked = std::getenv("FALAJ_FAULT_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 12;
  std::mt19937 random(20261116);
  testing::Bell bell;
  for (int round = 0; round < rounds; ++round) {
    const int begun = static_cast<int>(random() % (kWardsOfARound + 1));
    const auto victim = random() % 3;  // The client, the warden, or both.
    {
      const Client client(folder_, round);
      client.wait_for(begun);
      if (HasFatalFailure()) return;
      const pid_t warden = victim > 0 ? warden_of(folder_) : 0;
      if (warden > 0) ::kill(warden, SIGKILL);
      // The first survives its warden and must get through all the same.
      if (victim == 1) client.wait_for(kWardsOfARound - begun);
      if (HasFatalFailure()) return;
    }
    auto wards = Wards::open(options_of(folder_, &bell));
    ASSERT_TRUE(wards.ok());
    ASSERT_TRUE(bell.wait_until([&] {
      const auto list = (*wards)->list();
      return list.ok() && std::all_of(list->begin(), list->end(),
                                      [](const Ward& ward) { return ward.end.has_value(); });
    }));
    const auto list = (*wards)->list();
    ASSERT_TRUE(list.ok());
    EXPECT_GE(static_cast<int>(list->size()), begun) << "what was accepted is known";
    for (const Ward& ward : *list) {
      check(ward);
      EXPECT_TRUE((*wards)->start(ward.id, spec_of(folder_, ward.id)).ok());
      EXPECT_TRUE((*wards)->forget(ward.id).ok());
      EXPECT_LE(lines_of(ward.id), 1) << ward.id << " was started again";
    }
  }
  std::printf("rounds %d: %d ended, %d lost\n", rounds, ended_, lost_);
  EXPECT_GT(ended_, 0);
}

}  // namespace
}  // namespace falaj::exec

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "warden") {
    return falaj::exec::run_warden({argv[2], falaj::Duration::seconds(20)});
  }
  if (argc == 4 && std::string_view(argv[1]) == "client") {
    return falaj::exec::run_client(argv[2], std::atoi(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
