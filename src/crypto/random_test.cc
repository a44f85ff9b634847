#include "crypto/random.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "crypto/testing/fake_random.h"

namespace falaj::crypto {
namespace {

TEST(Random, never_repeats_a_key_in_practice) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(system_random().bytes(32));
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(system_random().hex_id(8).size(), 16U);
}

// A generator with state in the process would give parent and child the same nonces.
TEST(Random, a_forked_child_does_not_repeat_its_parent) {
  const std::string before = system_random().bytes(32);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string bytes = system_random().bytes(32);
    _exit(write(ends[1], bytes.data(), bytes.size()) == 32 ? 0 : 1);
  }
  const std::string parent = system_random().bytes(32);
  std::string from_child(32, '\0');
  ASSERT_EQ(read(ends[0], from_child.data(), from_child.size()), 32);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(from_child, parent);
  EXPECT_NE(from_child, before);
  close(ends[0]);
  close(ends[1]);
}

TEST(Random, the_fake_repeats_for_the_same_seed_only) {
  testing::FakeRandom a(7);
  testing::FakeRandom b(7);
  testing::FakeRandom c(8);
  const std::string first = a.bytes(64);
  EXPECT_EQ(first, b.bytes(64));
  EXPECT_NE(first, c.bytes(64));
  EXPECT_NE(first, a.bytes(64));
}

}  // namespace
}  // namespace falaj::crypto
