#include "jobs/oci/unpack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/hash.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::oci {
namespace {

namespace fs = std::filesystem;

// One entry as ustar has it.
std::string entry(const std::string& name, char type, const std::string& content = "",
                  const std::string& link = "") {
  std::string block(512, '\0');
  std::memcpy(block.data(), name.data(), std::min<std::size_t>(name.size(), 100));
  std::memcpy(block.data() + 100, "0000755", 7);
  std::snprintf(block.data() + 124, 12, "%011zo", content.size());
  block[156] = type;
  std::memcpy(block.data() + 157, link.data(), std::min<std::size_t>(link.size(), 100));
  std::memcpy(block.data() + 257, "ustar\00000", 8);
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(block.data() + 148, 7, "%06o", sum);
  std::string padded = content;
  padded.resize((content.size() + 511) / 512 * 512);
  return block + padded;
}

class UnpackTest : public ::testing::Test {
 protected:
  UnpackTest() { fs::create_directory(root_); }

  Status put(const std::string& archive, const UnpackLimits& limits = {}) {
    std::size_t at = 0;
    TarReader reader([&](char* to, std::size_t count) -> Result<std::size_t> {
      const std::size_t part = std::min(count, archive.size() - at);
      std::memcpy(to, archive.data() + at, part);
      at += part;
      return part;
    });
    return unpack_layer(reader, root_, limits, sum_);
  }
  std::string text(const std::string& name) {
    std::ifstream file(root_ + "/" + name);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }
  bool exists(const std::string& name) {
    return fs::exists(fs::symlink_status(root_ + "/" + name));
  }

  storage::TempFolder folder_;
  std::string root_ = folder_ / "root";
  Unpacked sum_;
};

TEST_F(UnpackTest, layers_lie_over_each_other_and_whiteouts_take_away) {
  ASSERT_TRUE(put(entry("etc/", '5') + entry("etc/a", '0', "a") + entry("etc/b", '0', "b") +
                  entry("opt/x/1", '0', "1") + entry("opt/x/2", '0', "2") +
                  entry("bin", '2', "", "usr/bin") + entry("usr/bin/tool", '0', "old"))
                  .ok());
  ASSERT_TRUE(put(entry("etc/.wh.a", '0') + entry("opt/x/3", '0', "3") +
                  entry("opt/x/.wh..wh..opq", '0') + entry("bin/tool", '0', "new") +
                  entry("bin/same", '1', "", "usr/bin/tool"))
                  .ok());
  EXPECT_FALSE(exists("etc/a"));
  EXPECT_EQ(text("etc/b"), "b");
  EXPECT_FALSE(exists("opt/x/1"));
  EXPECT_EQ(text("opt/x/3"), "3") << "an opaque folder keeps what its own layer holds";
  EXPECT_EQ(text("usr/bin/tool"), "new") << "through a link that stays inside";
  EXPECT_EQ(text("usr/bin/same"), "new");
  EXPECT_EQ(sum_.bytes, 1 + 1 + 1 + 1 + 3 + 1 + 3);
}

TEST_F(UnpackTest, nothing_leads_out_of_the_folder) {
  const std::string outside = folder_ / "outside";
  EXPECT_EQ(put(entry("../outside", '0', "x")).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("a/../../outside", '0', "x")).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("copy", '1', "", "../secret")).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry(".wh...", '0')).error().id, ErrorId::kImageRefused);
  ASSERT_TRUE(put(entry("out", '2', "", folder_.path()) + entry("up", '2', "", "../..")).ok());
  (void)put(entry("out/outside", '0', "x"));
  (void)put(entry("up/outside", '0', "x"));
  EXPECT_FALSE(fs::exists(outside));
  ASSERT_TRUE(put(entry("/absolute", '0', "x")).ok());
  EXPECT_EQ(text("absolute"), "x");
}

TEST_F(UnpackTest, devices_and_what_is_too_much_are_refused) {
  EXPECT_EQ(put(entry("disk", '4')).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("pipe", '6')).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("sparse", 'S')).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("big", '0', "12345"), {.bytes_max = 4}).error().id, ErrorId::kImageRefused);
  EXPECT_EQ(put(entry("a", '5') + entry("b", '5') + entry("c", '5'), {.entries_max = 2}).error().id,
            ErrorId::kImageRefused);
  std::string torn = entry("torn", '0', "123");
  torn.resize(600);
  EXPECT_EQ(put(torn).error().id, ErrorId::kImageRefused);
  std::string spoilt = entry("spoilt", '0', "123");
  spoilt[0] = 'S';
  EXPECT_EQ(put(spoilt).error().id, ErrorId::kImageRefused);
}

TEST_F(UnpackTest, programs_for_another_user_lose_that) {
  std::string set = entry("su", '0', "x");
  std::memcpy(set.data() + 100, "0004755", 7);
  std::memset(set.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(set[i]);
  std::snprintf(set.data() + 148, 7, "%06o", sum);
  ASSERT_TRUE(put(set).ok());
  struct stat about {};
  ASSERT_EQ(::stat((root_ + "/su").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0755u);
}

TEST(Layout, reads_a_manifest_and_refuses_what_is_none) {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string blob = R"({"digest": ")" + digest + R"(", "size": 3})";
  const auto manifest = parse_manifest(R"({"config": )" + blob + R"(, "layers": [)" + blob + "]}");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->layers.front().digest, std::string(64, 'a'));
  const std::vector<std::string> none{
      "[]", "{}", "{", R"({"config": )" + blob + R"(, "layers": []})",
      R"({"config": {"digest": "md5:1", "size": 1}, "layers": []})"};
  for (const std::string& text : none) {
    EXPECT_EQ(parse_manifest(text).error().id, ErrorId::kImageRefused) << text;
  }
  EXPECT_EQ(parse_image_config(R"({"os": "plan9", "architecture": "amd64"})").error().id,
            ErrorId::kImageRefused);
  EXPECT_FALSE(parse_digest("sha256:../../x").ok());
}

TEST(Layout, refuses_a_file_that_is_not_what_its_name_says) {
  storage::TempFolder folder;
  fs::create_directories(folder / "blobs/sha256");
  const std::string digest = sha256_hex("{}");
  std::ofstream(folder / ("blobs/sha256/" + digest)) << "{ }";
  const auto image = read_image(folder.path(), digest);
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().message.find("is not what its name says"), std::string::npos);
  EXPECT_FALSE(read_image(folder.path(), std::string(64, '0')).ok());
}

}  // namespace
}  // namespace falaj::jobs::oci
