#include "cli/terminal.h"

#include <gtest/gtest.h>

#include "cli/job_commands.h"

namespace falaj::cli {
namespace {

TEST(Terminal, columns_are_as_wide_as_their_longest_cell_and_numbers_stand_right) {
  Table table({"NAME", "ROWS"});
  table.add({"customer_activity", "7"});
  table.add({"x", "1000"});
  EXPECT_EQ(table.str(),
            "NAME               ROWS\n"
            "customer_activity     7\n"
            "x                  1000\n");
}

TEST(Terminal, width_counts_letters_not_bytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("فلج"), 3u);
  EXPECT_EQ(display_width("→ –"), 3u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
}

TEST(Terminal, cells_are_short) {
  EXPECT_EQ(cell(Value()), "–");
  EXPECT_EQ(cell(Value("")), "–");
  EXPECT_EQ(cell(Value("text")), "text");
  EXPECT_EQ(cell(Value(42)), "42");
  EXPECT_EQ(cell(Value(0.123456)), "0.1235");
  EXPECT_EQ(cell(Value(true)), "true");
}

TEST(Terminal, a_sparkline_shows_the_largest_of_each_part) {
  EXPECT_EQ(sparkline({}, 1, 8), "");
  EXPECT_EQ(sparkline({0, 4, 8}, 8, 8), "▁▅█");
  EXPECT_EQ(sparkline({0, 1}, 0, 8), "▁█") << "without a limit the greatest is the limit";
  EXPECT_EQ(sparkline({0, 0}, 0, 8), "▁▁");
  EXPECT_EQ(sparkline({0, 0, 0, 9, 0, 0, 0, 0}, 9, 2), "█▁") << "a peak is never averaged away";
  EXPECT_EQ(sparkline({100, -1}, 8, 8), "█▁") << "out of range";
}

TEST(UsagePictures, have_lines_for_gpus_only_where_they_were_measured) {
  Value usage;
  EXPECT_EQ(usage_pictures(usage), "");
  usage["memory_bytes"] = Value::Array{Value(1024), Value(2048)};
  usage["memory_max"] = 2048;
  usage["cpus"] = Value::Array{Value(0.0), Value(1.0)};
  usage["cpus_max"] = 1.0;
  const std::string without =
      "# memory ▅█ at most 2.0 KiB of 2.0 KiB\n"
      "# cpus   ▁█ 0.5 of 1\n";
  EXPECT_EQ(usage_pictures(usage), without);
  usage["gpus"] = Value::Array{Value(), Value(1.5)};
  usage["gpus_max"] = 2;
  usage["gpu_memory_bytes"] = Value::Array{Value(0), Value(1 << 30)};
  EXPECT_EQ(usage_pictures(usage), without +
                                       "# gpus   ▁▇ 1.5 of 2\n"
                                       "# gpumem ▁█ at most 1.0 GiB\n");
}

}  // namespace
}  // namespace falaj::cli
