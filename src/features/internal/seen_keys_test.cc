#include "features/internal/seen_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace falaj::features {
namespace {

using Found = SeenKeys::Found;

TEST(SeenKeys, knows_every_key_again) {
  SeenKeys seen;
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(seen.add(std::to_string(i)), Found::kNew) << i;
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(seen.add(std::to_string(i)), Found::kSeen) << i;
  EXPECT_EQ(seen.add(""), Found::kNew);
  EXPECT_EQ(seen.add(""), Found::kSeen);
}

TEST(SeenKeys, says_when_it_is_full) {
  SeenKeys seen;
  for (std::size_t i = 0; i < SeenKeys::kMax; ++i) {
    ASSERT_EQ(seen.add({reinterpret_cast<const char*>(&i), sizeof i}), Found::kNew);
  }
  EXPECT_EQ(seen.add("one more"), Found::kFull);
  const std::size_t first = 0;
  EXPECT_EQ(seen.add({reinterpret_cast<const char*>(&first), sizeof first}), Found::kSeen);
}

}  // namespace
}  // namespace falaj::features
