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

const Owner kOwner{ProjectName("pay"), Zone("ae"), "Model/fraud"};

std::string file_of(const TempFolder& folder, const BlobId& id) {
  for (const auto& entry : fs::recursive_directory_iterator(folder / "blobs")) {
    if (entry.path().filename() == id.str()) return entry.path().string();
  }
  ADD_FAILURE() << "no file " << id.str();
  return "";
}

void overwrite(const std::string& path, const std::string& content) {
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

TEST(FileBlobStore, lays_blobs_out_by_their_hash) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put(kOwner, "hello")->id;
  EXPECT_EQ(id.str(), sha256_hex("hello"));
  EXPECT_TRUE(fs::exists(file_of(folder, id)));
}

TEST(FileBlobStore, a_changed_content_is_found_by_get_and_open) {
  const TempFolder folder;
  const BlobId id = open_store(folder.path())->put(kOwner, "hello")->id;
  overwrite(file_of(folder, id), "hellO");
  const auto store = open_store(folder.path());
  EXPECT_EQ(store->get(kOwner, id).error().id, ErrorId::kBlobCorrupt);
  EXPECT_EQ(store->open(kOwner, id).error().id, ErrorId::kBlobCorrupt);
  ASSERT_TRUE(store->put(kOwner, "hello").ok());  // Writing it again heals it.
  EXPECT_EQ(store->get(kOwner, id).value(), "hello");
}

TEST(FileBlobStore, a_content_changed_after_it_was_checked_is_found_by_open) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put(kOwner, "hello")->id;
  ASSERT_TRUE(store->open(kOwner, id).ok());
  const std::string file = file_of(folder, id);
  overwrite(file, "hellO");
  // File times are coarse: what a later write would have got.
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(store->open(kOwner, id).error().id, ErrorId::kBlobCorrupt);
  ASSERT_TRUE(store->put(kOwner, "hello").ok());
  EXPECT_TRUE(store->open(kOwner, id).ok());
}

TEST(FileBlobStore, does_not_follow_a_planted_link) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  const BlobId id = store->put(kOwner, "hello")->id;
  std::ofstream(folder / "outside") << "hello";
  const std::string file = file_of(folder, id);
  fs::remove(file);
  fs::create_symlink(folder / "outside", file);
  EXPECT_EQ(store->get(kOwner, id).error().id, ErrorId::kBlobCorrupt);
}

TEST(FileBlobStore, refuses_ids_that_are_no_hash) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  for (const char* bad : {"", "..", "../../etc/passwd", "ABCDEF"}) {
    EXPECT_EQ(store->get(kOwner, BlobId(bad)).error().code, Code::kInvalidArgument) << bad;
    EXPECT_EQ(store->remove(kOwner, BlobId(bad)).error().code, Code::kInvalidArgument) << bad;
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
    auto writer = store->create(kOwner).value();
    ASSERT_TRUE(writer->append("half").ok());
  }
  EXPECT_TRUE(fs::is_empty(folder / "staging"));
  EXPECT_TRUE(store->list(kOwner).value().empty());
}

TEST(FileBlobStore, a_listing_tells_no_names) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  ASSERT_TRUE(store->put(kOwner, "hello").ok());
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string().find("fraud"), std::string::npos) << entry.path();
  }
}

TEST(FileBlobStore, the_same_content_from_many_threads_is_kept_once) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(store->put(kOwner, "blob " + std::to_string(i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->list(kOwner).value().size(), 20u);
}

TEST(FileBlobStore, a_second_opener_is_refused_as_locked) {
  const TempFolder folder;
  const auto store = open_store(folder.path());
  EXPECT_EQ(open_files(folder.path()).error().id, ErrorId::kDataFolderLocked);
}

}  // namespace
}  // namespace falaj::storage
