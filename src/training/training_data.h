// training/training_data.h — a frozen training set as float matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"

namespace falaj::training {

// Row-major float32, NaN for null: the same narrowing as at prediction time.
struct Rows {
  std::vector<float> values;
  std::vector<float> labels;
  std::size_t count() const { return labels.size(); }
};

struct TrainingData {
  std::size_t columns = 0;
  Rows train;
  Rows valid;
  // Bool, or integers of only 0 and 1.
  bool label_is_binary = false;
};

// Reads the features and the label of `file` (Parquet); rows whose "split" column says "valid" go
// there, all others to train. FJ-3002 names a missing or textual column, FJ-3006 a null or
// non-finite label, or a set without training rows. Memory: 4 bytes a cell, and one batch.
Result<TrainingData> read_training_data(const ByteReader& file,
                                        const std::vector<std::string>& features,
                                        const std::string& label);

}  // namespace falaj::training
