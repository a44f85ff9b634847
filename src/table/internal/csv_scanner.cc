#include "table/internal/csv_scanner.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace falaj::table {
namespace {

constexpr std::size_t kSkippedKept = 4096;

// Bytes that end the scan of a plain cell.
constexpr std::array<bool, 256> make_stops() {
  std::array<bool, 256> stops{};
  for (const char c : {',', '\n', '\r', '"'}) stops[static_cast<unsigned char>(c)] = true;
  return stops;
}
constexpr std::array<bool, 256> kStops = make_stops();

std::string without_doubled_quotes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] == '"') ++i;
  }
  return out;
}

}  // namespace

Status CsvScanner::refill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t had = buffer_.size();
  buffer_.resize(had + chunk_);
  chunk_ = std::min(chunk_ * 2, kChunkMax);
  std::size_t filled = had;
  while (filled < buffer_.size()) {
    const std::size_t got = FALAJ_TRY(source_(buffer_.data() + filled, buffer_.size() - filled));
    if (got == 0) {
      ended_ = true;
      break;
    }
    filled += got;
  }
  buffer_.resize(filled);
  return {};
}

Result<std::string_view> CsvScanner::peek(std::size_t bytes) {
  if (available() - begin_ < bytes && !ended_) FALAJ_TRY(refill());
  return view(begin_, std::min(available(), begin_ + bytes));
}

Result<bool> CsvScanner::next(CsvRow& row) {
  while (true) {
    row.cells.clear();
    row.defect = {};
    row.line = line_;
    unescaped_.clear();
    lines_inside_ = 0;
    if (begin_ == available()) {
      if (ended_) return false;
      FALAJ_TRY(refill());
      continue;
    }
    const Step step = scan_row(row);
    if (step == Step::kNeedMore) {
      FALAJ_TRY(refill());
      continue;
    }
    if (step == Step::kDefect) FALAJ_TRY(skip_line(row));
    return true;
  }
}

// Scans from begin_; a whole row moves begin_ behind its line end.
CsvScanner::Step CsvScanner::scan_row(CsvRow& row) {
  std::size_t at = begin_;
  Step step = Step::kNextCell;
  while (step == Step::kNextCell) {
    const bool quoted = at < available() && buffer_[at] == '"';
    step = quoted ? scan_quoted(row, at) : scan_plain(row, at);
    if (step == Step::kNeedMore && available() - begin_ > kRowBytesMax) {
      row.defect = quoted ? "a quote is not closed within 1 MiB" : "the row is over 1 MiB";
      return Step::kDefect;
    }
  }
  if (step != Step::kRowEnd) return step;
  if (raw_end_ - begin_ > kRowBytesMax) {
    row.defect = "the row is over 1 MiB";
    return Step::kDefect;
  }
  row.raw = view(begin_, raw_end_);
  begin_ = at;
  line_ += 1 + lines_inside_;
  return Step::kRowEnd;
}

CsvScanner::Step CsvScanner::scan_quoted(CsvRow& row, std::size_t& at) {
  const std::size_t start = at + 1;
  std::size_t close = start;
  bool doubled = false;
  while (true) {
    close = buffer_.find('"', close);
    if (close == std::string::npos) {
      if (!ended_) return Step::kNeedMore;
      row.defect = "a quote is not closed";
      return Step::kDefect;
    }
    if (close + 1 == available() && !ended_) return Step::kNeedMore;
    if (close + 1 == available() || buffer_[close + 1] != '"') break;
    doubled = true;
    close += 2;
  }
  std::string_view text = view(start, close);
  lines_inside_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  if (doubled) text = unescaped_.emplace_back(without_doubled_quotes(text));
  row.cells.push_back({text, true});
  at = close + 1;
  return after_cell(row, at, "there is text after a closing quote");
}

CsvScanner::Step CsvScanner::scan_plain(CsvRow& row, std::size_t& at) {
  const char* const data = buffer_.data();
  const std::size_t start = at;
  const std::size_t end = available();
  while (at < end && !kStops[static_cast<unsigned char>(data[at])]) ++at;
  row.cells.push_back({view(start, at), false});
  return after_cell(row, at, "there is a quote inside a cell that does not begin with one");
}

CsvScanner::Step CsvScanner::after_cell(CsvRow& row, std::size_t& at, std::string_view otherwise) {
  raw_end_ = at;
  if (at == available()) return ended_ ? Step::kRowEnd : Step::kNeedMore;
  const char c = buffer_[at];
  if (c == ',') {
    ++at;
    return Step::kNextCell;
  }
  if (c == '\n') {
    ++at;
    return Step::kRowEnd;
  }
  if (c == '\r') {
    if (at + 1 == available() && !ended_) return Step::kNeedMore;
    if (at + 1 == available() || buffer_[at + 1] == '\n') {
      at = std::min(at + 2, available());
      return Step::kRowEnd;
    }
    row.defect = "there is a carriage return without a line feed";
    return Step::kDefect;
  }
  row.defect = otherwise;
  return Step::kDefect;
}

Status CsvScanner::skip_line(CsvRow& row) {
  skipped_.clear();
  ++line_;
  while (true) {
    const std::size_t stop = std::min(buffer_.find('\n', begin_), available());
    const std::size_t keep = std::min(stop - begin_, kSkippedKept - skipped_.size());
    skipped_.append(buffer_, begin_, keep);
    if (stop < available()) {
      begin_ = stop + 1;
      break;
    }
    begin_ = stop;
    if (ended_) break;
    FALAJ_TRY(refill());
  }
  if (skipped_.ends_with('\r')) skipped_.pop_back();
  row.raw = skipped_;
  return {};
}

}  // namespace falaj::table
