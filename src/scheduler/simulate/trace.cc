#include "scheduler/simulate/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "base/json.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::size_t kColumnsMax = 64;
constexpr std::size_t kNamesMax = 1'000'000;
constexpr std::size_t kNameBytesMax = 255;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

// Where each field stands in a row; -1: the form has no such column.
struct Columns {
  int submit = -1;
  int duration = -1;
  int gpus = -1;
  int tenant = -1;
  int name = -1;
};

using Cells = std::vector<std::string_view>;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

// Quotes are not needed in either form; a quoted cell is refused by what it then fails to be.
void split(std::string_view row, Cells& cells) {
  cells.clear();
  while (cells.size() < kColumnsMax) {
    const std::size_t comma = row.find(',');
    cells.push_back(trimmed(row.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    row.remove_prefix(comma + 1);
  }
}

int column(const Cells& header, std::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

Result<Columns> read_header(std::string_view line) {
  Cells cells;
  split(line, cells);
  Columns ours{.submit = column(cells, "submit"),
               .duration = column(cells, "duration"),
               .gpus = column(cells, "gpus"),
               .tenant = column(cells, "tenant"),
               .name = column(cells, "name")};
  const Columns philly{.submit = column(cells, "timestamp"),
                       .duration = column(cells, "duration"),
                       .gpus = column(cells, "num_gpus"),
                       .tenant = column(cells, "cluster")};
  for (const Columns& form : {ours, philly}) {
    if (form.submit >= 0 && form.duration >= 0 && form.gpus >= 0 && form.tenant >= 0) return form;
  }
  return Error{ErrorId::kMalformedTable,
               "line 1 names neither submit,duration,gpus,tenant nor "
               "timestamp,duration,num_gpus,gpu_time,cluster: '" +
                   std::string(line.substr(0, 120)) + "'"};
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out;
  append_json_string(out, is_valid_utf8(text) ? text.substr(0, kShown) : "(not UTF-8)");
  return out;
}

// Gives each distinct text a number, in the order of first sight.
class Interner {
 public:
  explicit Interner(std::vector<std::string>& texts) : texts_(texts) {
    for (const std::string& text : texts) ids_.emplace(text, ids_.size());
  }
  std::optional<std::uint32_t> id(std::string_view text) {
    const auto found = ids_.find(text);
    if (found != ids_.end()) return static_cast<std::uint32_t>(found->second);
    if (texts_.size() >= kNamesMax) return std::nullopt;
    ids_.emplace(std::string(text), texts_.size());
    texts_.emplace_back(text);
    return static_cast<std::uint32_t>(texts_.size() - 1);
  }

 private:
  std::vector<std::string>& texts_;
  std::map<std::string, std::size_t, std::less<>> ids_;
};

class Reader {
 public:
  Reader(Columns columns, const TraceLimits& limits, Trace& trace)
      : columns_(columns),
        limits_(limits),
        trace_(trace),
        tenants_(trace.tenants),
        names_(trace.names) {}

  // "" when the row became a job; else why it did not.
  std::string read(std::string_view row) {
    if (row.size() > limits_.row_bytes_max) {
      return "longer than " + std::to_string(limits_.row_bytes_max) + " bytes";
    }
    split(row, cells_);
    TraceJob job;
    for (const auto part : {&Reader::read_times, &Reader::read_gpus, &Reader::read_names}) {
      std::string reason = (this->*part)(job);
      if (!reason.empty()) return reason;
    }
    trace_.jobs.push_back(job);
    return "";
  }

 private:
  std::string_view cell(int index) const {
    const auto at = static_cast<std::size_t>(index);
    return index >= 0 && at < cells_.size() ? cells_[at] : std::string_view{};
  }

  std::string read_times(TraceJob& job) {
    const Result<Timestamp> submit = parse_timestamp(cell(columns_.submit));
    if (!submit.ok()) return "no time of submission: " + quoted(cell(columns_.submit));
    const std::optional<double> seconds = number(cell(columns_.duration));
    const double most = limits_.duration_max.as_seconds();
    if (!seconds || *seconds <= 0 || *seconds > most) {
      return "the duration is not in (0, " + std::to_string(static_cast<std::int64_t>(most)) +
             "] seconds: " + quoted(cell(columns_.duration));
    }
    job.submit = *submit;
    // To the microsecond: past it a double of seconds does not say what was meant.
    job.duration = Duration::microseconds(std::llround(*seconds * 1e6));
    return job.duration.nanos > 0 ? "" : "the duration is under a microsecond";
  }

  std::string read_gpus(TraceJob& job) {
    const std::optional<double> gpus = number(cell(columns_.gpus));
    if (!gpus || *gpus < 1 || *gpus > limits_.gpus_max || *gpus != std::floor(*gpus)) {
      return "the GPUs are not a whole number from 1 to " + std::to_string(limits_.gpus_max) +
             ": " + quoted(cell(columns_.gpus));
    }
    job.gpus = static_cast<std::int32_t>(*gpus);
    return "";
  }

  std::string read_names(TraceJob& job) {
    const std::string_view tenant = cell(columns_.tenant);
    const std::string_view name = cell(columns_.name);
    if (tenant.empty()) return "no tenant";
    for (const std::string_view text : {tenant, name}) {
      if (text.size() > kNameBytesMax || !is_valid_utf8(text)) return "a name that is not text";
    }
    const std::optional<std::uint32_t> tenant_id = tenants_.id(tenant);
    const std::optional<std::uint32_t> name_id = names_.id(name);
    if (!tenant_id || !name_id) return "over " + std::to_string(kNamesMax) + " names";
    job.tenant = *tenant_id;
    job.name = *name_id;
    return "";
  }

  Columns columns_;
  const TraceLimits& limits_;
  Trace& trace_;
  Interner tenants_;
  Interner names_;
  Cells cells_;
};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

void refuse(Trace& trace, std::int64_t line, std::string reason) {
  ++trace.refused_rows;
  if (trace.refused.size() < kRefusedRowsKept) trace.refused.push_back({line, std::move(reason)});
}

}  // namespace

Result<Trace> parse_trace(std::string_view csv, const TraceLimits& limits) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (csv.starts_with(kByteOrderMark)) csv.remove_prefix(kByteOrderMark.size());
  const Columns columns = FALAJ_TRY(read_header(next_line(csv)));
  Trace trace;
  Reader reader(columns, limits, trace);
  for (std::int64_t line = 2; !csv.empty(); ++line) {
    const std::string_view row = next_line(csv);
    if (trimmed(row).empty()) continue;
    if (trace.jobs.size() >= limits.rows_max) {
      return Error{ErrorId::kBodyTooLarge,
                   "the trace has over " + std::to_string(limits.rows_max) + " jobs: split it"};
    }
    std::string reason = reader.read(row);
    if (!reason.empty()) refuse(trace, line, std::move(reason));
  }
  if (trace.jobs.empty()) {
    const std::string why = trace.refused.empty()
                                ? "there is none"
                                : "line " + std::to_string(trace.refused.front().line) + ": " +
                                      trace.refused.front().reason;
    return Error{ErrorId::kAllRowsRejected, "the trace has no usable row: " + why};
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
  return trace;
}

std::string to_csv(const Trace& trace) {
  std::string out = "submit,duration,gpus,tenant,name\n";
  for (const TraceJob& job : trace.jobs) {
    out += to_rfc3339(job.submit) + ",";
    std::array<char, 32> digits{};
    const double seconds = static_cast<double>(job.duration.nanos) / kNanosPerSecond;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), seconds).ptr;
    out.append(digits.data(), end);
    out += "," + std::to_string(job.gpus) + "," + trace.tenants[job.tenant] + "," +
           trace.names[job.name] + "\n";
  }
  return out;
}

Trace between(const Trace& trace, Timestamp from, Timestamp to) {
  Trace part;
  part.tenants = trace.tenants;
  part.names = trace.names;
  for (const TraceJob& job : trace.jobs) {
    if (job.submit >= from && job.submit < to) part.jobs.push_back(job);
  }
  return part;
}

}  // namespace falaj::scheduler::simulate
