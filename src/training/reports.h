// training/reports.h — what workers report while they run: lines of the file FALAJ_METRICS.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/runs.h"

namespace falaj::training {

// What the lines say: {"metric": "loss", "step": 3, "value": 0.5} a line, {"progress": 0.4} too. A
// point's time is its line's `at` (seconds since 1970, or RFC 3339); without one it is zero, which
// means when it is written down. The newest value of a step counts, other lines are left out. Pure.
struct Reported {
  std::vector<tracking::MetricPoint> points;  // By metric and step; at most 100 000.
  double progress = -1;                       // -1: nothing was said.
};
Reported read_reported(std::string_view lines);

// Follows such a file as it grows. Whatever workers put in its place is not followed: only a
// regular file is read. Of one that was replaced or cut, everything is read again. Copies go on
// independently: keep the copy once what it read is written down. Not thread-safe.
class ReportTail {
 public:
  explicit ReportTail(std::string path) : path_(std::move(path)) {}

  // kLines: a last line that is not ended yet is left for the next time. kEnd: nobody writes any
  // more.
  enum class Until : std::uint8_t { kLines, kEnd };
  // What was appended since, at most a MiB at a time: "" when there is nothing. No more than the
  // first 16 MiB of a file are ever read.
  std::string read(Until until);

 private:
  std::string path_;
  ino_t file_ = 0;
  std::int64_t offset_ = 0;
};

}  // namespace falaj::training
