#include "base/zone.h"

namespace falaj {

Result<Zone> derived_zone(const std::vector<Zone>& sources) {
  if (sources.empty()) {
    return Error(Code::kPermissionDenied,
                 "data derived from no source has no zone: name at least one source");
  }
  const Zone& first = sources.front();
  for (const Zone& zone : sources) {
    if (!zone.labelled()) {
      return Error(Code::kPermissionDenied,
                   "one source has no zone: label it before anything is derived from it");
    }
    if (zone != first) {
      return Error(Code::kPermissionDenied,
                   "data of zone '" + first.name() + "' and of zone '" + zone.name() +
                       "' may not be combined: derive from sources of one zone");
    }
  }
  return first;
}

}  // namespace falaj
