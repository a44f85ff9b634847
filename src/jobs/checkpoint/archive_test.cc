#include "jobs/checkpoint/archive.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "jobs/checkpoint/internal/tree.h"
#include "jobs/checkpoint/testing/worker.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;
using storage::TempFolder;

class ArchiveTest : public testing::Test {
 protected:
  std::unique_ptr<Archive> open(Archive::Options options = {}) {
    options.durability = storage::Durability::kNoSync;
    auto opened = Archive::open(folder_ / "archive", std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(opened).value();
  }
  // Whatever lies in the folder `from` under `name`.
  Result<Manifest> write(Archive& archive, const std::string& name) {
    const Descriptor from = open_folder(folder_ / "from").value();
    Archive::Source source{from.get(), name, {}, ""};
    source.about.number = archive.next_number();
    source.about.name = name;
    return archive.write(source);
  }
  Manifest saved(Archive& archive, const std::string& name, const Contents& files) {
    save(folder_ / "from", name, files);
    auto written = write(archive, name);
    EXPECT_TRUE(written.ok()) << written.error().message;
    return std::move(written).value();
  }
  std::string at(const Manifest& manifest, const std::string& path) const {
    return archive_path() + "/" + folder_name(manifest.number, manifest.name) + "/" + path;
  }
  std::string archive_path() const { return folder_ / "archive"; }

  TempFolder folder_;
};

TEST_F(ArchiveTest, tells_without_its_key_when_something_was_last_kept) {
  EXPECT_EQ(newest_kept(archive_path()), Timestamp{}) << "there is no folder";
  auto archive = open();
  EXPECT_EQ(newest_kept(archive_path()), Timestamp{});
  const Manifest one = saved(*archive, "one", {{"weights", "x"}});
  const Manifest two = saved(*archive, "two", {{"weights", "y"}});
  const auto date = [&](const Manifest& manifest, std::int64_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    const std::string path =
        archive_path() + "/" + folder_name(manifest.number, manifest.name) + ".json";
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  date(one, 1'780'000'100);
  date(two, 1'780'000'000);
  EXPECT_EQ(newest_kept(archive_path()), Timestamp::from_seconds(1'780'000'100));
  save_file(archive_path(), "00000099-half.json.new", "{}");
  EXPECT_EQ(newest_kept(archive_path()), Timestamp::from_seconds(1'780'000'100)) << "not yet kept";
}

TEST_F(ArchiveTest, keeps_files_and_folders_as_they_were) {
  auto archive = open();
  const Manifest manifest =
      saved(*archive, "one", {{"w/rank0", std::string(3 << 20, 'x')}, {"empty", ""}});
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.bytes(), 3 << 20);
  EXPECT_TRUE(verify_checkpoint(archive_path(), manifest).ok());
  save_file(folder_ / "from", "model.json", "{}");
  ASSERT_TRUE(write(*archive, "model.json").ok());
  const auto restored = restore(archive_path());
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  EXPECT_EQ(restored->manifest.form, Form::kFile);
  EXPECT_EQ(bytes_of(restored->path), "{}");
  EXPECT_EQ(list_checkpoints(archive_path())->size(), 2U);
}

TEST_F(ArchiveTest, falls_back_to_the_one_before_when_the_newest_is_damaged) {
  auto archive = open();
  const Manifest first = saved(*archive, "one", {{"a", "first"}});
  const Manifest second = saved(*archive, "two", {{"a", "second"}});
  EXPECT_EQ(restore(archive_path())->manifest, second);
  put(at(second, "a"), "secone");
  const auto restored = restore(archive_path());
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->manifest, first);
  ASSERT_EQ(restored->skipped.size(), 1U);
  EXPECT_EQ(restored->skipped[0], "00000002-two: a was changed");
  put(at(first, "extra"), "");
  EXPECT_EQ(restore(archive_path()).error().code, Code::kDataLoss);
}

TEST_F(ArchiveTest, says_what_is_wrong_with_a_damaged_one) {
  auto archive = open();
  const Manifest manifest = saved(*archive, "one", {{"a", "aaaa"}, {"b", "bbbb"}});
  const auto said = [&] { return verify_checkpoint(archive_path(), manifest).error().message; };
  fs::resize_file(at(manifest, "b"), 2);
  EXPECT_EQ(said(), "00000001-one: b has 2 bytes instead of 4");
  fs::remove(at(manifest, "b"));
  EXPECT_EQ(said(), "00000001-one: b is missing");
  put(archive_path() + "/00000001-one.json", "{}");
  const auto listed = list_checkpoints(archive_path());
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().manifest.error().code, Code::kDataLoss);
}

TEST_F(ArchiveTest, a_manifest_moved_to_another_checkpoint_is_damaged) {
  auto archive = open();
  saved(*archive, "one", {{"a", "aaaa"}});
  saved(*archive, "two", {{"a", "aaaa"}});
  fs::copy_file(archive_path() + "/00000001-one.json", archive_path() + "/00000002-two.json",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(restore(archive_path())->manifest.name, "one");
}

TEST_F(ArchiveTest, refuses_links_and_pipes_for_good) {
  auto archive = open();
  begin_save(folder_ / "from", "link", {{"a", "a"}});
  fs::create_symlink("/etc/passwd", folder_ / "from/link.tmp/b");
  EXPECT_EQ(write(*archive, "link.tmp").error().code, Code::kInvalidArgument);
  begin_save(folder_ / "from", "pipe", {{"a", "a"}});
  ASSERT_EQ(::mkfifo((folder_ / "from/pipe.tmp/p").c_str(), 0600), 0);
  EXPECT_EQ(write(*archive, "pipe.tmp").error().code, Code::kInvalidArgument);
  fs::create_symlink("/etc", folder_ / "from/whole");
  EXPECT_EQ(write(*archive, "whole").error().code, Code::kInvalidArgument);
  EXPECT_TRUE(list_checkpoints(archive_path())->empty());
}

TEST_F(ArchiveTest, refuses_what_is_too_large_or_too_deep) {
  Archive::Options small;
  small.bytes_max = 10;
  auto archive = open(small);
  save(folder_ / "from", "large", {{"a", "12345"}, {"b", "678901"}});
  EXPECT_EQ(write(*archive, "large").error().code, Code::kInvalidArgument);
  std::string deep;
  for (std::size_t i = 0; i < kDepthMax + 2; ++i) deep += "d/";
  save(folder_ / "from", "deep", {{deep + "a", ""}});
  EXPECT_EQ(write(*archive, "deep").error().code, Code::kInvalidArgument);
}

TEST_F(ArchiveTest, what_was_interrupted_is_never_seen_and_swept_away) {
  int chunks = 0;
  Archive::Options stops;
  stops.on_chunk = [&]() -> Status {
    if (++chunks < 3) return {};
    return Error{Code::kCancelled, "enough"};
  };
  auto archive = open(stops);
  save(folder_ / "from", "one", {{"a", std::string(5 << 20, 'x')}});
  EXPECT_EQ(write(*archive, "one").error().code, Code::kCancelled);
  EXPECT_TRUE(list_checkpoints(archive_path())->empty());
  archive.reset();
  // As a kill leaves it: staged, renamed without a manifest, half a manifest.
  put(archive_path() + "/.staged-7/a", "half");
  put(archive_path() + "/00000008-x/a", "no manifest");
  put(archive_path() + "/00000009-y.json.new", "{\"for");
  put(archive_path() + "/notes.txt", "somebody's");
  EXPECT_EQ(restore(archive_path()).error().code, Code::kNotFound);
  archive = open();
  EXPECT_EQ(archive->next_number(), 10);
  EXPECT_FALSE(fs::exists(archive_path() + "/.staged-7"));
  EXPECT_FALSE(fs::exists(archive_path() + "/00000008-x"));
  EXPECT_FALSE(fs::exists(archive_path() + "/00000009-y.json.new"));
  EXPECT_TRUE(fs::exists(archive_path() + "/notes.txt"));
}

TEST_F(ArchiveTest, has_one_writer) {
  const auto archive = open();
  const auto second = Archive::open(archive_path(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().id, ErrorId::kDataFolderLocked);
}

TEST_F(ArchiveTest, copies_out_what_was_saved_and_nothing_else) {
  auto archive = open();
  const Manifest manifest = saved(*archive, "one", {{"w/a", "aaaa"}, {"b", "bbbb"}});
  const Restored restored = restore(archive_path()).value();
  ASSERT_TRUE(copy_out(restored, folder_ / "out").ok());
  EXPECT_EQ(bytes_of(folder_ / "out/w/a"), "aaaa");
  EXPECT_EQ(copy_out(restored, folder_ / "out").error().code, Code::kConflict);
  put(at(manifest, "b"), "b!bb");
  EXPECT_EQ(copy_out(restored, folder_ / "again").error().code, Code::kDataLoss);
  EXPECT_FALSE(fs::exists(folder_ / "again"));
}

TEST_F(ArchiveTest, a_folder_that_is_not_there_is_not_found) {
  EXPECT_EQ(restore(folder_ / "none").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace falaj::jobs::checkpoint
