#include "telemetry/log_sinks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/json.h"

namespace falaj::telemetry {
namespace {

// A pipe whose end can be read as text.
class Capture {
 public:
  Capture() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Capture() { ::close(ends_[0]); }
  int fd() const { return ends_[1]; }
  std::string text() {
    ::close(ends_[1]);
    std::string out;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(ends_[0], part, sizeof part)) > 0;) {
      out.append(part, static_cast<std::size_t>(got));
    }
    return out;
  }

 private:
  int ends_[2];
};

TEST(LogSink, writes_json_lines) {
  Capture capture;
  const FakeClock clock(Timestamp{1'780'000'000'123'456'789});
  const auto sink = make_log_sink(LogFormat::kJson, capture.fd(), clock);
  sink->write(log::Level::kWarn, "model \"x\" loaded",
              {{"version", 3}, {"auc", 0.5}, {"name", "two\nlines\xff"}});
  const std::string text = capture.text();
  ASSERT_EQ(text.back(), '\n');
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line only";
  const auto line = parse_json(text.substr(0, text.size() - 1));
  ASSERT_TRUE(line.ok()) << text;
  EXPECT_EQ(line->text("time"), "2026-05-28T20:26:40.123Z");
  EXPECT_EQ(line->text("level"), "warn");
  EXPECT_EQ(line->text("event"), "model \"x\" loaded");
  EXPECT_EQ(line->integer("version"), 3);
  EXPECT_EQ(line->number("auc"), 0.5);
  EXPECT_EQ(line->text("name"), "two\nlines\xef\xbf\xbd");
}

TEST(LogSink, writes_text_that_no_value_can_forge) {
  Capture capture;
  const FakeClock clock(Timestamp::from_seconds(1'780'000'000));
  const auto sink = make_log_sink(LogFormat::kText, capture.fd(), clock);
  sink->write(log::Level::kInfo, "model loaded",
              {{"version", 3}, {"name", "a\nERROR forged"}, {"empty", ""}, {"bare", "x.y/z"}});
  EXPECT_EQ(capture.text(),
            "2026-05-28T20:26:40Z INFO  model loaded version=3 name=\"a\\nERROR forged\" "
            "empty=\"\" bare=x.y/z\n");
}

TEST(LogSink, lines_of_threads_never_mix) {
  std::string path = testing::TempDir() + "falaj_log_XXXXXX";
  const int fd = ::mkstemp(path.data());
  ASSERT_GE(fd, 0);
  const FakeClock clock;
  const auto sink = make_log_sink(LogFormat::kJson, fd, clock);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&sink, t] {
      const std::string long_text(3'000, static_cast<char>('a' + t));
      for (int i = 0; i < 50; ++i) sink->write(log::Level::kInfo, "e", {{"text", long_text}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::close(fd);
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const auto parsed = parse_json(line);
    ASSERT_TRUE(parsed.ok()) << line;
    ASSERT_EQ(parsed->text("text").size(), 3'000u);
  }
  EXPECT_EQ(lines, 200);
  ::unlink(path.c_str());
}

TEST(LogSink, knows_the_levels) {
  EXPECT_EQ(*parse_log_level("warn"), log::Level::kWarn);
  EXPECT_EQ(parse_log_level("loud").error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace falaj::telemetry
