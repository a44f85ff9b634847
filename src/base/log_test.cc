#include "base/log.h"

#include <gtest/gtest.h>

namespace falaj {
namespace {

class KeepingSink final : public log::Sink {
 public:
  void write(log::Level level, std::string_view event,
             const std::vector<log::Field>& fields) override {
    levels.push_back(level);
    events.emplace_back(event);
    last = fields;
  }
  std::vector<log::Level> levels;
  std::vector<std::string> events;
  std::vector<log::Field> last;
};

TEST(Log, passes_events_at_or_above_the_level) {
  KeepingSink sink;
  log::set_sink(&sink, log::Level::kWarn);
  log::debug("a");
  log::info("b");
  log::warn("c");
  log::error("d", {{"rows", 3u}, {"share", 0.5}, {"name", "x"}});
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_TRUE(log::enabled(log::Level::kWarn));
  log::set_sink(nullptr, log::Level::kDebug);
  EXPECT_FALSE(log::enabled(log::Level::kError));
  log::error("dropped");
  EXPECT_EQ(sink.events, (std::vector<std::string>{"c", "d"}));
  ASSERT_EQ(sink.last.size(), 3u);
  EXPECT_EQ(std::get<std::int64_t>(sink.last[0].value), 3);
  EXPECT_EQ(std::get<double>(sink.last[1].value), 0.5);
  EXPECT_EQ(std::get<std::string>(sink.last[2].value), "x");
}

}  // namespace
}  // namespace falaj
