#include "storage/redis/resp.h"

#include <gtest/gtest.h>

namespace falaj::storage::redis {
namespace {

using Kind = RespToken::Kind;
using namespace std::string_literals;

const RespLimits kLimits{1'000, 4'000};

// One whole reply from bytes that come `step` at a time; the error's message otherwise.
std::string read(std::string_view bytes, std::size_t step, RespValue& out) {
  RespTree tree(kLimits);
  std::string pending;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    pending += bytes.substr(at, step);
    while (true) {
      const auto token = parse_token(pending, kLimits);
      if (!token.ok()) return token.error().message;
      if (!token->has_value()) break;
      const auto state = tree.put(**token);
      if (!state.ok()) return state.error().message;
      pending.erase(0, (*token)->size);
      if (*state == RespTree::State::kDone) {
        out = tree.take();
        return pending + std::string(bytes.substr(std::min(bytes.size(), at + step)));
      }
    }
  }
  return "not whole";
}

TEST(Resp, commands_carry_any_bytes) {
  std::string out;
  append_command(out, {"SET", "a\r\n\0b"s, ""});
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n"s);
}

TEST(Resp, reads_every_kind_however_it_is_cut) {
  const std::string bytes =
      "*6\r\n+OK\r\n-ERR no\r\n:-42\r\n$4\r\n\r\n\0x\r\n$-1\r\n*2\r\n*0\r\n*-1\r\n"s;
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
    RespValue value;
    EXPECT_EQ(read(bytes, step, value), "") << step;
    ASSERT_EQ(value.items.size(), 6u);
    EXPECT_TRUE(value.items[0].is("OK"));
    EXPECT_TRUE(value.items[1].is_error());
    EXPECT_EQ(value.items[1].text, "ERR no");
    EXPECT_EQ(value.items[2].number, -42);
    EXPECT_EQ(value.items[3].text, "\r\n\0x"s);
    EXPECT_EQ(value.items[4].kind, Kind::kNull);
    ASSERT_EQ(value.items[5].items.size(), 2u);
    EXPECT_EQ(value.items[5].items[0].kind, Kind::kArray);
    EXPECT_EQ(value.items[5].items[1].kind, Kind::kNull);
  }
}

TEST(Resp, takes_no_byte_of_the_next_reply) {
  RespValue value;
  EXPECT_EQ(read("$2\r\nab\r\n+next\r\n", 100, value), "+next\r\n");
  EXPECT_EQ(value.text, "ab");
}

TEST(Resp, waits_for_what_is_not_whole) {
  for (const std::string bytes : {"", "+", "+OK", "+OK\r", "$3\r\nab", "$3\r\nabc\r", ":1", "*"}) {
    const auto token = parse_token(bytes, kLimits);
    ASSERT_TRUE(token.ok()) << bytes;
    EXPECT_FALSE(token->has_value()) << bytes;
  }
}

TEST(Resp, refuses_what_is_no_resp_or_over_the_limits) {
  const std::vector<std::string> wrong{"HTTP/1.1 400\r\n",
                                       "\x15\x03\x01",
                                       ":\r\n",
                                       ":1x\r\n",
                                       ":99999999999999999999\r\n",
                                       "$-2\r\n",
                                       "$1001\r\n",
                                       "$2\r\nabc\r\n",
                                       "*-2\r\n",
                                       "*99999999999\r\n",
                                       "+O\rK\r\n",
                                       "+" + std::string(9'000, 'x')};
  for (const std::string& bytes : wrong) {
    const auto token = parse_token(bytes, kLimits);
    ASSERT_FALSE(token.ok()) << bytes.substr(0, 20);
    EXPECT_EQ(token.error().code, Code::kUnavailable);
  }
}

TEST(Resp, a_reply_is_bounded_by_what_came_not_by_what_it_says) {
  RespValue value;
  EXPECT_EQ(read("*4000000000\r\n:1\r\n", 100, value), "not whole");
  std::string many = "*1000\r\n";
  for (int i = 0; i < 1'000; ++i) many += ":1\r\n";
  EXPECT_NE(read(many, many.size(), value).find("4000 bytes"), std::string::npos);
  EXPECT_NE(read("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 100, value).find("arrays"),
            std::string::npos);
}

}  // namespace
}  // namespace falaj::storage::redis
