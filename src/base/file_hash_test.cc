#include "base/file_hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/hash.h"

namespace falaj {
namespace {

TEST(FileHash, is_that_of_its_bytes) {
  char path[] = "/tmp/falaj-hash-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ::close(fd);
  EXPECT_EQ(file_sha256(path), sha256_hex(""));
  const std::string text(200'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(file_sha256(path), sha256_hex(text));
  ::unlink(path);
  EXPECT_EQ(file_sha256(path), std::nullopt);
  EXPECT_EQ(file_sha256("/"), std::nullopt) << "no plain file";
}

}  // namespace
}  // namespace falaj
