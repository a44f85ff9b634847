#include "cli/batch/patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace falaj::cli::batch {
namespace {

using Reply = Result<net::ClientReply>;

// Asks a server that gives these answers in turn, and notes how long was waited.
struct Told {
  std::vector<Reply> replies;
  Duration limit = Duration::seconds(30);
  std::vector<Duration> waited = {};
  std::uint64_t waits = 0;

  Reply ask() {
    std::size_t next = 0;
    return ask_patiently([&] { return replies[std::min(next++, replies.size() - 1)]; },
                         {limit, [&](Duration length) { waited.push_back(length); }, &waits});
  }
};

net::ClientReply with_status(int status, const char* retry_after = nullptr) {
  net::ClientReply reply{status, {}, ""};
  if (retry_after != nullptr) reply.headers.emplace_back("retry-after", retry_after);
  return reply;
}

TEST(WaitBeforeAgain, only_a_busy_server_is_asked_again) {
  for (const int status : {200, 400, 403, 404, 413, 500, 504}) {
    EXPECT_FALSE(wait_before_again(status, "1", 0)) << status;
  }
  EXPECT_TRUE(wait_before_again(429, "", 0));
  EXPECT_TRUE(wait_before_again(503, "", 0));
}

TEST(WaitBeforeAgain, as_long_as_the_server_says_within_reason) {
  EXPECT_EQ(wait_before_again(503, "2", 5), Duration::seconds(2));
  EXPECT_EQ(wait_before_again(503, "0", 0), Duration::milliseconds(100));
  EXPECT_EQ(wait_before_again(429, "99999999999", 0), Duration::seconds(60));
}

TEST(WaitBeforeAgain, longer_each_time_when_it_says_nothing_of_use) {
  for (const char* text : {"", "soon", "-1", "1x", "99999999999999999999999"}) {
    EXPECT_EQ(wait_before_again(503, text, 0), Duration::milliseconds(100)) << text;
    EXPECT_EQ(wait_before_again(503, text, 3), Duration::milliseconds(800)) << text;
    EXPECT_EQ(wait_before_again(503, text, 4'000'000'000U), Duration::seconds(10)) << text;
  }
}

TEST(AskPatiently, until_there_is_an_answer) {
  Told told{{with_status(503, "1"), Error(Code::kUnavailable, "away"), with_status(429),
             with_status(200)}};
  EXPECT_EQ(told.ask()->status, 200);
  EXPECT_EQ(told.waited, (std::vector<Duration>{Duration::seconds(1), Duration::milliseconds(200),
                                                Duration::milliseconds(400)}));
  EXPECT_EQ(told.waits, 3u);
}

TEST(AskPatiently, not_for_ever) {
  Told told{{with_status(503, "8")}};
  EXPECT_EQ(told.ask()->status, 503);
  EXPECT_EQ(told.waited.size(), 3u) << "a fourth would be over thirty seconds";
  Told away{{Error(Code::kUnavailable, "away")}};
  EXPECT_EQ(away.ask().error().message, "away");
}

TEST(AskPatiently, what_will_not_change_is_final) {
  Told told{{Error(Code::kUnauthenticated, "who?"), with_status(200)}};
  EXPECT_EQ(told.ask().error().message, "who?");
  EXPECT_TRUE(told.waited.empty());
}

}  // namespace
}  // namespace falaj::cli::batch
