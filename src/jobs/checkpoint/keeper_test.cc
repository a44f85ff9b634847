#include "jobs/checkpoint/keeper.h"

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "jobs/checkpoint/archive.h"
#include "jobs/checkpoint/memory_folder.h"
#include "jobs/checkpoint/testing/worker.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;
using storage::TempFolder;

constexpr Duration kLong = Duration::seconds(30);

class KeeperTest : public testing::Test {
 protected:
  KeeperOptions options() {
    KeeperOptions options;
    options.archive = folder_ / "archive";
    options.memory_folder = folder_ / "memory";
    options.durability = storage::Durability::kNoSync;
    options.retry_first = Duration::milliseconds(1);
    options.on_event = [this](const Event& event) {
      MutexLock lock(mutex_);
      events_.push_back(event);
      heard_.notify_all();
    };
    return options;
  }
  std::unique_ptr<Keeper> start(KeeperOptions options) {
    auto keeper = Keeper::start(std::move(options), clock_);
    EXPECT_TRUE(keeper.ok()) << keeper.error().message;
    return std::move(keeper).value();
  }
  // The first event of the kind, waited for.
  Event wait_for(EventKind kind) {
    MutexLock lock(mutex_);
    Event found;
    const bool came = heard_.wait_for(mutex_, std::chrono::nanoseconds(kLong.nanos), [&] {
      for (const Event& event : events_) {
        if (event.kind == kind) found = event;
      }
      return found.name != "";
    });
    EXPECT_TRUE(came) << to_string(kind);
    return found;
  }
  std::vector<std::string> archived() const {
    std::vector<std::string> names;
    const std::vector<Listed> listed = list_checkpoints(folder_ / "archive").value();
    for (const Listed& each : listed) names.push_back(each.folder);
    return names;
  }
  std::string saves() const { return folder_ / "memory/saves"; }

  TempFolder folder_;
  FakeClock clock_;
  Mutex mutex_;
  CondVar heard_;
  std::vector<Event> events_;
};

TEST_F(KeeperTest, persists_what_is_complete_and_nothing_else) {
  auto keeper = start(options());
  EXPECT_EQ(keeper->saves_path(), saves());
  begin_save(saves(), "half", {{"a", "never completed"}});
  save(saves(), "one", {{"w/a", "weights"}});
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  save_file(saves(), "two.bin", "a file");
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000001-one", "00000002-two.bin"}));
  const Restored newest = restore(folder_ / "archive").value();
  EXPECT_EQ(bytes_of(newest.path), "a file");
  EXPECT_EQ(newest.manifest.saved_at, clock_.now());
  const KeeperStatus status = keeper->status();
  EXPECT_EQ(status.persisted, 2);
  EXPECT_EQ(status.waiting, 0);
  EXPECT_EQ(status.newest->name, "two.bin");
  EXPECT_FALSE(fs::exists(saves() + "/one"));
  keeper->drop_incomplete();
  EXPECT_FALSE(fs::exists(saves() + "/half.tmp"));
}

TEST_F(KeeperTest, the_same_name_may_be_used_again) {
  auto keeper = start(options());
  for (int i = 0; i < 3; ++i) {
    save(saves(), "latest", {{"a", std::to_string(i)}});
    ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  }
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000002-latest", "00000003-latest"}));
  EXPECT_EQ(bytes_of(restore(folder_ / "archive")->path + "/a"), "2");
}

TEST_F(KeeperTest, what_workers_go_on_from_is_the_newest_and_stays_until_they_ask_again) {
  KeeperOptions wanted = options();
  wanted.keep = {.last = 1, .best = 0};
  auto keeper = start(wanted);
  const auto first = keeper->restore(kLong);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(first->has_value());
  save(saves(), "one", {{"a", "1"}});
  const auto one = keeper->restore(kLong);  // Waits for it to be persisted.
  ASSERT_TRUE(one.ok() && one->has_value());
  EXPECT_EQ(bytes_of((*one)->path + "/a"), "1");
  for (const char* name : {"two", "three"}) {
    save(saves(), name, {{"a", name}});
    ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  }
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000001-one", "00000003-three"}));
  const auto three = keeper->restore(kLong);
  ASSERT_TRUE(three.ok() && three->has_value());
  EXPECT_EQ((*three)->manifest.name, "three");
  save(saves(), "four", {{"a", "4"}});
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000003-three", "00000004-four"}));
}

TEST_F(KeeperTest, keeps_the_last_and_the_best) {
  KeeperOptions wanted = options();
  wanted.keep = {.last = 1, .best = 1, .better = Better::kLower};
  auto keeper = start(wanted);
  const double losses[] = {0.9, 0.2, 0.5, 0.4};
  for (int i = 0; i < 4; ++i) {
    const std::string name = "epoch" + std::to_string(i);
    put(saves() + "/" + name + ".metric.json", "{\"metric\": " + std::to_string(losses[i]) + "}");
    save(saves(), name, {{"a", name}});
    ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  }
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000002-epoch1", "00000004-epoch3"}));
  EXPECT_FALSE(fs::exists(folder_ / "archive/00000003-epoch2"));
  EXPECT_TRUE(fs::is_empty(saves()));
}

TEST_F(KeeperTest, a_bad_metric_does_not_lose_the_checkpoint) {
  auto keeper = start(options());
  put(saves() + "/one.metric.json", "{\"metric\": \"high\"}");
  save(saves(), "one", {{"a", "1"}});
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(archived().size(), 1U);
  EXPECT_NE(wait_for(EventKind::kWarned).message.find("no number called metric"),
            std::string::npos);
}

TEST_F(KeeperTest, refuses_for_good_what_it_may_not_keep) {
  KeeperOptions wanted = options();
  wanted.memory_bytes_max = 100;
  auto keeper = start(wanted);
  save_file(saves(), "large", std::string(101, 'x'));
  EXPECT_NE(wait_for(EventKind::kRefused).message.find("100 bytes"), std::string::npos);
  begin_save(saves(), "link", {});
  fs::create_symlink("/etc/passwd", saves() + "/link.tmp/p");
  fs::rename(saves() + "/link.tmp", saves() + "/link");
  save_file(saves(), "good", "fits");
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(keeper->status().refused, 2);
  ASSERT_EQ(archived().size(), 1U);
  EXPECT_TRUE(archived()[0].ends_with("-good"));
  EXPECT_TRUE(fs::is_empty(saves()));
  EXPECT_TRUE(fs::is_empty(folder_ / "memory/taken"));
}

TEST_F(KeeperTest, finds_what_a_killed_one_left_in_memory) {
  // Taken and not persisted, its metric too; complete and not taken; a metric without its save.
  save(folder_ / "memory/taken", "00000004-four", {{"a", "4"}});
  put(folder_ / "memory/taken/00000004-four.metric.json", "{\"metric\": 4}");
  put(folder_ / "memory/taken/00000005-five.metric.json", "{\"metric\": 5}");
  save(saves(), "five", {{"a", "5"}});
  for (const char* each : {"memory", "memory/saves", "memory/taken"}) {
    fs::permissions(folder_ / each, fs::perms::owner_all);
  }
  auto keeper = start(options());
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  keeper.reset();
  const std::vector<Listed> listed = list_checkpoints(folder_ / "archive").value();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].folder, "00000004-four");
  EXPECT_EQ(listed[0].manifest->metric, 4);
  EXPECT_EQ(listed[1].folder, "00000005-five");
  EXPECT_EQ(listed[1].manifest->metric, 5);
  EXPECT_FALSE(fs::exists(folder_ / "memory"));
}

TEST_F(KeeperTest, what_was_persisted_before_the_kill_is_not_written_twice) {
  start(options()).reset();
  auto keeper = start(options());
  save(saves(), "one", {{"a", "1"}});
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  keeper.reset();
  save(folder_ / "memory/taken", "00000001-one", {{"a", "1"}});
  fs::permissions(folder_ / "memory", fs::perms::owner_all);
  fs::permissions(folder_ / "memory/taken", fs::perms::owner_all);
  keeper = start(options());
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(keeper->status().persisted, 0);
  EXPECT_EQ(archived().size(), 1U);
}

// While the keeper is held up in the middle of a write, saves pile up: all but the newest two are
// given up unwritten, and the newest is written first.
TEST_F(KeeperTest, saves_that_are_outdone_before_their_turn_are_not_written) {
  KeeperOptions wanted = options();
  Mutex gate;
  bool open = false;
  CondVar opened;
  const auto record = wanted.on_event;
  wanted.on_event = [&](const Event& event) {
    record(event);
    MutexLock lock(gate);
    if (event.kind == EventKind::kPersisted && event.name == "first") {
      opened.wait(gate, [&] { return open; });
    }
  };
  auto keeper = start(wanted);
  save(saves(), "first", {{"a", "0"}});
  wait_for(EventKind::kPersisted);
  for (int i = 1; i <= 6; ++i) save(saves(), "s" + std::to_string(i), {{"a", std::to_string(i)}});
  {
    MutexLock lock(gate);
    open = true;
    opened.notify_all();
  }
  ASSERT_TRUE(keeper->flush(Flush::kNewest, kLong).ok());
  EXPECT_EQ(bytes_of(restore(folder_ / "archive")->path + "/a"), "6");
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  EXPECT_EQ(archived(), (std::vector<std::string>{"00000006-s5", "00000007-s6"}));
  MutexLock lock(mutex_);
  int superseded = 0;
  for (const Event& event : events_) superseded += event.kind == EventKind::kSuperseded ? 1 : 0;
  EXPECT_EQ(superseded, 4);
}

// Two newer saves come while the first is written. They are in memory only: the first stays.
TEST_F(KeeperTest, what_is_on_disk_is_not_deleted_for_what_is_only_in_memory) {
  KeeperOptions wanted = options();
  const auto record = wanted.on_event;
  std::vector<std::size_t> on_disk;
  wanted.on_event = [&](const Event& event) {
    record(event);
    if (event.kind == EventKind::kWarned) {  // The first was taken and is about to be written.
      save(saves(), "two", {{"a", "2"}});
      save(saves(), "three", {{"a", "3"}});
    }
    if (event.kind == EventKind::kPersisted) on_disk.push_back(archived().size());
  };
  auto keeper = start(wanted);
  put(saves() + "/one.metric.json", "no metric");
  save(saves(), "one", {{"a", "1"}});
  wait_for(EventKind::kWarned);
  ASSERT_TRUE(keeper->flush(Flush::kAll, kLong).ok());
  keeper.reset();
  EXPECT_EQ(on_disk, (std::vector<std::size_t>{1, 2, 2}));
}

TEST_F(KeeperTest, an_archive_has_one_keeper_and_the_second_harms_nothing) {
  auto keeper = start(options());
  begin_save(saves(), "half", {{"a", "1"}});
  const auto second = Keeper::start(options(), clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked);
  EXPECT_TRUE(fs::exists(saves() + "/half.tmp/a"));
}

TEST_F(KeeperTest, refuses_a_memory_folder_that_others_may_write) {
  fs::create_directory(folder_ / "memory");
  fs::permissions(folder_ / "memory", fs::perms::all);
  const auto keeper = Keeper::start(options(), clock_);
  ASSERT_FALSE(keeper.ok());
  EXPECT_EQ(keeper.error().code, Code::kFailedPrecondition);
}

TEST_F(KeeperTest, the_default_folder_is_in_memory_and_the_archive_s_own) {
  const auto root = MemoryFolder::root_for(folder_ / "archive");
  if (!root.ok()) GTEST_SKIP() << root.error().message;
  EXPECT_TRUE(root->starts_with("/dev/shm/falaj-checkpoints-"));
  EXPECT_EQ(*root, MemoryFolder::root_for((folder_ / "x/../archive")).value());
  EXPECT_NE(*root, MemoryFolder::root_for(folder_ / "other").value());
}

}  // namespace
}  // namespace falaj::jobs::checkpoint
