// monitoring/internal/reference.h — what a model version saw when it was trained: the yardstick of
// drift, made once and frozen.
#pragma once

#include <string>
#include <vector>

#include "features/training_sets.h"
#include "monitoring/profile.h"

namespace falaj::monitoring {

struct Reference {
  std::string training_set;  // Manifest id.
  Zone zone{};               // Of the model's version.
  std::vector<Bins> bins{};  // In the model's column order.
  Profile profile;
};

// Reads the train split of a frozen training set from its Parquet file, one column at a time: the
// memory is that of one feature. FJ-6001 names a feature that the set does not have.
Result<Reference> build_reference(const features::Manifest& manifest, const ByteReader& file,
                                  const std::vector<std::string>& features);

}  // namespace falaj::monitoring
