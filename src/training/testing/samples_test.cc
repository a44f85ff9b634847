#include "training/testing/samples.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include "onnx/walker.h"

namespace falaj::training::testing {

TrainingData sample_data(std::size_t rows, std::size_t columns, LabelKind kind,
                         std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
  TrainingData data;
  data.columns = columns;
  data.label_is_binary = kind == LabelKind::kClasses;
  for (std::size_t i = 0; i < rows; ++i) {
    Rows& target = i % 5 == 4 ? data.valid : data.train;
    double signal = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      double cell = uniform() * 8 - 4;
      if (c % 4 == 1) cell = std::floor(cell);                       // Many ties.
      if (c % 4 == 2) cell = (cell < 0) == (c % 8 == 2) ? 0 : cell;  // Half of it zero.
      if (c % 4 == 3 && random() % 7 == 0) cell = std::nan("");      // Missing.
      signal += std::isnan(cell) ? 1.0 : cell * (c % 2 == 0 ? 0.6 : -0.4);
      target.values.push_back(static_cast<float>(cell));
    }
    const double noisy = signal + 2 * uniform() - 1.3;
    target.labels.push_back(kind == LabelKind::kClasses ? (noisy > 0 ? 1.0f : 0.0f)
                                                        : static_cast<float>(noisy));
  }
  return data;
}

table::Batch sample_batch(std::size_t rows, std::size_t columns, LabelKind kind,
                          std::uint64_t seed) {
  const TrainingData data = sample_data(rows, columns, kind, seed);
  table::Schema schema;
  for (const std::string& name : feature_names(columns)) {
    schema.fields.push_back({name, table::Type::kFloat64});
  }
  const bool classes = kind == LabelKind::kClasses;
  schema.fields.push_back({"label", classes ? table::Type::kInt64 : table::Type::kFloat64});
  schema.fields.push_back({"split", table::Type::kString});
  table::Batch batch(schema);
  const auto add = [&](const Rows& part, const char* split) {
    for (std::size_t i = 0; i < part.count(); ++i) {
      for (std::size_t c = 0; c < columns; ++c) {
        const float cell = part.values[i * columns + c];
        if (std::isnan(cell)) {
          batch.columns[c].push_null();
        } else {
          batch.columns[c].push_double(static_cast<double>(cell));
        }
      }
      if (classes) {
        batch.columns[columns].push_int(part.labels[i] > 0.5f ? 1 : 0);
      } else {
        batch.columns[columns].push_double(static_cast<double>(part.labels[i]));
      }
      batch.columns[columns + 1].push_string(split);
    }
  };
  add(data.train, "train");
  add(data.valid, "valid");
  return batch;
}

std::vector<std::string> feature_names(std::size_t columns) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns; ++i) names.push_back("f" + std::to_string(i));
  return names;
}

lightgbm::Library library() {
  auto opened = lightgbm::open_library(FALAJ_LIGHTGBM);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return opened.ok() ? opened.value() : nullptr;
}

OnnxRunner walking_runner() {
  return [](std::string_view graph, std::span<const float> matrix,
            std::size_t columns) -> Result<std::vector<float>> {
    const auto trees = FALAJ_TRY(onnx::read_trees(graph));
    const auto walker = FALAJ_TRY(onnx::Walker::build(trees));
    std::vector<float> scores;
    for (std::size_t at = 0; at < matrix.size(); at += columns) {
      scores.push_back(walker.score(matrix.subspan(at, columns)));
    }
    return scores;
  };
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace falaj::training::testing
