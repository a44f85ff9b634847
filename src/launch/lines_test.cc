#include "launch/lines.h"

#include <gtest/gtest.h>

namespace falaj::launch {
namespace {

std::vector<std::string> cut(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  LineCutter cutter;
  const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) cutter.feed(piece, keep);
  cutter.finish(keep);
  return lines;
}

TEST(Lines, pieces_become_lines_wherever_they_were_cut) {
  EXPECT_EQ(cut({"one\ntw", "o\n", "\n", "three"}),
            (std::vector<std::string>{"one", "two", "", "three"}));
  EXPECT_EQ(cut({"one\n"}), (std::vector<std::string>{"one"}));
  EXPECT_TRUE(cut({}).empty());
}

TEST(Lines, a_line_without_end_is_handed_on_in_pieces) {
  const std::vector<std::string> lines = cut({std::string(40'000, 'x'), "\nnext\n"});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].size() + lines[1].size() + lines[2].size(), 40'000u);
  EXPECT_EQ(lines[3], "next");
}

TEST(Lines, the_tail_keeps_the_last_ones) {
  Tail tail;
  for (int i = 0; i < 100; ++i) tail.add(std::to_string(i));
  tail.add(std::string(10'000, 'x'));
  ASSERT_EQ(tail.lines().size(), Tail::kLines);
  EXPECT_EQ(tail.lines().front(), "81");
  EXPECT_EQ(tail.lines().back().size(), 512u);
  tail.add("caf\xc3\xa9");
  EXPECT_EQ(tail.lines().back(), "caf\xc3\xa9");
  tail.add("caf\xff");
  EXPECT_EQ(tail.lines().back(), "caf?");
}

}  // namespace
}  // namespace falaj::launch
