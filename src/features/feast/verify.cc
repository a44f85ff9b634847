#include "features/feast/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "features/feast/internal/source_index.h"
#include "features/internal/segment_file.h"
#include "features/internal/segments.h"
#include "features/key.h"
#include "features/point_in_time_join.h"

namespace falaj::features::feast {
namespace {

using table::Batch;
using table::Column;
using table::Type;

// ---- The exact answers -------------------------------------------------------------------------

// The rows as an ingest would have kept them; those without a key or a time are in no segment.
Batch segment_rows(const ViewPlan& view, const Batch& rows) {
  Entity entity;
  entity.keys = view.keys;
  FeatureView declared;
  for (const table::Field& each : view.features) {
    declared.features.push_back({each.name, each.type, {}});
  }
  Batch all;
  all.schema = segment_schema(declared, entity);
  for (const table::Field& key : view.keys) all.columns.push_back(*rows.find(key.name));
  all.columns.push_back(*rows.find(view.event_time));
  if (view.created_time.empty()) {
    all.columns.push_back(
        Column(Type::kTimestamp).take(std::vector<std::uint32_t>(rows.rows(), Column::kNoRow)));
  } else {
    all.columns.push_back(*rows.find(view.created_time));
  }
  std::vector<std::int64_t> positions(rows.rows());
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
  all.columns.push_back(Column::of_ints(Type::kInt64, std::move(positions)));
  for (const table::Field& each : view.features) all.columns.push_back(*rows.find(each.name));

  std::vector<std::uint32_t> kept;
  for (std::uint32_t row = 0; row < rows.rows(); ++row) {
    bool null = false;
    for (std::size_t i = 0; i <= view.keys.size(); ++i) null = null || all.columns[i].is_null(row);
    if (!null) kept.push_back(row);
  }
  return all.take(kept);
}

Result<Batch> exact_answers(const CompareInput& input) {
  const ViewPlan& view = input.view;
  JoinView joined;
  joined.name = view.name;
  joined.keys = view.keys;
  joined.ttl = view.ttl;
  for (const table::Field& each : view.features) joined.features.push_back({each, each.name});
  Batch rows = segment_rows(view, input.rows);
  if (rows.rows() > 0) {
    TextWriter writer;
    FALAJ_TRY(write_segment_file(writer, sorted_rows(std::move(rows), view.keys.size()),
                                 view.keys.size()));
    auto bytes = std::make_shared<TextReader>(writer.take());
    auto file = std::make_shared<SegmentFile>(FALAJ_TRY(SegmentFile::open(std::move(bytes))));
    joined.segments.push_back({std::move(file), 1});
  }
  JoinOptions options;
  options.time_column = input.time_column;
  return point_in_time_join(input.spine, {joined}, options);
}

// ---- Which answer belongs to which spine row ---------------------------------------------------

std::optional<std::int64_t> whole_at(const Column& column, std::size_t row) {
  if (column.is_null(row)) return std::nullopt;
  if (column.type() == Type::kInt64 || column.type() == Type::kTimestamp) {
    return column.ints()[row];
  }
  const double number = column.number_at(row);
  if (!(std::abs(number) < 0x1p62)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// Keys and time of a row: equal texts for equal ones.
class Spots {
 public:
  // FJ-3002 naming a column that is not there.
  static Result<Spots> of(const Batch& batch, const CompareInput& input, const char* what) {
    Spots out;
    std::vector<std::string> names;
    for (const table::Field& key : input.view.keys) names.push_back(key.name);
    names.push_back(input.time_column);
    for (const std::string& name : names) {
      out.columns_.push_back(batch.find(name));
      if (out.columns_.back() == nullptr) {
        return Error(ErrorId::kSchemaMismatch,
                     std::string(what) + " lack the column \"" + name + "\"");
      }
    }
    return out;
  }
  std::string at(std::size_t row) const {
    std::string out;
    for (const Column* column : columns_) {
      if (column->type() == Type::kString && !column->is_null(row)) {
        append_key_part(out, column->strings()[row]);
        continue;
      }
      const std::optional<std::int64_t> number = whole_at(*column, row);
      out += number ? 'v' : 'n';
      if (number) append_key_part(out, *number);
    }
    return out;
  }

 private:
  std::vector<const Column*> columns_;
};

struct Matches {
  std::vector<std::vector<std::uint32_t>> of_spine;  // For each spine row its answers.
  std::vector<std::uint32_t> foreign;
  bool order_kept = true;
};

void note(Matches& out, std::optional<std::uint32_t> spine_row, std::uint32_t answer,
          std::int64_t& last) {
  if (!spine_row) return out.foreign.push_back(answer);
  out.of_spine[*spine_row].push_back(answer);
  if (*spine_row < last) out.order_kept = false;
  last = *spine_row;
}

Matches match_by_number(const Column& theirs, const Column& ours) {
  std::unordered_map<std::int64_t, std::uint32_t> rows;
  for (std::uint32_t row = 0; row < ours.size(); ++row) rows.emplace(ours.ints()[row], row);
  Matches out;
  out.of_spine.resize(ours.size());
  std::int64_t last = -1;
  for (std::uint32_t row = 0; row < theirs.size(); ++row) {
    const std::optional<std::int64_t> number = whole_at(theirs, row);
    const auto found = number ? rows.find(*number) : rows.end();
    note(out, found == rows.end() ? std::nullopt : std::optional(found->second), row, last);
  }
  return out;
}

Matches match_by_spot(const Spots& theirs, std::size_t answers, const Spots& ours,
                      std::size_t spine) {
  std::unordered_map<std::string, std::vector<std::uint32_t>> rows;
  for (std::uint32_t row = 0; row < spine; ++row) rows[ours.at(row)].push_back(row);
  std::unordered_map<std::string, std::size_t> used;
  Matches out;
  out.of_spine.resize(spine);
  std::int64_t last = -1;
  for (std::uint32_t row = 0; row < answers; ++row) {
    const std::string spot = theirs.at(row);
    const auto found = rows.find(spot);
    if (found == rows.end()) {
      note(out, std::nullopt, row, last);
      continue;
    }
    // More answers than spine rows of this spot: the last of them is there several times.
    const std::size_t nth = std::min(used[spot]++, found->second.size() - 1);
    note(out, found->second[nth], row, last);
  }
  return out;
}

// ---- What is wrong -----------------------------------------------------------------------------

class Judge {
 public:
  Judge(const CompareInput& input, const Batch& exact, std::vector<const Column*> theirs)
      : input_(input),
        exact_(exact),
        theirs_(std::move(theirs)),
        index_(input.view, input.rows),
        time_(*input.spine.find(input.time_column)) {
    for (const table::Field& key : input.view.keys) keys_.push_back(input.spine.find(key.name));
  }

  // kInternal when the join's answer is not what the plain rule says.
  Status check_exact(std::uint32_t row) const {
    const std::optional<std::uint32_t> best = winner_of(row);
    for (std::size_t i = 0; i < exact_.columns.size(); ++i) {
      const Cell joined{exact_.columns[i], row};
      const bool same = best
                            ? likeness({index_.feature(i), *best}, joined, false) == Likeness::kSame
                            : exact_.columns[i].is_null(row);
      if (same) continue;
      return Error(Code::kInternal, "the join and the plain rule disagree about " +
                                        example(row).key + " at " + example(row).at +
                                        ": this is a fault of Falaj, please report it");
    }
    return {};
  }

  // Nothing when every value is right; the example is of the first that is not.
  std::optional<std::pair<Fault, Example>> judge(std::uint32_t row, std::uint32_t answer) const {
    std::optional<std::size_t> first;
    bool rounded = true;
    bool only_nulls = true;
    for (std::size_t i = 0; i < theirs_.size(); ++i) {
      const Likeness alike =
          likeness({exact_.columns[i], row}, {*theirs_[i], answer}, index_.single(i));
      if (alike == Likeness::kSame) continue;
      if (!first || (rounded && alike == Likeness::kOther)) first = i;
      rounded = rounded && alike == Likeness::kRounded;
      only_nulls = only_nulls && is_null(i, answer);
    }
    if (!first) return std::nullopt;
    Example out = example(row);
    out.feature = input_.view.features[*first].name;
    out.exact = cell_text({exact_.columns[*first], row});
    out.theirs = cell_text({*theirs_[*first], answer});
    return std::pair(rounded ? Fault::kRoundedInteger : fault_of(row, answer, only_nulls), out);
  }

  Example example(std::uint32_t row) const {
    Example out;
    out.spine_row = row;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      out.key.append(out.key.empty() ? "" : " ").append(input_.view.keys[i].name).append("=");
      out.key.append(cell_text({*keys_[i], row}));
    }
    if (!time_.is_null(row)) out.at = to_rfc3339(Timestamp{time_.ints()[row]});
    return out;
  }

 private:
  bool is_null(std::size_t feature, std::uint32_t answer) const {
    static const Column kNull = Column(Type::kFloat64).take({Column::kNoRow});
    return likeness({kNull, 0}, {*theirs_[feature], answer}, false) == Likeness::kSame;
  }

  // "" when a part is null.
  std::string key_of(std::uint32_t row) const {
    for (const Column* key : keys_) {
      if (key->is_null(row)) return {};
    }
    return key_of_row(keys_, row);
  }

  std::optional<std::uint32_t> winner_of(std::uint32_t row) const {
    const std::string key = key_of(row);
    if (key.empty() || time_.is_null(row)) return std::nullopt;
    return index_.winner(key, time_.ints()[row]);
  }

  Fault fault_of(std::uint32_t row, std::uint32_t answer, bool only_nulls) const {
    bool all_null = true;
    for (std::size_t i = 0; i < theirs_.size(); ++i) all_null = all_null && is_null(i, answer);
    if (all_null) return Fault::kMissingValue;
    const std::optional<Fault> own = fault_of_own(row, answer);
    if (own) return *own;
    if (only_nulls) return Fault::kMissingValue;
    return index_.has_values(theirs_, answer) ? Fault::kWrongEntity : Fault::kUnknownValue;
  }

  // When the values are those of another row of the same key: the mildest that explains them.
  std::optional<Fault> fault_of_own(std::uint32_t row, std::uint32_t answer) const {
    if (time_.is_null(row)) return std::nullopt;
    const std::int64_t at = time_.ints()[row];
    const std::optional<std::uint32_t> best = winner_of(row);
    std::optional<Fault> out;
    constexpr Fault kMildestFirst[] = {Fault::kOpenTie, Fault::kCreatedIgnored, Fault::kStaleValue,
                                       Fault::kTtlIgnored, Fault::kFutureValue};
    const auto harm = [&](Fault fault) {
      return std::find(std::begin(kMildestFirst), std::end(kMildestFirst), fault);
    };
    for (const std::uint32_t source : index_.rows_of(key_of(row))) {
      if (!index_.same_values(source, theirs_, answer)) continue;
      Fault fault = Fault::kStaleValue;
      if (index_.event(source) > at) {
        fault = Fault::kFutureValue;
      } else if (!index_.within(source, at)) {
        fault = Fault::kTtlIgnored;
      } else if (best && index_.event(source) == index_.event(*best)) {
        const bool tie = index_.created(source) == index_.created(*best);
        fault = tie ? Fault::kOpenTie : Fault::kCreatedIgnored;
      }
      if (!out || harm(fault) < harm(*out)) out = fault;
    }
    return out;
  }

  const CompareInput& input_;
  const Batch& exact_;
  const std::vector<const Column*> theirs_;
  const SourceIndex index_;
  const Column& time_;
  std::vector<const Column*> keys_;
};

Result<std::vector<const Column*>> answer_columns(const CompareInput& input) {
  std::vector<const Column*> out;
  for (const table::Field& feature : input.view.features) {
    const Column* column = input.answers.find(input.view.feast_name + "__" + feature.name);
    if (column == nullptr) column = input.answers.find(feature.name);
    if (column == nullptr) {
      return Error(ErrorId::kSchemaMismatch, "the answers lack the column \"" +
                                                 input.view.feast_name + "__" + feature.name +
                                                 "\" or \"" + feature.name + "\"");
    }
    out.push_back(column);
  }
  return out;
}

Result<Matches> match(const CompareInput& input, const Spots& spine) {
  const Column* theirs = input.answers.find(kRowNumber);
  const Column* ours = input.spine.find(kRowNumber);
  if (theirs != nullptr && ours != nullptr && ours->type() == Type::kInt64 &&
      theirs->type() != Type::kString) {
    return match_by_number(*theirs, *ours);
  }
  const Spots answers = FALAJ_TRY(Spots::of(input.answers, input, "the answers"));
  return match_by_spot(answers, input.answers.rows(), spine, input.spine.rows());
}

void count(Comparison& out, Fault fault, const Example& example, std::size_t examples_max) {
  ++out.counts[fault];
  std::vector<Example>& examples = out.examples[fault];
  if (examples.size() < examples_max) examples.push_back(example);
}

struct FaultWords {
  Fault fault;
  std::string_view name;
  std::string_view text;
};
constexpr FaultWords kFaults[] = {
    {Fault::kDroppedRow, "dropped_row", "spine rows are not in the answers"},
    {Fault::kCollapsedRow, "collapsed_row", "spine rows of one key and time became one"},
    {Fault::kMultipliedRow, "multiplied_row", "spine rows are in the answers more than once"},
    {Fault::kForeignRow, "foreign_row", "answers belong to no spine row"},
    {Fault::kTtlIgnored, "ttl_ignored", "values are older than the time to live"},
    {Fault::kFutureValue, "future_value", "values were not there yet: leakage from the future"},
    {Fault::kStaleValue, "stale_value", "values are of an older row than the newest"},
    {Fault::kCreatedIgnored, "created_ignored",
     "a row was chosen that a later created one corrects"},
    {Fault::kMissingValue, "missing_value", "null where there is a value"},
    {Fault::kWrongEntity, "wrong_entity", "values are of another entity"},
    {Fault::kUnknownValue, "unknown_value", "values are in no row of the source"},
    {Fault::kRoundedInteger, "rounded_integer", "whole numbers were rounded by floats"},
    {Fault::kOpenTie, "open_tie",
     "rows with equal times, for which Feast promises no winner (no fault)"},
};

const FaultWords& words_of(Fault fault) {
  const auto* found = std::find_if(std::begin(kFaults), std::end(kFaults),
                                   [&](const FaultWords& each) { return each.fault == fault; });
  FALAJ_CHECK(found != std::end(kFaults));
  return *found;
}

}  // namespace

std::uint64_t Comparison::faults() const {
  std::uint64_t out = 0;
  for (const auto& [fault, rows] : counts) out += fault == Fault::kOpenTie ? 0 : rows;
  return out;
}

Result<Comparison> compare_answers(const CompareInput& input) {
  const Batch exact = FALAJ_TRY(exact_answers(input));
  std::vector<const Column*> theirs = FALAJ_TRY(answer_columns(input));
  const Spots spots = FALAJ_TRY(Spots::of(input.spine, input, "the spine's rows"));
  const Matches matches = FALAJ_TRY(match(input, spots));
  const Judge judge(input, exact, std::move(theirs));

  Comparison out;
  out.spine_rows = input.spine.rows();
  out.answer_rows = input.answers.rows();
  out.order_kept = matches.order_kept;
  std::set<std::string> answered;
  for (std::uint32_t row = 0; row < out.spine_rows; ++row) {
    if (!matches.of_spine[row].empty()) answered.insert(spots.at(row));
  }
  for (std::uint32_t row = 0; row < out.spine_rows; ++row) {
    FALAJ_TRY(judge.check_exact(row));
    std::map<Fault, Example> found;
    const std::vector<std::uint32_t>& answers = matches.of_spine[row];
    if (answers.empty()) {
      const bool other = answered.contains(spots.at(row));
      found.emplace(other ? Fault::kCollapsedRow : Fault::kDroppedRow, judge.example(row));
    }
    if (answers.size() > 1) found.emplace(Fault::kMultipliedRow, judge.example(row));
    for (const std::uint32_t answer : answers) {
      if (auto wrong = judge.judge(row, answer)) found.insert(std::move(*wrong));
    }
    for (const auto& [fault, example] : found) count(out, fault, example, input.examples_max);
    if (found.empty()) ++out.right_rows;
  }
  for (const std::uint32_t answer : matches.foreign) {
    Example example;
    example.key = "row " + std::to_string(answer + 1) + " of the answers";
    count(out, Fault::kForeignRow, example, input.examples_max);
  }
  return out;
}

Batch sample_spine(const ViewPlan& view, const Batch& rows, const SampleOptions& options) {
  constexpr std::size_t kEach = 5;
  const Column& events = *rows.find(view.event_time);
  std::vector<const Column*> keys;
  for (const table::Field& key : view.keys) keys.push_back(rows.find(key.name));
  const std::size_t wanted = std::max<std::size_t>(1, (options.rows_max - 1) / kEach);
  const std::size_t step = std::max<std::size_t>(1, rows.rows() / wanted);
  const Duration second = Duration::seconds(1);
  // Without a time to live there is no end: a month is as good as any.
  const Duration end = view.ttl.nanos > 0 ? view.ttl : Duration::days(30);

  std::vector<std::uint32_t> taken;
  std::vector<std::int64_t> times;
  for (std::size_t row = 0; row < rows.rows() && times.size() < wanted * kEach; row += step) {
    const bool null = events.is_null(row) || std::any_of(keys.begin(), keys.end(), [&](auto* key) {
                        return key->is_null(row);
                      });
    if (null) continue;
    const Timestamp event{events.ints()[row]};
    for (const Timestamp at : {event, event - second, event + end, event + end + second, event}) {
      taken.push_back(static_cast<std::uint32_t>(row));
      times.push_back(at.nanos);
    }
  }
  Batch out;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out.schema.fields.push_back(view.keys[i]);
    out.columns.push_back(keys[i]->take(taken));
    if (times.empty()) continue;
    if (view.keys[i].type == Type::kString) {
      out.columns[i].push_string("falaj-nobody");
    } else {
      const auto& ids = keys[i]->ints();
      const std::int64_t most = *std::max_element(ids.begin(), ids.end());
      out.columns[i].push_int(most == std::numeric_limits<std::int64_t>::max() ? -1 : most + 1);
    }
  }
  if (!times.empty()) times.push_back(times.front());
  std::vector<std::int64_t> numbers(times.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  out.schema.fields.push_back({"event_timestamp", Type::kTimestamp});
  out.columns.push_back(Column::of_ints(Type::kTimestamp, std::move(times)));
  out.schema.fields.push_back({std::string(kRowNumber), Type::kInt64});
  out.columns.push_back(Column::of_ints(Type::kInt64, std::move(numbers)));
  return out;
}

std::string_view fault_name(Fault fault) { return words_of(fault).name; }

std::string_view fault_text(Fault fault) { return words_of(fault).text; }

}  // namespace falaj::features::feast
