#include "training/reports.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>

#include "base/descriptor.h"
#include "base/json.h"

namespace falaj::training {
namespace {

constexpr std::size_t kPointsMax = 100'000;
constexpr std::size_t kMetricNameMax = 128;
constexpr std::size_t kLineMax = 4096;
constexpr std::int64_t kAtOnce = std::int64_t{1} << 20;
constexpr std::int64_t kFileMax = std::int64_t{16} << 20;
constexpr double kSecondsMost = 4e9;  // The year 2096: past it a clock is wrong.

// Zero when it says none, or none that can be meant.
Timestamp time_of(const Value& line) {
  const Value& at = line["at"];
  if (at.is_number() && at.as_double() > 0 && at.as_double() < kSecondsMost) {
    return {static_cast<std::int64_t>(at.as_double() * 1e6) * 1000};
  }
  if (!at.is_string()) return {};
  const auto time = parse_timestamp(at.as_string());
  return time.ok() ? *time : Timestamp{};
}

}  // namespace

Reported read_reported(std::string_view lines) {
  Reported out;
  std::map<std::pair<std::string, std::int64_t>, std::pair<double, Timestamp>> newest;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (line.empty()) continue;
    const auto value = parse_json(line, {.bytes_max = kLineMax, .depth_max = 4});
    if (!value.ok() || !value->is_object()) continue;
    const double progress = value->number("progress", -1);
    if (progress >= 0 && progress <= 1) out.progress = progress;
    const std::string metric = value->text("metric");
    const Value& figure = (*value)["value"];
    if (metric.empty() || metric.size() > kMetricNameMax || !figure.is_number() ||
        !std::isfinite(figure.as_double())) {
      continue;
    }
    const std::pair key(metric, value->integer("step"));
    if (newest.size() < kPointsMax || newest.contains(key)) {
      newest[key] = {figure.as_double(), time_of(*value)};
    }
  }
  for (const auto& [key, figure] : newest) {
    out.points.push_back({key.first, key.second, figure.first, figure.second});
  }
  return out;
}

std::string ReportTail::read(Until until) {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return "";
  if (about.st_ino != file_ || about.st_size < offset_) {
    file_ = about.st_ino;
    offset_ = 0;
  }
  const std::int64_t there = std::min<std::int64_t>(about.st_size, kFileMax) - offset_;
  if (there <= 0) return "";
  std::string bytes(static_cast<std::size_t>(std::min(there, kAtOnce)), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::pread(file.get(), bytes.data() + got, bytes.size() - got,
                                 offset_ + static_cast<std::int64_t>(got));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  // Up to the end of a line, unless there will be none: a line that fills everything is no report.
  const bool last = static_cast<std::int64_t>(got) == there;
  const bool full = static_cast<std::int64_t>(got) == kAtOnce;
  const std::size_t line_end = bytes.rfind('\n');
  if (line_end != std::string::npos && !(last && until == Until::kEnd)) {
    bytes.resize(line_end + 1);
  } else if (line_end == std::string::npos && until == Until::kLines && !full) {
    return "";
  }
  offset_ += static_cast<std::int64_t>(bytes.size());
  return bytes;
}

}  // namespace falaj::training
