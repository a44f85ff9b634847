// training/internal/result_files.h — what a training process left in its folder, read with
// mistrust.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"
#include "registry/models.h"

namespace falaj::training {

// result.json, checked: the fields a registration is made of.
struct EngineResult {
  Value metrics;
  Value proof;
  registry::Signature signature;
  std::int64_t rounds = 0;
};

// FJ-4006 unless the proof covers at least `verify_rows` rows without a mismatch; FJ-4001 for a
// result that is missing, malformed or about other features than `features`.
Result<EngineResult> read_result(const std::string& folder,
                                 const std::vector<std::string>& features,
                                 std::int64_t verify_rows);

// What run_engine wrote when it failed; `otherwise` when it wrote nothing readable.
Error read_error(const std::string& folder, const Error& otherwise);

// A regular file of at most `bytes_max`. Links are refused: the process could have made one that
// leads to a file it may not read itself.
Result<std::string> read_left_file(const std::string& path, std::int64_t bytes_max);

}  // namespace falaj::training
