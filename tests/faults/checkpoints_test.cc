// A checkpoint that was acknowledged is readable after kill -9 and power loss, or a newer one is; a
// failing or full disk holds it up and loses nothing. FALAJ_CHECKPOINT_KILLS=200 is the long run.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "checkpoint_content.h"
#include "harness.h"
#include "jobs/checkpoint/archive.h"
#include "storage/testing/temp_folder.h"

namespace falaj::faults {
namespace {

namespace fs = std::filesystem;
namespace ckpt = jobs::checkpoint;
using storage::Durability;
using storage::TempFolder;
using Environment = std::vector<std::pair<std::string, std::string>>;

int kills() {
  const char* text = ::getenv("FALAJ_CHECKPOINT_KILLS");
  return text == nullptr ? 15 : ::atoi(text);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every byte against what the worker must have saved, not against what the manifest says.
Status check_content(const ckpt::Restored& restored) {
  for (const auto& [path, bytes] : save_content(restored.manifest.name)) {
    if (read_file(restored.path + "/" + path) == bytes) continue;
    return Error{Code::kDataLoss, restored.manifest.name + "/" + path + " is not what was saved"};
  }
  return {};
}

struct Save {
  int round = -1;
  int index = -1;
  auto operator<=>(const Save&) const = default;
};

Save save_of(const std::string& name) {
  Save save;
  EXPECT_EQ(std::sscanf(name.c_str(), "s-%d-%d", &save.round, &save.index), 2) << name;
  return save;
}

// Ok if the newest whole checkpoint is the acknowledged one or newer, to the byte, and nothing that
// has a manifest is damaged.
Status check_latest(const std::string& folder, Save acknowledged) {
  const std::vector<ckpt::Listed> listed = FALAJ_TRY(ckpt::list_checkpoints(folder));
  for (const ckpt::Listed& each : listed) {
    if (!each.manifest.ok()) return each.manifest.error().within(each.folder);
    FALAJ_TRY(ckpt::verify_checkpoint(folder, *each.manifest));
  }
  if (listed.empty() && acknowledged.index < 0) return {};
  const ckpt::Restored restored = FALAJ_TRY(ckpt::restore(folder));
  if (save_of(restored.manifest.name) < acknowledged) {
    return Error{Code::kDataLoss, "the latest is " + restored.manifest.name};
  }
  return check_content(restored);
}

class Checkpoints : public testing::Test {
 protected:
  Environment memory_env(const std::string& name) const {
    return {{"FALAJ_MEMORY", folder_ / name}};
  }
  Environment shim(const std::string& disk, const std::string& memory) const {
    Environment env = memory_env(memory);
    env.emplace_back("LD_PRELOAD", FALAJ_FAULT_SHIM);
    env.emplace_back("FALAJ_DISK", disk);
    return env;
  }
  std::string disk() const {
    fs::create_directories(folder_ / "disk");
    return folder_ / "disk";
  }
  static Save acknowledged(const WriterProcess& writer, int round) {
    const auto& lanes = writer.heard().acknowledged;
    return lanes.empty() ? Save{} : Save{round, lanes.at(0)};
  }

  TempFolder folder_;
};

// Half of the kills come after some acknowledgements, at whatever point the writer is then; the
// other half at a sync of its work, of which each checkpoint has nine. What waited in memory is
// found by the next life.
TEST_F(Checkpoints, kill_nine_leaves_the_latest_readable) {
  std::mt19937 random(51);
  Save newest;
  int saves = 0;
  for (int round = 0; round < kills(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Environment env = round % 2 == 0 ? memory_env("memory") : shim(disk(), "memory");
    if (round % 2 == 1) env.emplace_back("FALAJ_KILL_AT", std::to_string(1 + random() % 40));
    WriterProcess writer({Port::kBlob, disk(), round, Durability::kSync, env});
    if (round % 2 == 0) {
      writer.listen_for_acks(static_cast<int>(random() % 6));
      writer.kill();
    } else {
      ASSERT_EQ(writer.wait_for_end(), SIGKILL) << writer.heard().refused;
    }
    newest = std::max(newest, acknowledged(writer, round));
    saves += writer.heard().acks;
    const Status checked = check_latest(disk(), newest);
    ASSERT_TRUE(checked.ok()) << checked.error().message;
  }
  std::printf("%d kills, %d checkpoints acknowledged\n", kills(), saves);
  EXPECT_GE(newest.index, 0);
}

TEST_F(Checkpoints, power_loss_at_each_sync_leaves_the_latest_readable) {
  for (int at = 1; at <= 30; ++at) {
    SCOPED_TRACE("power lost at sync " + std::to_string(at));
    const std::string name = std::to_string(at);
    const std::string disk = folder_ / "disk" + name;
    fs::create_directories(disk);
    fs::create_directories(folder_ / "shadow" + name);
    Environment env = shim(disk, "memory" + name);
    env.emplace_back("FALAJ_SHADOW", folder_ / "shadow" + name);
    env.emplace_back("FALAJ_KILL_AT", name);
    WriterProcess writer({Port::kBlob, disk, 0, Durability::kSync, env});
    ASSERT_EQ(writer.wait_for_end(), SIGKILL) << writer.heard().refused;
    for (const PowerCut how : {PowerCut::kStrict, PowerCut::kMixed}) {
      const std::string after = folder_ / (how == PowerCut::kStrict ? "strict" : "mixed") + name;
      cut_power(disk, folder_ / "shadow" + name, after, how, static_cast<std::uint64_t>(at));
      const Status checked = check_latest(after, acknowledged(writer, 0));
      ASSERT_TRUE(checked.ok()) << checked.error().message;
    }
  }
}

// The negative control: the same cut over a keeper that skips fsync must show a loss.
TEST_F(Checkpoints, without_fsync_the_same_power_loss_is_noticed) {
  fs::create_directories(folder_ / "shadow");
  Environment env = shim(disk(), "memory");
  env.emplace_back("FALAJ_SHADOW", folder_ / "shadow");
  WriterProcess writer({Port::kBlob, disk(), 0, Durability::kNoSync, env});
  writer.listen_for_acks(3);
  writer.kill();
  cut_power(disk(), folder_ / "shadow", folder_ / "after", PowerCut::kStrict, 1);
  EXPECT_FALSE(check_latest(folder_ / "after", acknowledged(writer, 0)).ok());
}

// A failed fsync is never trusted twice: the copy is thrown away and made anew from memory.
TEST_F(Checkpoints, a_disk_that_fails_for_a_while_is_tried_again_until_it_works) {
  Environment env = shim(disk(), "memory");
  env.emplace_back("FALAJ_FAIL_AT", "12");
  env.emplace_back("FALAJ_FAIL_FOR", "25");
  WriterProcess writer({Port::kBlob, disk(), 0, Durability::kSync, env});
  writer.listen_for_errors(5);
  const int before = writer.heard().acks;
  writer.listen_for_acks(before + 3);
  EXPECT_GE(writer.heard().acks, before + 3) << "it did not go on";
  writer.kill();
  ASSERT_GE(writer.heard().errors.size(), 5U);
  for (const std::string& error : writer.heard().errors) EXPECT_EQ(error, "FJ-0012");
  const Status checked = check_latest(disk(), acknowledged(writer, 0));
  EXPECT_TRUE(checked.ok()) << checked.error().message;
}

TEST_F(Checkpoints, a_full_disk_is_said_and_tried_again_until_there_is_room) {
  const std::string full = folder_ / "full";
  Environment env = shim(disk(), "memory");
  env.emplace_back("FALAJ_FULL", full);
  WriterProcess writer({Port::kBlob, disk(), 0, Durability::kSync, env});
  writer.listen_for_acks(2);
  ASSERT_EQ(::symlink(".", full.c_str()), 0);
  writer.listen_for_errors(5);
  ASSERT_EQ(::unlink(full.c_str()), 0);
  const int before = writer.heard().acks;
  writer.listen_for_acks(before + 3);
  EXPECT_GE(writer.heard().acks, before + 3) << "it did not go on";
  writer.kill();
  for (const std::string& error : writer.heard().errors) EXPECT_EQ(error, "FJ-8003");
  const Status checked = check_latest(disk(), acknowledged(writer, 0));
  EXPECT_TRUE(checked.ok()) << checked.error().message;
}

}  // namespace
}  // namespace falaj::faults
