#include "exec/internal/folder_meter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace falaj::exec::internal {
namespace {

using Found = FolderMeter::Found;
constexpr int kAll = 1'000'000;

class FolderMeterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "falaj_meter_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, std::size_t bytes) {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
  }
  std::string folder_;
};

TEST_F(FolderMeterTest, sums_up_what_lies_below) {
  write("a", 100'000);
  write("b/c/d", 200'000);
  FolderMeter meter({folder_}, 1'000'000);
  EXPECT_EQ(meter.look(kAll), Found::kWithin);
  EXPECT_GE(meter.bytes(), 300'000);
  EXPECT_LT(meter.bytes(), 400'000);
  write("b/c/e", 800'000);
  EXPECT_EQ(meter.look(kAll), Found::kTooMuch);
}

TEST_F(FolderMeterTest, several_folders_have_one_limit) {
  write("a/x", 300'000);
  write("b/y", 300'000);
  const std::vector<std::string> both{folder_ + "/a", folder_ + "/none", folder_ + "/b"};
  FolderMeter meter(both, 1'000'000);
  for (int round = 0; round < 2; ++round) {
    while (meter.look(1) == Found::kNotYet) {
    }
    EXPECT_GE(meter.bytes(), 600'000);
    EXPECT_LT(meter.bytes(), 700'000) << "each round begins anew";
  }
  EXPECT_EQ(FolderMeter(both, 500'000).look(kAll), Found::kTooMuch);
}

TEST_F(FolderMeterTest, an_empty_folder_and_one_that_is_gone_take_nothing) {
  EXPECT_EQ(FolderMeter({folder_}, 0).look(kAll), Found::kWithin);
  EXPECT_EQ(FolderMeter({folder_ + "/none"}, 0).look(kAll), Found::kWithin);
}

TEST_F(FolderMeterTest, goes_on_where_it_stopped) {
  for (int i = 0; i < 50; ++i) write("f" + std::to_string(i), 1);
  FolderMeter meter({folder_}, 50 * 4096);
  int turns = 1;
  while (meter.look(7) == Found::kNotYet) ++turns;
  EXPECT_GE(turns, 7);
  EXPECT_EQ(meter.bytes(), 50 * 4096) << "a name is not free";
  write("one more", 0);
  while (meter.look(7) == Found::kNotYet) {
  }
  EXPECT_GT(meter.bytes(), 50 * 4096);
}

TEST_F(FolderMeterTest, holes_are_free_and_second_names_are_no_second_file) {
  write("a", 400'000);
  ASSERT_EQ(::truncate((folder_ + "/a").c_str(), std::int64_t{1} << 40), 0);
  ASSERT_EQ(::link((folder_ + "/a").c_str(), (folder_ + "/b").c_str()), 0);
  ASSERT_EQ(::symlink("/usr", (folder_ + "/c").c_str()), 0);
  FolderMeter meter({folder_}, 500'000);
  EXPECT_EQ(meter.look(kAll), Found::kWithin) << meter.bytes();
}

TEST_F(FolderMeterTest, what_cannot_be_measured_is_too_much) {
  std::string deep = folder_;
  for (int i = 0; i < 130; ++i) deep += "/d";
  std::filesystem::create_directories(deep);
  EXPECT_EQ(FolderMeter({folder_}, 1'000'000'000).look(kAll), Found::kTooMuch);
  std::filesystem::remove_all(folder_ + "/d");
  std::filesystem::create_directories(folder_ + "/closed");
  ASSERT_EQ(::chmod((folder_ + "/closed").c_str(), 0), 0);
  const Found found = FolderMeter({folder_}, 1'000'000'000).look(kAll);
  EXPECT_EQ(found, ::geteuid() == 0 ? Found::kWithin : Found::kTooMuch);
}

}  // namespace
}  // namespace falaj::exec::internal
