#include "exec/memory_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace falaj::exec {
namespace {

std::string content_of(const Descriptor& file) {
  std::string bytes(64, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

TEST(MemoryFile, is_filled_piece_by_piece) {
  const Descriptor file = make_memory_file("test").value();
  ASSERT_TRUE(write_memory_file(file.get(), "one ").ok());
  ASSERT_TRUE(write_memory_file(file.get(), "two").ok());
  EXPECT_EQ(content_of(file), "one two");
}

TEST(MemoryFile, a_sealed_one_keeps_its_bytes) {
  const Descriptor file = make_sealed_memory_file("test", "order").value();
  EXPECT_EQ(write_memory_file(file.get(), "more").error().code, Code::kResourceExhausted);
  EXPECT_NE(::ftruncate(file.get(), 0), 0);
  EXPECT_EQ(content_of(file), "order");
}

}  // namespace
}  // namespace falaj::exec
