#include "jobs/checkpoint/sealing.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "crypto/random.h"
#include "jobs/checkpoint/archive.h"
#include "jobs/checkpoint/keeper.h"
#include "jobs/checkpoint/memory_folder.h"
#include "storage/small_file.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;

const std::string kCanary = "cnry-in-a-checkpoint";

ArchiveKey key_of(char fill) {
  return std::make_shared<const crypto::SecretBytes>(std::string_view(std::string(32, fill)));
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Sealing : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "from/state/deep");
    std::ofstream(folder_ / "from/state/deep/weights") << kCanary << std::string(200'000, 'w');
    std::ofstream(folder_ / "from/state/empty");
    std::ofstream(folder_ / "from/one") << kCanary;
    source_ = Descriptor(::open((folder_ / "from").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  Result<std::unique_ptr<Archive>> open(const ArchiveKey& key) {
    Archive::Options options;
    options.durability = storage::Durability::kNoSync;
    options.key = key;
    return Archive::open(archive_, std::move(options));
  }
  Archive::Source source(std::int64_t number, const std::string& entry) {
    Archive::Source source{source_.get(), entry, {}, entry == "one" ? kCanary : ""};
    source.about.number = number;
    source.about.name = kCanary;
    return source;
  }
  std::vector<std::string> in_clear() {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(archive_)) {
      const std::string path = entry.path().string();
      const bool file = entry.is_regular_file();
      if (path.find(kCanary) != std::string::npos ||
          (file && read(path).find(kCanary) != std::string::npos)) {
        found.push_back(path);
      }
    }
    return found;
  }

  storage::TempFolder folder_;
  const std::string archive_ = folder_ / "archive";
  Descriptor source_;
};

TEST_F(Sealing, nothing_of_a_checkpoint_lies_in_clear_and_all_of_it_comes_back) {
  const ArchiveKey key = key_of('k');
  {
    auto archive = open(key).value();
    ASSERT_TRUE(archive->write(source(1, "state")).ok());
    ASSERT_TRUE(archive->write(source(2, "one")).ok());
  }
  EXPECT_EQ(in_clear(), std::vector<std::string>{});
  const Restored one = restore(archive_, key, folder_ / "opened").value();
  EXPECT_EQ(one.manifest.name, kCanary);
  EXPECT_EQ(read(one.path), kCanary);
  EXPECT_EQ(fs::path(one.path).filename(), kCanary);
  ASSERT_TRUE(open(key).value()->remove(2).ok());
  const Restored folder = restore(archive_, key, folder_ / "opened").value();
  EXPECT_EQ(folder.manifest.number, 1);
  EXPECT_EQ(read(folder.path + "/deep/weights").size(), 200'000 + kCanary.size());
  EXPECT_TRUE(fs::exists(folder.path + "/empty"));
  EXPECT_FALSE(restore(archive_, key_of('x'), folder_ / "opened").ok());
  EXPECT_EQ(restore(archive_).error().code, Code::kDataLoss);
}

TEST_F(Sealing, what_was_changed_moved_or_cut_is_passed_over) {
  const ArchiveKey key = key_of('k');
  {
    auto archive = open(key).value();
    ASSERT_TRUE(archive->write(source(1, "state")).ok());
    ASSERT_TRUE(archive->write(source(2, "state")).ok());
  }
  const fs::path first = fs::path(archive_) / "00000001-sealed" / sealed_name(*key, "deep/weights");
  const fs::path second =
      fs::path(archive_) / "00000002-sealed" / sealed_name(*key, "deep/weights");
  const std::string whole = read(second);
  fs::copy_file(first, second, fs::copy_options::overwrite_existing);
  EXPECT_EQ(restore(archive_, key, folder_ / "opened")->manifest.number, 1) << "moved";
  std::ofstream(second, std::ios::binary) << whole.substr(0, whole.size() - 1);
  EXPECT_EQ(restore(archive_, key, folder_ / "opened")->manifest.number, 1) << "cut";
  std::ofstream(second, std::ios::binary) << whole;
  EXPECT_EQ(restore(archive_, key, folder_ / "opened")->manifest.number, 2);
}

TEST_F(Sealing, an_archive_in_clear_is_read_on_and_a_sealed_one_takes_nothing_in_clear) {
  { ASSERT_TRUE(open(nullptr).value()->write(source(1, "state")).ok()); }
  const ArchiveKey key = key_of('k');
  EXPECT_EQ(restore(archive_, key, folder_ / "opened")->manifest.number, 1);
  const KeyName name{"p", "ae", "TrainJob/t", std::string(24, 'w')};
  ASSERT_TRUE(storage::write_small_file(key_name_path(archive_), encode_key_name(name)).ok());
  EXPECT_EQ(decode_key_name(read(key_name_path(archive_)))->wrapped, name.wrapped);
  EXPECT_FALSE(decode_key_name("{").ok());
  EXPECT_EQ(open(nullptr).error().code, Code::kFailedPrecondition);
  auto archive = open(key).value();
  ASSERT_TRUE(archive->write(source(2, "state")).ok());
  EXPECT_EQ(archive->manifests().size(), 2u);
  ASSERT_TRUE(archive->remove(1).ok());
  EXPECT_EQ(in_clear(), std::vector<std::string>{});
  EXPECT_EQ(list_checkpoints(archive_, key)->size(), 1u);
}

TEST_F(Sealing, a_keeper_takes_the_key_that_lies_in_memory_and_leaves_it_nowhere) {
  const std::string memory = folder_ / "memory";
  SystemClock clock;
  KeeperOptions options;
  options.archive = archive_;
  options.memory_folder = memory;
  options.durability = storage::Durability::kNoSync;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(MemoryFolder::open(memory).ok());
    ASSERT_TRUE(storage::write_small_file(key_path(memory), key_of('k')->view()).ok());
    const auto keeper = Keeper::start(options, clock).value();
    EXPECT_FALSE(fs::exists(key_path(memory)));
    const auto newest = keeper->restore(Duration::seconds(60)).value();
    ASSERT_EQ(newest.has_value(), round == 1);
    if (round == 1) {
      EXPECT_EQ(read(newest->path), kCanary);
    }
    std::ofstream(keeper->saves_path() + "/s.tmp") << kCanary;
    fs::rename(keeper->saves_path() + "/s.tmp", keeper->saves_path() + "/s");
    ASSERT_TRUE(keeper->flush(Flush::kAll, Duration::seconds(60)).ok());
  }
  EXPECT_EQ(in_clear(), std::vector<std::string>{});
  ASSERT_TRUE(MemoryFolder::open(memory).ok());
  ASSERT_TRUE(storage::write_small_file(key_path(memory), "short").ok());
  EXPECT_FALSE(Keeper::start(options, clock).ok());
}

}  // namespace
}  // namespace falaj::jobs::checkpoint
