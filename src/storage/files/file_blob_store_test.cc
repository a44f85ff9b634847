#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/hash.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::storage {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<BlobStore> open_store(const std::string& path) {
  auto store = open_files(path);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return std::move(store).value();
}

std::string file_of(const TempFolder& folder, const BlobId& id) {
  return folder / "blobs/" + id.str().substr(0, 2) + "/" + id.str().substr(2);
}

void overwrite(const std::string& path, const std::string& content) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

TEST(FileBlobStore, lays_blobs_out_by_their_hash) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put("hello").value();
  EXPECT_EQ(id.str(), sha256_hex("hello"));
  EXPECT_TRUE(fs::exists(file_of(folder, id)));
  EXPECT_EQ(store->path(id).value(), file_of(folder, id));
}

TEST(FileBlobStore, a_changed_content_is_found_by_get_and_path) {
  const TempFolder folder;
  const BlobId id = open_store(folder.path())->put("hello").value();
  overwrite(file_of(folder, id), "hellO");
  const auto store = open_store(folder.path());
  EXPECT_EQ(store->get(id).error().id, ErrorId::kBlobCorrupt);
  EXPECT_EQ(store->path(id).error().id, ErrorId::kBlobCorrupt);
  ASSERT_TRUE(store->put("hello").ok());  // Writing it again heals it.
  EXPECT_EQ(store->get(id).value(), "hello");
}

TEST(FileBlobStore, a_content_changed_after_it_was_checked_is_found_by_path) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put("hello").value();
  ASSERT_TRUE(store->path(id).ok());
  const std::string file = file_of(folder, id);
  overwrite(file, "hellO");
  // File times are coarse: what a later write would have got.
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(store->path(id).error().id, ErrorId::kBlobCorrupt);
  ASSERT_TRUE(store->put("hello").ok());
  EXPECT_TRUE(store->path(id).ok());
}

TEST(FileBlobStore, does_not_follow_a_planted_link) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put("hello").value();
  std::ofstream(folder / "outside") << "hello";
  fs::remove(file_of(folder, id));
  fs::create_symlink(folder / "outside", file_of(folder, id));
  EXPECT_EQ(store->get(id).error().id, ErrorId::kBlobCorrupt);
}

TEST(FileBlobStore, refuses_ids_that_are_no_hash) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  for (const char* bad : {"", "..", "../../etc/passwd", "ABCDEF"}) {
    EXPECT_EQ(store->get(BlobId(bad)).error().code, Code::kInvalidArgument) << bad;
    EXPECT_EQ(store->remove(BlobId(bad)).error().code, Code::kInvalidArgument) << bad;
  }
}

TEST(FileBlobStore, removes_what_a_crash_left_in_staging) {
  const TempFolder folder;
  { open_store(folder.path()); }
  std::ofstream(folder / "staging/w7") << "half";
  const auto store = open_store(folder.path());
  EXPECT_TRUE(fs::is_empty(folder / "staging"));
}

TEST(FileBlobStore, a_dropped_writer_leaves_nothing) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  {
    auto writer = store->create().value();
    ASSERT_TRUE(writer->append("half").ok());
  }
  EXPECT_TRUE(fs::is_empty(folder / "staging"));
  EXPECT_TRUE(store->list().value().empty());
}

TEST(FileBlobStore, adopts_only_regular_files_of_its_staging_folder) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  std::ofstream(folder / "elsewhere") << "x";
  EXPECT_EQ(store->adopt(folder / "elsewhere").error().code, Code::kInvalidArgument);
  EXPECT_EQ(store->adopt(folder / "staging/../elsewhere").error().code, Code::kInvalidArgument);
  const std::string link = store->staging_path().value();
  fs::create_symlink(folder / "elsewhere", link);
  EXPECT_FALSE(store->adopt(link).ok());
  EXPECT_TRUE(fs::exists(folder / "elsewhere"));
}

TEST(FileBlobStore, the_same_content_from_many_threads_is_kept_once) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(store->put("blob " + std::to_string(i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->list().value().size(), 20u);
}

TEST(FileBlobStore, a_second_opener_is_refused_as_locked) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  EXPECT_EQ(open_files(folder.path()).error().id, ErrorId::kDataFolderLocked);
}

}  // namespace
}  // namespace falaj::storage
