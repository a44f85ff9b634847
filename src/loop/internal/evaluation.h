// loop/internal/evaluation.h — two models on the same labelled rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serving/runtime.h"

namespace falaj::loop {

struct Contestant {
  const serving::Session* session = nullptr;
  std::vector<std::string> features;  // Its columns, in its order.
};

struct Comparison {
  double champion_auc = 0;
  double candidate_auc = 0;
  std::int64_t rows = 0;  // With a label; the others are left out.
  std::int64_t positives = 0;
};

// Scores both on every labelled row of a frozen set, batch by batch. FJ-3002 names a column that
// the set lacks.
Result<Comparison> compare(const ByteReader& file, const std::string& label,
                           const Contestant& champion, const Contestant& candidate);

}  // namespace falaj::loop
