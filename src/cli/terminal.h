// cli/terminal.h — what people see: tables, progress, colour; quiet when nobody looks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"

namespace falaj::cli {

enum class OutputFormat : std::uint8_t { kTable, kJson, kYaml };

// Data goes to standard output, messages to standard error. Colour only on a terminal and without
// NO_COLOR.
bool stdout_is_terminal();
bool stderr_is_terminal();
std::string bold(std::string_view text);   // For standard output.
std::string faint(std::string_view text);  // For standard output.

// Columns as wide as their longest cell; numbers right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  std::string str() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// The number of terminal columns a UTF-8 text takes (one a code point; combining marks none).
std::size_t display_width(std::string_view text);

// A bar on standard error while something long runs:
//   train      ━━━━━━━━━━━━━━━━━━━━━━━╸         71 %  auc 0.913
// Redrawn in place on a terminal; elsewhere one line when the stage is done. Not thread-safe.
class Progress {
 public:
  Progress(std::string stage, std::string_view what);
  ~Progress();  // Without done(): marks the stage as failed.
  void set(double share, std::string_view note = "");
  // Ends the stage with its result: "✓ train   3.1 s   auc 0.913".
  void done(std::string_view result);
  std::int64_t elapsed_ms() const;

 private:
  void draw(double share, std::string_view note);
  std::string stage_;
  std::int64_t started_ = 0;
  std::int64_t drawn_ = 0;
  bool finished_ = false;
};

// "▁▂▅█": values from 0 to `most` (their own greatest when that is 0), the largest of each of at
// most `width` parts; "" for none.
std::string sparkline(const std::vector<double>& values, double most, std::size_t width);

// Prints a value: JSON or YAML as asked; kTable prints `table`.
void print(OutputFormat format, const Value& value, const std::string& table);

// A cell: texts as they are, numbers short, null as "–".
std::string cell(const Value& value);

}  // namespace falaj::cli
