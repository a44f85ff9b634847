// An acknowledged write survives kill -9 and power loss. The same test without fsync must fail:
// otherwise it could not see a loss.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <random>

#include "harness.h"
#include "storage/testing/temp_folder.h"

namespace falaj::faults {
namespace {

using storage::Durability;
using storage::TempFolder;

int rounds() {
  const char* text = ::getenv("FALAJ_FAULT_ROUNDS");
  return text == nullptr ? 8 : ::atoi(text);
}

class Crash : public testing::TestWithParam<Port> {
 protected:
  // One life on `disk` under the shim, ended after `acks`; what the power cut leaves is in `after`.
  Heard live_and_cut(int round, int acks, Durability durability, PowerCut how) {
    const std::string disk = disk_of(round);
    std::filesystem::create_directories(disk);
    std::filesystem::create_directories(shadow_of(round));
    WriterProcess writer({GetParam(), disk, round, durability, shim_env(disk, shadow_of(round))});
    writer.listen_for_acks(acks);
    writer.kill();
    EXPECT_GE(writer.heard().acks, acks) << writer.heard().refused;
    cut_power(disk, shadow_of(round), disk_of(round + 1), how,
              static_cast<std::uint64_t>(round) + 1'000);
    return writer.heard();
  }
  std::string disk_of(int round) const { return folder_ / "disk" + std::to_string(round); }
  std::string shadow_of(int round) const { return folder_ / "shadow" + std::to_string(round); }

  void survive_power_cuts(PowerCut how) {
    std::mt19937 random(99);
    std::map<int, Heard> lives;
    for (int round = 0; round < rounds(); ++round) {
      SCOPED_TRACE("round " + std::to_string(round));
      lives[round] =
          live_and_cut(round, 1 + static_cast<int>(random() % 120), Durability::kSync, how);
      const Status checked = check_acknowledged(GetParam(), disk_of(round + 1), lives);
      ASSERT_TRUE(checked.ok()) << checked.error().message;
      std::filesystem::remove_all(disk_of(round));
      std::filesystem::remove_all(shadow_of(round));
    }
  }

  TempFolder folder_;
};

TEST_P(Crash, kill_nine_loses_nothing_acknowledged) {
  std::mt19937 random(7);
  std::map<int, Heard> lives;
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    WriterProcess writer({GetParam(), folder_.path(), round, Durability::kSync, {}});
    writer.listen_for_acks(1 + static_cast<int>(random() % 150));
    writer.kill();
    ASSERT_GT(writer.heard().acks, 0) << writer.heard().refused;
    lives[round] = writer.heard();
    const Status checked = check_acknowledged(GetParam(), folder_.path(), lives);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
  }
}

TEST_P(Crash, power_loss_loses_nothing_acknowledged) { survive_power_cuts(PowerCut::kStrict); }

TEST_P(Crash, power_loss_that_keeps_odd_parts_loses_nothing_acknowledged) {
  survive_power_cuts(PowerCut::kMixed);
}

// Every boundary once, from the first sync of an empty folder on.
TEST_P(Crash, power_loss_at_each_sync_loses_nothing_acknowledged) {
  for (int at = 1; at <= 30; ++at) {
    SCOPED_TRACE("killed at sync " + std::to_string(at));
    const TempFolder folder;
    const std::string disk = folder / "disk";
    const std::string shadow = folder / "shadow";
    std::filesystem::create_directories(disk);
    std::filesystem::create_directories(shadow);
    auto env = shim_env(disk, shadow);
    env.emplace_back("FALAJ_KILL_AT", std::to_string(at));
    WriterProcess writer({GetParam(), disk, 0, Durability::kSync, env});
    ASSERT_EQ(writer.wait_for_end(), SIGKILL);
    for (const PowerCut how : {PowerCut::kStrict, PowerCut::kMixed}) {
      const std::string after = folder / (how == PowerCut::kStrict ? "strict" : "mixed");
      cut_power(disk, shadow, after, how, static_cast<std::uint64_t>(at));
      const Status checked = check_acknowledged(GetParam(), after, {{0, writer.heard()}});
      ASSERT_TRUE(checked.ok()) << checked.error().message;
    }
  }
}

// The negative control: the very same cut over stores that skip fsync must show a loss.
TEST_P(Crash, without_fsync_the_same_power_loss_is_noticed) {
  const Heard heard = live_and_cut(0, 40, Durability::kNoSync, PowerCut::kStrict);
  const Status checked = check_acknowledged(GetParam(), disk_of(1), {{0, heard}});
  ASSERT_FALSE(checked.ok()) << "nothing was lost: this harness could not see a loss";
  EXPECT_EQ(checked.error().code, Code::kDataLoss) << checked.error().message;
}

// A failed fsync is never retried and never acknowledged: the process ends.
TEST_P(Crash, a_failed_fsync_stops_the_process) {
  const std::string disk = folder_ / "disk";
  std::filesystem::create_directories(disk);
  WriterProcess writer(
      {GetParam(),
       disk,
       0,
       Durability::kSync,
       {{"LD_PRELOAD", FALAJ_FAULT_SHIM}, {"FALAJ_DISK", disk}, {"FALAJ_FAIL_AT", "60"}}});
  EXPECT_EQ(writer.wait_for_end(), SIGABRT);
  EXPECT_GT(writer.heard().acks, 0);
  EXPECT_TRUE(writer.heard().errors.empty());
  const Status checked = check_acknowledged(GetParam(), disk, {{0, writer.heard()}});
  EXPECT_TRUE(checked.ok()) << checked.error().message;
}

TEST_P(Crash, a_full_disk_refuses_and_goes_on_when_there_is_room) {
  const std::string disk = folder_ / "disk";
  const std::string full = folder_ / "full";
  std::filesystem::create_directories(disk);
  WriterProcess writer(
      {GetParam(),
       disk,
       0,
       Durability::kSync,
       {{"LD_PRELOAD", FALAJ_FAULT_SHIM}, {"FALAJ_DISK", disk}, {"FALAJ_FULL", full}}});
  writer.listen_for_acks(30);
  ASSERT_EQ(::symlink(".", full.c_str()), 0);
  writer.listen_for_errors(5);
  ASSERT_EQ(::unlink(full.c_str()), 0);
  const int before = writer.heard().acks;
  writer.listen_for_acks(before + 30);
  EXPECT_GE(writer.heard().acks, before + 30) << "it did not go on";
  writer.kill();
  ASSERT_GE(writer.heard().errors.size(), 5u);
  for (const std::string& error : writer.heard().errors) ASSERT_EQ(error, "FJ-8003");
  const Status checked = check_acknowledged(GetParam(), disk, {{0, writer.heard()}});
  EXPECT_TRUE(checked.ok()) << checked.error().message;
}

TEST_P(Crash, a_folder_in_use_by_another_process_is_refused) {
  WriterProcess writer({GetParam(), folder_.path(), 0, Durability::kSync, {}});
  writer.listen_for_acks(1);
  const auto second = Target::open(GetParam(), folder_.path(), Durability::kSync);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked) << second.error().message;
}

INSTANTIATE_TEST_SUITE_P(Storage, Crash,
                         testing::Values(Port::kSql, Port::kKv, Port::kBlob, Port::kSealedSql,
                                         Port::kSealedKv, Port::kSealedBlob),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace falaj::faults
