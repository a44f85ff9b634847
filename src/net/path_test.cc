#include "net/path.h"

#include <gtest/gtest.h>

namespace falaj::net {
namespace {

TEST(ParseTarget, splits_and_decodes) {
  const RequestTarget target = parse_target("/a%20b/%C3%A9?x=%20&y=1?2").value();
  EXPECT_EQ(target.path, "/a b/é");
  EXPECT_EQ(target.query, "x=%20&y=1?2");
  EXPECT_EQ(target.authority, "");
  EXPECT_EQ(parse_target("/a+b").value().path, "/a+b");  // A plus is a plus in a path.
  EXPECT_EQ(parse_target("/%23%3F").value().path, "/#?");
  EXPECT_EQ(parse_target("/...").value().path, "/...");
  EXPECT_EQ(parse_target("/a/.b").value().path, "/a/.b");
}

TEST(ParseTarget, reads_the_absolute_form) {
  const RequestTarget target = parse_target("HTTP://evil.example:80/a?b").value();
  EXPECT_EQ(target.authority, "evil.example:80");
  EXPECT_EQ(target.path, "/a");
  EXPECT_EQ(target.query, "b");
}

class RefusedTarget : public ::testing::TestWithParam<std::string> {};

TEST_P(RefusedTarget, is_an_invalid_argument) {
  const Result<RequestTarget> target = parse_target(GetParam());
  ASSERT_FALSE(target.ok()) << target.value().path;
  EXPECT_EQ(target.error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedTarget,
                         ::testing::Values("", "*", "a", "?x", "/%", "/%4", "/%zz", "/%00",
                                           "/a%0d%0aX:1", "/%7f", "/a%2Fb", "/a%5cb", "/..",
                                           "/../x", "/a/..", "/a/../b", "/%2e%2e/x", "/.%2E",
                                           "/a/./b", "/.", "/\xff", "/%ff", "/%C3", "/a#b",
                                           "ftp://h/x", "http://h", "http:///x", "http://h?x",
                                           "/a\tb", std::string("/a\0b", 4)));

TEST(DecodeQueryText, decodes_or_refuses) {
  EXPECT_EQ(decode_query_text("a+b%2Bc%2fd"), "a b+c/d");
  EXPECT_EQ(decode_query_text(""), "");
  EXPECT_EQ(decode_query_text("%0"), std::nullopt);
  EXPECT_EQ(decode_query_text("%00"), std::nullopt);
  EXPECT_EQ(decode_query_text("100%"), std::nullopt);
}

TEST(ParseTarget, refuses_a_query_that_cannot_be_decoded) {
  for (const char* target : {"/a?b=%00", "/a?b=%zz", "/a?b=%2", "/a?b=%ff", "/a?%c0%ae=1"}) {
    EXPECT_FALSE(parse_target(target).ok()) << target;
  }
  EXPECT_EQ(parse_target("/a?b=%20c&d=%d8%a7+x").value().query, "b=%20c&d=%d8%a7+x");
}

}  // namespace
}  // namespace falaj::net
