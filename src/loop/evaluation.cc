#include "loop/internal/evaluation.h"

#include <algorithm>
#include <cmath>

#include "table/io.h"
#include "training/engine.h"

namespace falaj::loop {
namespace {

// The label and the columns of both, each once, with the types of the file.
Result<table::Schema> columns_needed(const ByteReader& file, const std::string& label,
                                     const Contestant& champion, const Contestant& candidate) {
  const table::Schema all = FALAJ_TRY(table::read_schema(file, table::Format::kParquet));
  table::Schema needed;
  std::vector<std::string> names{label};
  names.insert(names.end(), champion.features.begin(), champion.features.end());
  names.insert(names.end(), candidate.features.begin(), candidate.features.end());
  for (const std::string& name : names) {
    if (needed.find(name).has_value()) continue;
    const std::optional<std::size_t> at = all.find(name);
    if (!at.has_value()) {
      return Error(ErrorId::kSchemaMismatch,
                   "the gate's training set has no column '" + name + "'");
    }
    needed.fields.push_back(all.fields[*at]);
  }
  return needed;
}

Status score(const Contestant& contestant, const table::Batch& batch,
             const std::vector<std::size_t>& rows, std::vector<float>& all) {
  std::vector<const table::Column*> columns;
  for (const std::string& feature : contestant.features) columns.push_back(batch.find(feature));
  std::vector<float> matrix;
  matrix.reserve(rows.size() * columns.size());
  for (const std::size_t row : rows) {
    for (const table::Column* column : columns) {
      matrix.push_back(static_cast<float>(column->number_at(row)));
    }
  }
  std::vector<float> scores;
  FALAJ_TRY(contestant.session->score(matrix, columns.size(), scores));
  all.insert(all.end(), scores.begin(), scores.end());
  return {};
}

}  // namespace

Result<Comparison> compare(const ByteReader& file, const std::string& label,
                           const Contestant& champion, const Contestant& candidate) {
  table::ReadOptions options;
  options.schema = FALAJ_TRY(columns_needed(file, label, champion, candidate));
  std::vector<float> champion_scores;
  std::vector<float> candidate_scores;
  std::vector<std::uint8_t> labels;
  FALAJ_TRY(table::read_table(file, table::Format::kParquet, options,
                              [&](table::Batch batch, const std::vector<std::uint64_t>&) -> Status {
                                const table::Column* truth = batch.find(label);
                                std::vector<std::size_t> rows;
                                for (std::size_t row = 0; row < batch.rows(); ++row) {
                                  const double value = truth->number_at(row);
                                  if (std::isnan(value)) continue;
                                  rows.push_back(row);
                                  labels.push_back(value > 0.5 ? 1 : 0);
                                }
                                if (rows.empty()) return {};
                                FALAJ_TRY(score(champion, batch, rows, champion_scores));
                                return score(candidate, batch, rows, candidate_scores);
                              }));
  Comparison comparison;
  comparison.rows = static_cast<std::int64_t>(labels.size());
  comparison.positives = std::count(labels.begin(), labels.end(), std::uint8_t{1});
  if (labels.empty()) return comparison;
  comparison.champion_auc = training::auc(champion_scores, labels);
  comparison.candidate_auc = training::auc(candidate_scores, labels);
  return comparison;
}

}  // namespace falaj::loop
