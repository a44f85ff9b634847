#include "features/key.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace falaj::features {
namespace {

TEST(Key, parts_never_run_into_each_other) {
  EXPECT_NE(encode_key({1, 23}), encode_key({12, 3}));
  EXPECT_NE(encode_key({"a", "bc"}), encode_key({"ab", "c"}));
  EXPECT_NE(encode_key({std::string("a\0", 2), "b"}), encode_key({"a", std::string("\0b", 2)}));
  EXPECT_NE(encode_key({""}), encode_key({"", ""}));
  EXPECT_NE(encode_key({""}), "");
}

TEST(Key, a_number_is_never_a_text) {
  // Eight bytes of a number could spell a text; the type stands before them.
  EXPECT_NE(encode_key({std::int64_t{0x6162636465660000}}), encode_key({"abcdef"}));
}

TEST(Key, bytes_sort_as_the_values_do) {
  std::vector<std::int64_t> numbers{
      std::numeric_limits<std::int64_t>::min(), -5, -1, 0, 1, 255, 256,
      std::numeric_limits<std::int64_t>::max()};
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    EXPECT_LT(encode_key({numbers[i - 1]}), encode_key({numbers[i]}));
  }
  const std::vector<std::string> texts{"", std::string("\0", 1), "a", std::string("a\0", 2), "aa",
                                       "b"};
  for (std::size_t i = 1; i < texts.size(); ++i) {
    EXPECT_LT(encode_key({texts[i - 1]}), encode_key({texts[i]})) << i;
  }
}

TEST(Key, of_a_row_equals_the_encoded_parts_and_is_empty_for_a_null) {
  table::Column id(table::Type::kInt64);
  table::Column region(table::Type::kString);
  id.push_int(7);
  id.push_int(8);
  region.push_string("dxb");
  region.push_null();
  EXPECT_EQ(key_of_row({&id, &region}, 0), encode_key({7, "dxb"}));
  EXPECT_EQ(key_of_row({&id, &region}, 1), "");
}

}  // namespace
}  // namespace falaj::features
