#include "features/internal/validation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "features/internal/quarantine.h"
#include "features/key.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

// A missing value: null, or a float that is not a number.
bool is_missing(const Column& column, std::size_t row) {
  if (column.is_null(row)) return true;
  return column.type() == Type::kFloat64 && std::isnan(column.doubles()[row]);
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g%%", share * 100);
  return text;
}

void blame(std::map<std::size_t, std::string>& faults, std::size_t row, const std::string& column,
           const std::string& problem) {
  faults.try_emplace(row, "column \"" + column + "\" " + problem);
}

void refuse_nulls(const Column& column, const std::string& name, const std::string& problem,
                  std::map<std::size_t, std::string>& faults) {
  if (column.type() != Type::kFloat64 && column.null_count() == 0) return;
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (is_missing(column, i)) blame(faults, i, name, problem);
  }
}

// Equal values of one type have equal bytes, and none begins like another.
void append_value(std::string& out, const Column& column, std::size_t row) {
  if (column.type() == Type::kString) {
    append_key_part(out, column.strings()[row]);
  } else if (column.type() == Type::kFloat64) {
    const double value = column.doubles()[row];
    append_key_part(out, std::bit_cast<std::int64_t>(value == 0 ? 0.0 : value));  // -0 is 0.
  } else if (column.type() == Type::kBool) {
    append_key_part(out, std::int64_t{column.bools()[row]});
  } else {
    append_key_part(out, column.ints()[row]);
  }
}

std::string broken_text(const RowExpectation& declared) {
  if (!declared.unique.empty()) {
    return "the row breaks the expectation \"" + declared.name +
           "\": a row before it has the same values";
  }
  const bool named = declared.name != declared.expr;
  return "the row breaks the expectation " + (named ? "\"" + declared.name + "\", " : "") +
         declared.expr;
}

}  // namespace

Validation::Validation(const ViewDefinition& definition, Timestamp now)
    : definition_(definition),
      now_(now),
      segment_(segment_schema(definition.view, definition.entity)),
      feature_warns_(definition.view.features.size()),
      nulls_(definition.view.features.size()) {}

Status Validation::want(const table::Field& field) {
  const auto known = source_.find(field.name);
  if (!known) {
    source_.fields.push_back(field);
    uses_.push_back(1);
    return {};
  }
  ++uses_[*known];
  const Type other = source_.fields[*known].type;
  if (other == field.type) return {};
  return Error(ErrorId::kSchemaMismatch,
               "FeatureView " + definition_.view.name + " uses column \"" + field.name + "\" as " +
                   std::string(type_name(other)) + " and as " + std::string(type_name(field.type)) +
                   ": declare one type");
}

Result<Validation> Validation::create(const ViewDefinition& definition, Timestamp now) {
  Validation out(definition, now);
  for (const table::Field& key : definition.entity.keys) FALAJ_TRY(out.want(key));
  FALAJ_TRY(out.want({definition.source.event_time, Type::kTimestamp}));
  if (!definition.source.created_time.empty()) {
    FALAJ_TRY(out.want({definition.source.created_time, Type::kTimestamp}));
  }
  for (const Feature& feature : definition.view.features) {
    FALAJ_TRY(out.want({feature.name, feature.type}));
  }
  out.expect_ =
      FALAJ_TRY(compile_expectations(definition.view, definition.entity, definition.source));
  for (const CompiledExpectation& each : out.expect_) {
    out.broken_.push_back({each.declared.name, 0, 0});
    out.seen_.emplace_back();
  }
  return out;
}

const Column& Validation::source_column(const Batch& batch, const std::string& name) const {
  const Column* column = batch.find(name);
  FALAJ_CHECK(column != nullptr);
  return *column;
}

Validation::Faults Validation::find_faults(const Batch& batch,
                                           const std::vector<std::uint64_t>& lines) {
  Faults faults;
  for (const table::Field& key : definition_.entity.keys) {
    refuse_nulls(source_column(batch, key.name), key.name, "is empty, but it is part of the key",
                 faults);
  }
  const std::string& event = definition_.source.event_time;
  refuse_nulls(source_column(batch, event), event, "is empty, but it is the event time", faults);
  for (std::size_t i = 0; i < definition_.view.features.size(); ++i) {
    const Feature& feature = definition_.view.features[i];
    Faults found = check_feature(feature, source_column(batch, feature.name));
    if (feature.expect.severity == Severity::kBlock) {
      faults.merge(found);  // The first reason against a row stays.
    } else if (!found.empty()) {
      Warning& warning = feature_warns_[i];
      if (warning.rows == 0) {
        warning.first_line = lines[found.begin()->first];
        warning.expectation = found.begin()->second;
      }
      warning.rows += found.size();
    }
  }
  check_row_expectations(batch, lines, faults);
  return faults;
}

std::vector<std::uint32_t> Validation::repeated(std::size_t number, const Batch& batch) {
  std::vector<const Column*> columns;
  for (const std::string& name : expect_[number].declared.unique) {
    columns.push_back(&source_column(batch, name));
  }
  std::vector<std::uint32_t> out;
  std::string key;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const bool missing = std::any_of(columns.begin(), columns.end(), [&](const Column* column) {
      return is_missing(*column, row);
    });
    if (missing) continue;
    key.clear();
    for (const Column* column : columns) append_value(key, *column, row);
    const SeenKeys::Found found = seen_[number].add(key);
    if (found == SeenKeys::Found::kSeen) out.push_back(static_cast<std::uint32_t>(row));
    too_many_keys_ = too_many_keys_ || found == SeenKeys::Found::kFull;
  }
  return out;
}

std::vector<std::uint32_t> Validation::breaking(std::size_t number, const Batch& batch) {
  const auto& expression = expect_[number].holds;
  if (!expression) return repeated(number, batch);
  std::vector<std::uint32_t> out;
  const Column holds = expression->evaluate(batch);
  for (std::size_t row = 0; row < holds.size(); ++row) {
    if (holds.is_null(row) || holds.bools()[row] != 0) continue;
    out.push_back(static_cast<std::uint32_t>(row));
  }
  return out;
}

void Validation::check_row_expectations(const Batch& batch, const std::vector<std::uint64_t>& lines,
                                        Faults& faults) {
  for (std::size_t i = 0; i < expect_.size(); ++i) {
    const RowExpectation& declared = expect_[i].declared;
    for (const std::uint32_t row : breaking(i, batch)) {
      if (broken_[i].rows++ == 0) broken_[i].first_line = lines[row];
      if (declared.severity == Severity::kWarn) continue;
      faults.try_emplace(row, broken_text(declared));
    }
  }
}

Validation::Faults Validation::check_feature(const Feature& feature, const Column& column) const {
  const Expectation& expect = feature.expect;
  Faults faults;
  if (expect.nulls_max == 0) {
    refuse_nulls(column, feature.name, "is empty, but nulls_max is 0", faults);
  }
  if (!expect.min && !expect.max) return faults;
  for (std::size_t i = 0; i < column.size(); ++i) {
    const double value = column.number_at(i);
    if (std::isnan(value)) continue;
    if (expect.min && value < *expect.min) {
      blame(faults, i, feature.name,
            "is " + number_text(value) + ", below the least expected, " + number_text(*expect.min));
    } else if (expect.max && value > *expect.max) {
      blame(faults, i, feature.name,
            "is " + number_text(value) + ", above the most expected, " + number_text(*expect.max));
    }
  }
  return faults;
}

Batch Validation::accept(Batch batch, const std::vector<std::uint64_t>& lines,
                         const std::function<void(const table::BadRow&)>& on_bad_row) {
  read_ += batch.rows();
  const Faults faults = find_faults(batch, lines);
  if (faults.empty()) return to_segment_rows(std::move(batch));
  std::vector<std::uint32_t> good;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const auto fault = faults.find(row);
    if (fault == faults.end()) {
      good.push_back(static_cast<std::uint32_t>(row));
    } else {
      on_bad_row({lines[row], fault->second, row_text(batch, row)});
    }
  }
  return to_segment_rows(batch.take(good));
}

Batch Validation::to_segment_rows(Batch good) {
  const std::size_t rows = good.rows();
  // A column that several parts of the view use is copied for all but the last of them.
  std::vector<std::size_t> uses = uses_;
  const auto take = [&](const std::string& name) {
    const std::size_t place = *source_.find(name);
    return --uses[place] == 0 ? std::move(good.columns[place]) : Column(good.columns[place]);
  };
  Batch out;
  out.schema = segment_;
  for (const table::Field& key : definition_.entity.keys) out.columns.push_back(take(key.name));
  out.columns.push_back(take(definition_.source.event_time));
  for (const std::int64_t nanos : out.columns.back().ints()) {
    if (nanos <= now_.nanos) newest_event_ = std::max(newest_event_, Timestamp{nanos});
  }
  const std::string& created = definition_.source.created_time;
  const std::vector<std::uint32_t> none(created.empty() ? rows : 0, Column::kNoRow);
  out.columns.push_back(created.empty() ? Column(Type::kTimestamp).take(none) : take(created));
  std::vector<std::int64_t> positions(rows);
  std::iota(positions.begin(), positions.end(), static_cast<std::int64_t>(accepted_));
  out.columns.push_back(Column::of_ints(Type::kInt64, std::move(positions)));
  for (std::size_t i = 0; i < definition_.view.features.size(); ++i) {
    out.columns.push_back(take(definition_.view.features[i].name));
    if (definition_.view.features[i].expect.nulls_max < 1) {
      const Column& column = out.columns.back();
      for (std::size_t row = 0; row < rows; ++row) nulls_[i] += is_missing(column, row);
    }
  }
  accepted_ += rows;
  return out;
}

std::vector<IngestReport::Warning> Validation::warnings() const {
  std::vector<Warning> out;
  for (const Warning& each : feature_warns_) {
    if (each.rows > 0) out.push_back(each);
  }
  for (std::size_t i = 0; i < expect_.size(); ++i) {
    const bool warns = expect_[i].declared.severity == Severity::kWarn;
    if (warns && broken_[i].rows > 0) out.push_back(broken_[i]);
  }
  return out;
}

Status Validation::check_shares() {
  if (too_many_keys_) {
    return Error(Code::kResourceExhausted,
                 "over " + std::to_string(SeenKeys::kMax) +
                     " rows are to be unique: nothing was taken; split the file, or leave the "
                     "expectation out");
  }
  for (std::size_t i = 0; i < expect_.size(); ++i) {
    const double share = static_cast<double>(broken_[i].rows) / static_cast<double>(read_);
    if (broken_[i].rows == 0 || share <= expect_[i].declared.broken_max) continue;
    return Error(ErrorId::kExpectationBroken,
                 "expectation \"" + broken_[i].expectation + "\" is broken by " +
                     std::to_string(broken_[i].rows) + " of " + std::to_string(read_) + " rows (" +
                     percent(share) + "), the first at line " +
                     std::to_string(broken_[i].first_line) + ", but broken_max is " +
                     percent(expect_[i].declared.broken_max) +
                     ": nothing was taken; mend the source or raise broken_max");
  }
  for (std::size_t i = 0; i < nulls_.size(); ++i) {
    const Feature& feature = definition_.view.features[i];
    const double share = static_cast<double>(nulls_[i]) / static_cast<double>(accepted_);
    if (nulls_[i] == 0 || share <= feature.expect.nulls_max) continue;
    if (feature.expect.severity == Severity::kWarn) {
      Warning& warning = feature_warns_[i];
      if (warning.rows == 0) {
        warning.expectation = "column \"" + feature.name + "\" is empty in " + percent(share) +
                              " of the rows, above nulls_max, " + percent(feature.expect.nulls_max);
      }
      warning.rows = std::max(warning.rows, nulls_[i]);
      continue;
    }
    return Error(ErrorId::kSchemaMismatch,
                 "feature \"" + feature.name + "\" is empty in " + std::to_string(nulls_[i]) +
                     " of " + std::to_string(accepted_) + " rows (" + percent(share) +
                     "), but nulls_max is " + percent(feature.expect.nulls_max) +
                     ": nothing was taken; mend the source or raise nulls_max");
  }
  return {};
}

}  // namespace falaj::features
