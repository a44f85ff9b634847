#include "table/internal/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "base/json.h"
#include "table/internal/csv_scanner.h"

namespace falaj::table {
namespace {

constexpr std::size_t kColumnsMax = 10'000;
constexpr std::size_t kInferBytes = 64u << 10;
constexpr std::size_t kPrintedMax = 4096;
constexpr std::size_t kQuotedValueMax = 64;
// A batch of long rows ends early: 65 536 rows of 1 MiB would not fit in memory.
constexpr std::size_t kBatchBytesMax = 64u << 20;

// One cell as its column's type wants it. `text` points into the row.
struct Parsed {
  bool null = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stopped == end;
}

bool same_word(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

bool parse_bool(std::string_view text, std::int64_t& out) {
  out = text == "1" || same_word(text, "true") ? 1 : 0;
  return out == 1 || text == "0" || same_word(text, "false");
}

bool parse_time(std::string_view text, std::int64_t& out) {
  const Result<Timestamp> time = parse_timestamp(text);
  if (time.ok()) out = time->nanos;
  return time.ok();
}

bool parse_cell(const CsvCell& cell, Type type, Parsed& out) {
  if (type == Type::kString) {
    out.null = cell.text.empty() && !cell.quoted;
    out.text = cell.text;
    return true;
  }
  const std::string_view text = trimmed(cell.text);
  out.null = text.empty();
  if (out.null) return true;
  switch (type) {
    case Type::kInt64:
      return parse_number(text, out.integer);
    case Type::kFloat64:
      return parse_number(text, out.real);
    case Type::kBool:
      return parse_bool(text, out.integer);
    case Type::kTimestamp:
      return parse_time(text, out.integer);
    case Type::kString:
      break;
  }
  return false;
}

void push(Column& column, const Parsed& cell) {
  if (cell.null) return column.push_null();
  switch (column.type()) {
    case Type::kInt64:
    case Type::kTimestamp:
      return column.push_int(cell.integer);
    case Type::kFloat64:
      return column.push_double(cell.real);
    case Type::kBool:
      return column.push_bool(cell.integer != 0);
    case Type::kString:
      return column.push_string(cell.text);
  }
}

std::string shown(std::string_view value) {
  std::string out = printable_row(value.substr(0, kQuotedValueMax));
  if (value.size() > kQuotedValueMax) out += "…";
  return "\"" + out + "\"";
}

// Empty when the text may be kept as it stands.
std::string_view text_defect(std::string_view raw) {
  if (std::memchr(raw.data(), 0, raw.size()) != nullptr) return "the row holds a NUL byte";
  if (!is_valid_utf8(raw)) return "the row is not valid UTF-8";
  return {};
}

Error at_line(std::uint64_t line, std::string_view what) {
  return Error(ErrorId::kMalformedTable,
               "CSV line " + std::to_string(line) + ": " + std::string(what));
}

bool is_blank(const CsvRow& row) {
  return row.cells.size() == 1 && row.cells[0].text.empty() && !row.cells[0].quoted;
}

Result<std::vector<std::string>> read_header(CsvScanner& scanner) {
  CsvRow row;
  if (!FALAJ_TRY(scanner.next(row)) || is_blank(row)) {
    return at_line(1, "there is no header; the first line must name the columns");
  }
  if (!row.defect.empty()) return at_line(1, "header: " + std::string(row.defect));
  if (const auto defect = text_defect(row.raw); !defect.empty()) return at_line(1, defect);
  if (row.cells.size() > kColumnsMax) return at_line(1, "over 10000 columns");

  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const CsvCell& cell : row.cells) {
    std::string_view name = cell.text;
    if (names.empty() && name.starts_with("\xEF\xBB\xBF")) name.remove_prefix(3);
    if (name.empty()) {
      return at_line(1, "column " + std::to_string(names.size() + 1) + " has no name");
    }
    if (!seen.insert(name).second) return at_line(1, "two columns are named " + shown(name));
    names.emplace_back(name);
  }
  return names;
}

// Which of the five types all cells of a column can be read as.
class TypeGuess {
 public:
  void see(const CsvCell& cell) {
    if (trimmed(cell.text).empty()) return;
    seen_ = true;
    for (std::size_t i = 0; i < kOrder.size(); ++i) {
      Parsed ignored;
      if (fits_[i]) fits_[i] = parse_cell(cell, kOrder[i], ignored);
    }
  }
  Type type() const {
    for (std::size_t i = 0; seen_ && i < kOrder.size(); ++i) {
      if (fits_[i]) return kOrder[i];
    }
    return Type::kString;
  }

 private:
  static constexpr std::array<Type, 4> kOrder = {Type::kInt64, Type::kFloat64, Type::kBool,
                                                 Type::kTimestamp};
  std::array<bool, 4> fits_ = {true, true, true, true};
  bool seen_ = false;
};

Result<Schema> infer(std::string_view head) {
  const ByteSource source = [head](char* to, std::size_t room) mutable -> Result<std::size_t> {
    const std::size_t count = std::min(room, head.size());
    std::memcpy(to, head.data(), count);
    head.remove_prefix(count);
    return count;
  };
  CsvScanner scanner(source);
  const std::vector<std::string> names = FALAJ_TRY(read_header(scanner));
  std::vector<TypeGuess> guesses(names.size());
  CsvRow row;
  while (FALAJ_TRY(scanner.next(row))) {
    if (!row.defect.empty() || row.cells.size() != names.size()) continue;
    for (std::size_t i = 0; i < names.size(); ++i) guesses[i].see(row.cells[i]);
  }
  Schema schema;
  for (std::size_t i = 0; i < names.size(); ++i) {
    schema.fields.push_back({names[i], guesses[i].type()});
  }
  return schema;
}

// The head up to its last whole line, so that a number cut in two does not decide a type.
std::string_view whole_lines(std::string_view head, const CsvScanner& scanner) {
  if (scanner.ended() && head.size() < kInferBytes) return head;
  const std::size_t last = head.rfind('\n');
  return last == std::string_view::npos ? head : head.substr(0, last + 1);
}

class CsvReader {
 public:
  CsvReader(const ByteSource& source, const ReadOptions& options, const OnBatch& on_batch)
      : scanner_(source), options_(options), on_batch_(on_batch) {}

  Status run() {
    FALAJ_TRY(choose_columns());
    CsvRow row;
    while (FALAJ_TRY(scanner_.next(row))) {
      FALAJ_TRY(take(row));
      const bool full = lines_.size() >= options_.batch_rows || batch_bytes_ >= kBatchBytesMax;
      if (full) FALAJ_TRY(flush());
    }
    return lines_.empty() ? Status() : flush();
  }

 private:
  Status choose_columns() {
    schema_ = options_.schema;
    if (schema_.fields.empty()) {
      const std::string_view head = FALAJ_TRY(scanner_.peek(kInferBytes));
      schema_ = FALAJ_TRY(infer(whole_lines(head, scanner_)));
    }
    const std::vector<std::string> names = FALAJ_TRY(read_header(scanner_));
    cells_ = names.size();
    for (const Field& field : schema_.fields) {
      const auto found = std::find(names.begin(), names.end(), field.name);
      if (found == names.end()) {
        return Error(ErrorId::kSchemaMismatch, "the CSV file has no column " + shown(field.name) +
                                                   "; it has " + std::to_string(names.size()) +
                                                   ", the first is " + shown(names[0]));
      }
      positions_.push_back(static_cast<std::size_t>(found - names.begin()));
    }
    parsed_.resize(schema_.fields.size());
    start_batch();
    return {};
  }

  void start_batch() {
    batch_ = Batch(schema_);
    // The batch before is the best guess of the size of this one.
    for (Column& column : batch_.columns) column.reserve(lines_.size());
    lines_.clear();
    batch_bytes_ = 0;
  }

  Status take(const CsvRow& row) {
    if (!row.defect.empty()) return refuse(row, std::string(row.defect));
    if (is_blank(row) && cells_ > 1) return {};  // An empty line is no row.
    if (row.cells.size() != cells_) {
      return refuse(row, "the row has " + std::to_string(row.cells.size()) +
                             " cells, the header has " + std::to_string(cells_));
    }
    if (const auto defect = text_defect(row.raw); !defect.empty()) {
      return refuse(row, std::string(defect));
    }
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      const CsvCell& cell = row.cells[positions_[i]];
      if (parse_cell(cell, schema_.fields[i].type, parsed_[i])) continue;
      return refuse(row, "column \"" + schema_.fields[i].name + "\": " + shown(cell.text) +
                             " is not a valid " + std::string(type_name(schema_.fields[i].type)));
    }
    for (std::size_t i = 0; i < parsed_.size(); ++i) push(batch_.columns[i], parsed_[i]);
    lines_.push_back(row.line);
    batch_bytes_ += row.raw.size();
    return {};
  }

  Status refuse(const CsvRow& row, std::string reason) {
    if (!options_.on_bad_row) return at_line(row.line, reason);
    options_.on_bad_row({row.line, std::move(reason), printable_row(row.raw)});
    return {};
  }

  Status flush() {
    const Status status = on_batch_(std::move(batch_), lines_);
    start_batch();
    return status;
  }

  CsvScanner scanner_;
  const ReadOptions& options_;
  const OnBatch& on_batch_;
  Schema schema_;
  std::size_t cells_ = 0;               // Of the header.
  std::vector<std::size_t> positions_;  // Of each wanted column in the file.
  std::vector<Parsed> parsed_;
  Batch batch_;
  std::vector<std::uint64_t> lines_;
  std::size_t batch_bytes_ = 0;
};

void append_text(std::string& out, std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\n\r") == std::string_view::npos) {
    out.append(text);
    return;
  }
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
}

void append_cell(std::string& out, const Column& column, std::size_t row) {
  if (column.is_null(row)) return;
  std::array<char, 32> digits{};
  const auto number = [&](auto value) {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
  };
  switch (column.type()) {
    case Type::kInt64:
      return number(column.ints()[row]);
    case Type::kFloat64:
      return number(column.doubles()[row]);
    case Type::kBool:
      out.append(column.bools()[row] != 0 ? "true" : "false");
      return;
    case Type::kTimestamp:
      out.append(to_rfc3339(Timestamp{column.ints()[row]}));
      return;
    case Type::kString:
      return append_text(out, column.strings()[row]);
  }
}

}  // namespace

Status read_csv(const ByteSource& source, const ReadOptions& options, const OnBatch& on_batch) {
  return CsvReader(source, options, on_batch).run();
}

Result<Schema> infer_csv_schema(const ByteSource& source) {
  CsvScanner scanner(source);
  const std::string_view head = FALAJ_TRY(scanner.peek(kInferBytes));
  return infer(whole_lines(head, scanner));
}

void append_csv(std::string& out, const Batch& batch) {
  append_csv_header(out, batch.schema);
  append_csv_rows(out, batch);
}

void append_csv_header(std::string& out, const Schema& schema) {
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_text(out, schema.fields[i].name);
  }
  out.push_back('\n');
}

void append_csv_rows(std::string& out, const Batch& batch) {
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    for (std::size_t i = 0; i < batch.columns.size(); ++i) {
      if (i > 0) out.push_back(',');
      append_cell(out, batch.columns[i], row);
    }
    out.push_back('\n');
  }
}

std::string printable_row(std::string_view bytes) {
  const std::string_view kept = bytes.substr(0, kPrintedMax);
  if (text_defect(kept).empty()) return std::string(kept);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < kept.size() && out.size() + 4 <= kPrintedMax;) {
    // The longest valid sequence that begins here, if any.
    std::size_t length = 1;
    while (length <= 4 && i + length <= kept.size() && !is_valid_utf8(kept.substr(i, length))) {
      ++length;
    }
    const bool valid = length <= 4 && i + length <= kept.size() && kept[i] != '\0';
    if (valid) {
      out.append(kept.substr(i, length));
      i += length;
      continue;
    }
    const auto byte = static_cast<unsigned char>(kept[i]);
    out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    ++i;
  }
  return out;
}

}  // namespace falaj::table
