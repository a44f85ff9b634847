#include "net/internal/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace falaj::net {
namespace {

std::vector<std::string> events_of(std::string_view bytes, std::size_t step) {
  std::vector<std::string> events;
  EventReader reader(1 << 20);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    EXPECT_EQ(reader.feed(bytes.substr(at, step),
                          [&](std::string_view data) {
                            events.emplace_back(data);
                            return true;
                          }),
              EventReader::Outcome::kMore);
  }
  return events;
}

TEST(EventReader, reads_the_same_events_however_the_bytes_are_cut) {
  constexpr std::string_view kBytes =
      ": comment\n\nevent: x\ndata: one\nid: 7\n\ndata:two\r\ndata:  three\r\n\r\n"
      "data\n\nretry: 5\rdata: four\r\rdata: unfinished";
  const std::vector<std::string> want{"one", "two\n three", "", "four"};
  for (std::size_t step = 1; step <= kBytes.size(); ++step) {
    EXPECT_EQ(events_of(kBytes, step), want) << step;
  }
}

TEST(EventReader, stops_when_told_and_bounds_an_event) {
  EventReader reader(64);
  int seen = 0;
  const auto once = [&](std::string_view) { return ++seen < 2; };
  EXPECT_EQ(reader.feed("data: a\n\ndata: b\n\ndata: c\n\n", once), EventReader::Outcome::kStopped);
  EXPECT_EQ(seen, 2);
  EventReader bounded(64);
  EXPECT_EQ(bounded.feed(std::string(65, 'x'), once), EventReader::Outcome::kTooLarge);
}

}  // namespace
}  // namespace falaj::net
