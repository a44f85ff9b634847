// storage/owner.h — whose bytes they are.
#pragma once

#include <string>

#include "base/hash.h"
#include "base/ids.h"
#include "base/zone.h"

namespace falaj::storage {

// Whose bytes, where they may be, and of what.
struct Owner {
  ProjectName project;
  Zone zone;
  std::string object;  // "FeatureView/customer_activity"
  auto operator<=>(const Owner&) const = default;
};

// Names an owner on disk without telling who it is. No two owners give one text to hash.
Sha256 hash_of(const Owner& owner);

}  // namespace falaj::storage
