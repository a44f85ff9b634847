#include "monitoring/internal/reference.h"

#include "table/io.h"

namespace falaj::monitoring {
namespace {

constexpr std::string_view kSplitColumn = "split";
constexpr std::string_view kTrain = "train";

// The feature's values in the train split, as the model reads them: float32, NaN for missing.
Result<std::vector<double>> train_values(const ByteReader& file, const table::Field& feature) {
  table::ReadOptions options;
  options.schema.fields = {feature, {std::string(kSplitColumn), table::Type::kString}};
  std::vector<double> values;
  FALAJ_TRY(table::read_table(file, table::Format::kParquet, options,
                              [&](table::Batch batch, const std::vector<std::uint64_t>&) -> Status {
                                const table::StringColumn& split = batch.columns[1].strings();
                                for (std::size_t row = 0; row < batch.rows(); ++row) {
                                  if (split[row] != kTrain) continue;
                                  values.push_back(static_cast<double>(
                                      static_cast<float>(batch.columns[0].number_at(row))));
                                }
                                return {};
                              }));
  return values;
}

}  // namespace

Result<Reference> build_reference(const features::Manifest& manifest, const ByteReader& file,
                                  const std::vector<std::string>& features) {
  const table::Schema schema = FALAJ_TRY(table::read_schema(file, table::Format::kParquet));
  Reference reference;
  reference.training_set = manifest.id;
  for (const std::string& feature : features) {
    const std::optional<std::size_t> column = schema.find(feature);
    if (!column.has_value()) {
      return Error(ErrorId::kMonitorNoReference, "training set '" + manifest.name +
                                                     "' has no column '" + feature +
                                                     "', which the model reads");
    }
    const std::vector<double> values = FALAJ_TRY(train_values(file, schema.fields[*column]));
    if (values.empty()) {
      return Error(ErrorId::kMonitorNoReference,
                   "training set '" + manifest.name + "' has no rows in its train split");
    }
    const Bins bins = make_bins(feature, values);
    std::vector<std::uint64_t> counts(bins.count(), 0);
    for (const double value : values) ++counts[bins.bin_of(value)];
    reference.bins.push_back(bins);
    reference.profile.counts.push_back(std::move(counts));
    reference.profile.rows = values.size();
  }
  return reference;
}

}  // namespace falaj::monitoring
