#include "security/sealed/blobs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/hash.h"
#include "security/keys/testing/key_world.h"
#include "storage/open.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security::sealed {
namespace {

namespace fs = std::filesystem;
using storage::Owner;

const Owner kOwner{ProjectName("pay"), Zone("ae"), "FeatureView/activity"};

std::string noise(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

class SealedBlobsTest : public ::testing::Test {
 protected:
  void reopen() {
    store_.reset();
    store_ = seal_blobs(storage::open_files(folder_.path()).value(), *world_.tree);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file() && entry.path().filename() != "blobs.lock") {
        out.push_back(entry.path());
      }
    }
    return out;
  }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  keys::testing::KeyWorld world_;
  storage::TempFolder folder_;
  std::unique_ptr<storage::BlobStore> store_ =
      seal_blobs(storage::open_files(folder_.path()).value(), *world_.tree);
};

TEST_F(SealedBlobsTest, nothing_readable_lies_on_disk_even_before_the_commit) {
  const std::string secret = "784-1985-1234567-1 lives here";
  auto writer = store_->create(kOwner).value();
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(writer->append(secret).ok());
  for (const fs::path& file : files()) {
    EXPECT_EQ(content(file).find(secret), std::string::npos) << file;
  }
  const storage::StoredBlob blob = writer->commit().value();
  ASSERT_EQ(files().size(), 1u);
  const std::string raw = content(files()[0]);
  EXPECT_EQ(raw.find(secret.substr(0, 12)), std::string::npos);
  EXPECT_EQ(blob.id.str(), sha256_hex(raw)) << "whoever has no key can still check the file";
  EXPECT_NE(blob.id.str(), blob.content_sha256);
  reopen();
  world_.reopen();
  reopen();
  EXPECT_EQ(sha256_hex(store_->get(kOwner, blob.id).value()), blob.content_sha256);
}

TEST_F(SealedBlobsTest, the_same_content_twice_lies_there_differently) {
  EXPECT_NE(store_->put(kOwner, "x")->id, store_->put(kOwner, "x")->id);
}

// The inner store is told that the changed bytes are what belongs there: only the seal can object.
TEST_F(SealedBlobsTest, a_changed_cut_lengthened_or_moved_file_does_not_open) {
  const std::string plain = noise(200'000, 1);
  ASSERT_TRUE(store_->put(kOwner, plain).ok());
  const std::string raw = content(files().at(0));
  const auto inner = [&] { return storage::make_fake_blobs(); };
  const auto opens = [&](const std::string& bytes, const Owner& owner) {
    auto fake = inner();
    const BlobId id = fake->put(owner, bytes)->id;
    const auto store = seal_blobs(std::move(fake), *world_.tree);
    const auto read = store->get(owner, id);
    if (!read.ok()) {
      EXPECT_TRUE(read.error().id == ErrorId::kDecryptFailed ||
                  read.error().id == ErrorId::kKeyMissing)
          << read.error().message;
    }
    return read.ok();
  };
  ASSERT_TRUE(opens(raw, kOwner)) << "the method itself is sound";
  for (const std::size_t at : {0u, 5u, 20u, 40u, 80u, 70'000u, 140'000u}) {
    std::string changed = raw;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(opens(changed, kOwner)) << at;
  }
  for (const std::size_t size : {0u, 10u, 28u, 60u, 65'564u, 131'100u}) {
    EXPECT_FALSE(opens(raw.substr(0, size), kOwner)) << size;
  }
  EXPECT_FALSE(opens(raw + "x", kOwner));
  EXPECT_FALSE(opens(raw, {ProjectName("pay"), Zone("ae"), "FeatureView/other"}));
  EXPECT_FALSE(opens(raw, {ProjectName("other"), Zone("ae"), "FeatureView/activity"}));
  EXPECT_FALSE(opens(raw, {ProjectName("pay"), Zone("eu"), "FeatureView/activity"}));
}

TEST_F(SealedBlobsTest, after_shredding_nothing_opens) {
  const BlobId gone = store_->put(kOwner, "personal")->id;
  const Owner other{ProjectName("pay"), Zone("ae"), "Model/fraud"};
  const BlobId stays = store_->put(other, "model")->id;
  ASSERT_TRUE(world_.tree->shred({"pay", Zone("ae"), kOwner.object, "", ""}).ok());
  const auto read = store_->get(kOwner, gone);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().id, ErrorId::kKeyMissing) << read.error().message;
  EXPECT_FALSE(store_->grant(kOwner, gone).ok());
  EXPECT_EQ(store_->get(other, stays).value(), "model");
}

TEST_F(SealedBlobsTest, a_grant_opens_one_blob_in_another_process) {
  const std::string plain = noise(100'000, 2);
  const BlobId id = store_->put(kOwner, plain)->id;
  storage::BlobGrant grant = store_->grant(kOwner, id).value();
  EXPECT_FALSE(grant.ticket.empty());
  EXPECT_EQ(read_whole(*open_granted(std::move(grant.file), grant.ticket).value()).value(), plain);
  storage::BlobGrant other = store_->grant(kOwner, store_->put(kOwner, "other")->id).value();
  EXPECT_FALSE(open_granted(std::move(other.file), grant.ticket).ok());
  storage::BlobGrant again = store_->grant(kOwner, id).value();
  EXPECT_FALSE(open_granted(std::move(again.file), "zz:00").ok());
}

TEST_F(SealedBlobsTest, a_spool_gives_back_what_came_and_shows_nothing) {
  for (const std::size_t size : {0u, 5u, 65'000u, 300'000u}) {
    auto spool = seal_spool(make_memory_spool().value()).value();
    const std::string plain = noise(size, 3);
    for (std::size_t at = 0; at < plain.size(); at += 10'000) {
      ASSERT_TRUE(spool->append(std::string_view(plain).substr(at, 10'000)).ok());
    }
    const auto reader = spool->finish().value();
    ASSERT_EQ(reader->size(), static_cast<std::int64_t>(size));
    EXPECT_EQ(read_whole(*reader).value(), plain);
  }
}

}  // namespace
}  // namespace falaj::security::sealed
