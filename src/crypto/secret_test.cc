#include "crypto/secret.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace falaj::crypto {
namespace {

TEST(Secret, cannot_be_copied_by_accident) {
  static_assert(!std::is_copy_constructible_v<SecretBytes>);
  static_assert(!std::is_copy_assignable_v<SecretBytes>);
  const SecretBytes secret(std::string_view("the water clock"));
  EXPECT_EQ(secret.clone().view(), "the water clock");
}

TEST(Secret, moving_leaves_nothing_behind) {
  SecretBytes from(std::string_view("key"));
  SecretBytes to(std::string_view("other"));
  to = std::move(from);
  EXPECT_EQ(to.view(), "key");
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): that is what is asked.
}

TEST(Secret, wiping_overwrites_all_that_a_text_held) {
  std::string text = "a passphrase that was long enough to live on the heap";
  const char* const place = text.data();
  const std::size_t capacity = text.capacity();
  text.resize(3);
  wipe(text);
  EXPECT_TRUE(text.empty());
  for (std::size_t i = 0; i < capacity; ++i) EXPECT_EQ(place[i], '\0') << i;
}

TEST(Secret, compares_whole_contents) {
  EXPECT_TRUE(constant_time_equal("", ""));
  EXPECT_TRUE(constant_time_equal("token", "token"));
  EXPECT_FALSE(constant_time_equal("token", "tokem"));
  EXPECT_FALSE(constant_time_equal("token", "toke"));
}

}  // namespace
}  // namespace falaj::crypto
