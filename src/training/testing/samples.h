// training/testing/samples.h — data and runners for this module's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/testing/temp_folder.h"
#include "table/batch.h"
#include "training/engine.h"
#include "training/lightgbm/library.h"
#include "training/training_data.h"

namespace falaj::training::testing {

enum class LabelKind : std::uint8_t { kClasses, kAmounts };

// Rows of `columns` features with nulls (NaN), ties, zeros and a label that depends on them.
TrainingData sample_data(std::size_t rows, std::size_t columns, LabelKind kind, std::uint64_t seed);

// The same as a frozen training set would be: features f0, f1, …, "label", "split".
table::Batch sample_batch(std::size_t rows, std::size_t columns, LabelKind kind,
                          std::uint64_t seed);

std::vector<std::string> feature_names(std::size_t columns);

using storage::TempFolder;

lightgbm::Library library();

// Runs an exported file by walking its arrays in float32; tests/contract uses ONNX Runtime itself.
OnnxRunner walking_runner();

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

}  // namespace falaj::training::testing
