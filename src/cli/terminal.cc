#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "base/time.h"
#include "config/yaml.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kStageWidth = 12;
constexpr int kBarWidth = 32;

bool colour(int fd) { return isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr; }

bool looks_numeric(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.,-+eE%") == std::string_view::npos;
}

void pad(std::string& out, std::string_view text, std::size_t width, bool right) {
  const std::size_t own = display_width(text);
  const std::string fill(width > own ? width - own : 0, ' ');
  if (right) out += fill;
  out += text;
  if (!right) out += fill;
}

std::string seconds_text(std::int64_t ms) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f s", static_cast<double>(ms) / 1000.0);
  return buffer;
}

}  // namespace

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string bold(std::string_view text) {
  return colour(STDOUT_FILENO) ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}
std::string faint(std::string_view text) {
  return colour(STDOUT_FILENO) ? "\x1b[2m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) == 0x80) continue;         // Inside a code point.
    if (byte == 0xCC || byte == 0xCD) continue;  // Combining marks U+0300–U+036F.
    ++width;
  }
  return width;
}

std::string Table::str() const {
  std::vector<std::size_t> widths(header_.size());
  std::vector<char> numeric(header_.size(), 1);
  for (std::size_t c = 0; c < header_.size(); ++c) {
    widths[c] = display_width(header_[c]);
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], display_width(row[c]));
      if (!looks_numeric(row[c]) && row[c] != "–") numeric[c] = 0;
    }
    if (rows_.empty()) numeric[c] = 0;
  }
  std::string out;
  const auto add_row = [&](const std::vector<std::string>& row, bool head) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      pad(line, row[c], widths[c], numeric[c] != 0);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += head ? bold(line) : line;
    out += '\n';
  };
  add_row(header_, true);
  for (const auto& row : rows_) add_row(row, false);
  return out;
}

Progress::Progress(std::string stage, std::string_view what)
    : stage_(std::move(stage)), started_(monotonic_nanos()) {
  draw(0, what);
}

Progress::~Progress() {
  if (finished_) return;
  if (stderr_is_terminal()) std::fputs("\r\x1b[2K", stderr);
  std::fprintf(stderr, "✗ %-*s %s\n", static_cast<int>(kStageWidth), stage_.c_str(),
               seconds_text(elapsed_ms()).c_str());
}

std::int64_t Progress::elapsed_ms() const { return (monotonic_nanos() - started_) / 1'000'000; }

void Progress::set(double share, std::string_view note) {
  const std::int64_t now = monotonic_nanos();
  if (now - drawn_ < 50'000'000) return;  // Twenty frames a second are enough for eyes.
  draw(share, note);
}

void Progress::draw(double share, std::string_view note) {
  drawn_ = monotonic_nanos();
  if (!stderr_is_terminal()) return;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < filled ? "━" : (i == filled ? "╸" : " ");
  std::string line = "\r\x1b[2K  ";
  pad(line, stage_, kStageWidth, false);
  const char* on = colour(STDERR_FILENO) ? "\x1b[36m" : "";
  const char* off = colour(STDERR_FILENO) ? "\x1b[0m" : "";
  std::fprintf(stderr, "%s %s%s%s %3d %%  %.*s", line.c_str(), on, bar.c_str(), off,
               static_cast<int>(share * 100), static_cast<int>(note.size()), note.data());
  std::fflush(stderr);
}

void Progress::done(std::string_view result) {
  finished_ = true;
  if (stderr_is_terminal()) std::fputs("\r\x1b[2K", stderr);
  std::string line;
  pad(line, stage_, kStageWidth, false);
  std::string time;
  pad(time, seconds_text(elapsed_ms()), 8, true);
  std::fprintf(stderr, "✓ %s%s   %.*s\n", line.c_str(), time.c_str(),
               static_cast<int>(result.size()), result.data());
}

std::string sparkline(const std::vector<double>& values, double most, std::size_t width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kSteps = 8;
  const std::size_t parts = std::min(values.size(), width);
  if (most <= 0 && !values.empty()) most = *std::max_element(values.begin(), values.end());
  std::string out;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(part * values.size() / parts);
    const auto end =
        values.begin() + static_cast<std::ptrdiff_t>((part + 1) * values.size() / parts);
    const double share = most > 0 ? *std::max_element(begin, end) / most : 0;
    out += kBars[static_cast<std::size_t>(std::clamp(share * kSteps, 0.0, kSteps - 1))];
  }
  return out;
}

void print(OutputFormat format, const Value& value, const std::string& table) {
  std::string text = table;
  if (format == OutputFormat::kJson) text = to_pretty_json(value) + "\n";
  if (format == OutputFormat::kYaml) text = config::to_yaml(value);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string cell(const Value& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return value.as_string().empty() ? "–" : value.as_string();
  if (value.is_number() && !value.is_int()) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.4g", value.as_double());
    return buffer;
  }
  return to_json(value);
}

}  // namespace falaj::cli
