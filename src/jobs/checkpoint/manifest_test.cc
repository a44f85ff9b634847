#include "jobs/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace falaj::jobs::checkpoint {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.number = 12;
  manifest.name = "epoch3";
  manifest.saved_at = Timestamp::from_seconds(1'780'000'000);
  manifest.metric = 0.913;
  manifest.files = {{"a/b.bin", 3, sha256_hex("abc")}, {"c", 0, sha256_hex("")}};
  return manifest;
}

TEST(CheckpointManifest, reads_back_what_it_wrote) {
  Manifest manifest = example();
  EXPECT_EQ(decode_manifest(encode_manifest(manifest)).value(), manifest);
  manifest.metric.reset();
  manifest.form = Form::kFile;
  EXPECT_EQ(decode_manifest(encode_manifest(manifest)).value(), manifest);
}

TEST(CheckpointManifest, notices_any_changed_byte) {
  const std::string text = encode_manifest(example());
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {  // Of the last one, the newline, it may not.
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto read = decode_manifest(changed);
    ASSERT_FALSE(read.ok()) << i << ": " << changed;
    EXPECT_EQ(read.error().code, Code::kDataLoss);
  }
  EXPECT_FALSE(decode_manifest(text.substr(0, text.size() / 2)).ok());
  EXPECT_FALSE(decode_manifest("").ok());
}

TEST(CheckpointManifest, refuses_paths_that_leave_the_folder) {
  for (const char* path : {"", "/etc/passwd", "..", "a/../../b", "a//b", "./a", "a/"}) {
    EXPECT_FALSE(check_path(path).ok()) << path;
    Manifest manifest = example();
    manifest.files = {{path, 0, sha256_hex("")}};
    EXPECT_FALSE(decode_manifest(encode_manifest(manifest)).ok()) << path;
  }
  EXPECT_FALSE(check_path(std::string(kPathBytesMax + 1, 'a')).ok());
  EXPECT_FALSE(check_path("caf\xe9").ok());
  EXPECT_TRUE(check_path("weights/rank 0.bin").ok());
}

TEST(CheckpointManifest, names_are_plain) {
  for (const char* good : {"epoch3", "step=1200", "model.pt", "a"}) {
    EXPECT_TRUE(check_checkpoint_name(good).ok()) << good;
  }
  for (const char* bad : {"", ".hidden", "a.tmp", "a/b", "a b", "x\n"}) {
    EXPECT_FALSE(check_checkpoint_name(bad).ok()) << bad;
  }
}

TEST(CheckpointManifest, numbers_stand_in_front_of_folders) {
  EXPECT_EQ(folder_name(12, "epoch3"), "00000012-epoch3");
  EXPECT_EQ(number_of("00000012-epoch3"), 12);
  EXPECT_EQ(number_of("123456789-x-y"), 123456789);
  for (const char* none : {"keeper.lock", "12-x", "00000000-x", "00000012-", "0000001a-x", "-"}) {
    EXPECT_EQ(number_of(none), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace falaj::jobs::checkpoint
