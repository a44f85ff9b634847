#include "serving/packed_texts.h"

#include <gtest/gtest.h>

namespace falaj::serving {
namespace {

using namespace std::string_literals;

TEST(PackedTexts, come_back_with_nul_and_bytes_that_are_no_text) {
  std::string packed;
  ASSERT_TRUE(append_packed(packed, "a\0b"s).ok());
  ASSERT_TRUE(append_packed(packed, "").ok());
  ASSERT_TRUE(append_packed(packed, "\xFF").ok());
  EXPECT_EQ(packed, "\3\0\0\0a\0b\0\0\0\0\1\0\0\0\xFF"s);
  const auto elements = unpack_texts(packed, 3);
  ASSERT_TRUE(elements.ok()) << elements.error().message;
  EXPECT_EQ((*elements)[0], "a\0b"s);
  EXPECT_EQ((*elements)[1], "");
  EXPECT_EQ((*elements)[2], "\xFF");
}

TEST(PackedTexts, are_refused_when_a_byte_is_missing_or_left_over) {
  std::string packed;
  ASSERT_TRUE(append_packed(packed, "abc").ok());
  ASSERT_TRUE(append_packed(packed, "defg").ok());
  ASSERT_TRUE(unpack_texts(packed, 2).ok());
  for (std::size_t cut = 0; cut < packed.size(); ++cut) {
    EXPECT_EQ(unpack_texts(packed.substr(0, cut), 2).error().id, ErrorId::kTensorMismatch) << cut;
  }
  EXPECT_FALSE(unpack_texts(packed + "x", 2).ok());
  EXPECT_FALSE(unpack_texts(packed, 1).ok());
  EXPECT_FALSE(unpack_texts(packed, 3).ok());
}

TEST(PackedTexts, a_claim_of_many_elements_costs_no_memory) {
  EXPECT_FALSE(unpack_texts("\1\0\0\0a"s, std::size_t{1} << 31).ok());
  EXPECT_TRUE(unpack_texts("", 0).ok());
  EXPECT_FALSE(unpack_texts("\xFF\xFF\xFF\xFF"s, 1).ok());
}

}  // namespace
}  // namespace falaj::serving
