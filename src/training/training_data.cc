#include "training/training_data.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "table/io.h"

namespace falaj::training {
namespace {

constexpr std::string_view kSplitColumn = "split";
constexpr std::string_view kValid = "valid";

Result<table::Field> numeric_field(const table::Schema& found, const std::string& name,
                                   const std::string& what) {
  const auto at = found.find(name);
  if (!at) {
    return Error(ErrorId::kSchemaMismatch, "the training set has no column '" + name + "' (" +
                                               what + "); freeze it again from its declaration");
  }
  if (found.fields[*at].type == table::Type::kString) {
    return Error(ErrorId::kSchemaMismatch, what + " '" + name +
                                               "' is text; models take numbers: encode it in its "
                                               "source or leave it out of the feature service");
  }
  return found.fields[*at];
}

struct Columns {
  table::Schema schema;  // Features in order, label, and the split if there is one.
  bool has_split = false;
};

Result<Columns> choose_columns(const ByteReader& file, const std::vector<std::string>& features,
                               const std::string& label) {
  const table::Schema found = FALAJ_TRY(table::read_schema(file, table::Format::kParquet));
  Columns columns;
  for (const std::string& name : features) {
    columns.schema.fields.push_back(FALAJ_TRY(numeric_field(found, name, "feature")));
  }
  columns.schema.fields.push_back(FALAJ_TRY(numeric_field(found, label, "label")));
  if (const auto at = found.find(kSplitColumn)) {
    columns.has_split = true;
    columns.schema.fields.push_back(found.fields[*at]);
  }
  return columns;
}

// Adds the batches one by one; cells are read in the order of the chosen columns.
class Collector {
 public:
  Collector(const Columns& columns, std::size_t features) : columns_(columns) {
    data_.columns = features;
    const table::Type type = columns.schema.fields[features].type;
    data_.label_is_binary = type == table::Type::kBool || type == table::Type::kInt64;
  }

  Status add(const table::Batch& batch) {
    std::vector<const table::Column*> found;
    for (const table::Field& field : columns_.schema.fields) {
      found.push_back(batch.find(field.name));
      if (found.back() == nullptr) {
        return Error(ErrorId::kSchemaMismatch, "column '" + field.name + "' vanished from a batch");
      }
    }
    for (std::size_t row = 0; row < batch.rows(); ++row) FALAJ_TRY(add_row(found, row));
    return {};
  }

  Result<TrainingData> take() {
    if (data_.train.count() == 0) {
      return Error(ErrorId::kSpineInvalid,
                   "the training set has no training rows; freeze it over a longer window");
    }
    return std::move(data_);
  }

 private:
  Status add_row(const std::vector<const table::Column*>& columns, std::size_t row) {
    const double label = columns[data_.columns]->number_at(row);
    if (!std::isfinite(label)) {
      return Error(ErrorId::kSpineInvalid,
                   "row " + std::to_string(data_.train.count() + data_.valid.count() + 1) +
                       " of the training set has no label; leave unlabelled rows out of the spine");
    }
    const bool is_valid = columns_.has_split && split_of(*columns.back(), row) == kValid;
    Rows& rows = is_valid ? data_.valid : data_.train;
    for (std::size_t i = 0; i < data_.columns; ++i) {
      rows.values.push_back(static_cast<float>(columns[i]->number_at(row)));
    }
    rows.labels.push_back(static_cast<float>(label));
    if (label != 0 && label != 1) data_.label_is_binary = false;
    return {};
  }

  static std::string_view split_of(const table::Column& column, std::size_t row) {
    return column.type() == table::Type::kString ? column.strings()[row] : std::string_view{};
  }

  const Columns& columns_;
  TrainingData data_;
};

}  // namespace

Result<TrainingData> read_training_data(const ByteReader& file,
                                        const std::vector<std::string>& features,
                                        const std::string& label) {
  const Columns columns = FALAJ_TRY(choose_columns(file, features, label));
  Collector collector(columns, features.size());
  table::ReadOptions options;
  options.schema = columns.schema;
  FALAJ_TRY(table::read_table(
      file, table::Format::kParquet, options,
      [&](table::Batch batch, const std::vector<std::uint64_t>&) { return collector.add(batch); }));
  return collector.take();
}

}  // namespace falaj::training
