// features/view_care.h — what a FeatureView declares about its data besides their form: whose they
// are, and how they are expected to come.
//
//   spec: {sensitivity: personal, freshness: 2h, volume: {rows_min: 1000, every: 1d},
//          features: [{name: city, type: string, sensitivity: none}]}
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/decode.h"
#include "features/definitions.h"

namespace falaj::features {

// Whether values are somebody's: then what is derived from them keeps none (features/profiles.h).
enum class Sensitivity : std::uint8_t { kUnsaid, kNone, kPersonal };

// What is expected of the rows' coming, looked at all the time (features/arrivals.h).
struct Arrival {
  Duration freshness{};       // The newest event is no older; 0: not looked at.
  std::int64_t rows_min = 0;  // At least so many rows come …
  Duration every{};           // … in the span of this length up to now; 0: not looked at.
  bool operator==(const Arrival&) const = default;
};

struct ViewCare {
  Sensitivity sensitivity = Sensitivity::kUnsaid;
  std::map<std::string, Sensitivity> features{};  // Those that say something.
  Arrival arrival{};

  // What was said nearest to the feature counts: its own, the view's, the entity's (subject_keys).
  bool is_personal(const std::string& feature, const Entity& entity) const;
};
// Of a FeatureView that decode_feature_view() accepts.
Result<ViewCare> decode_view_care(const storage::Object& object);

// One member of a view's or a feature's spec. FJ-1006 naming what may stand there.
Result<Sensitivity> decode_sensitivity(Fields& fields);
// `freshness` and `volume` of a view's spec.
Result<Arrival> decode_arrival(Fields& fields);

}  // namespace falaj::features
