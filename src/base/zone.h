// base/zone.h — where bytes may be. Every dataset, segment, run, model and log carries one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj {

// A label such as "ae" or "ae-fin". Its parent and regime are declared by the Zone object.
class Zone {
 public:
  Zone() = default;  // Unlabelled: refused wherever data is written.
  explicit Zone(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  bool labelled() const { return !name_.empty(); }
  auto operator<=>(const Zone&) const = default;

 private:
  std::string name_;
};

// What is derived from several zones stays where all of them agree: equal zones give that zone,
// an unlabelled one or two different ones are refused (kPermissionDenied), naming both.
Result<Zone> derived_zone(const std::vector<Zone>& sources);

}  // namespace falaj
