#include "features/internal/view_state.h"

namespace falaj::features {

std::vector<table::Field> fields_of(const FeatureView& view) {
  std::vector<table::Field> out;
  for (const Feature& feature : view.features) out.push_back({feature.name, feature.type});
  return out;
}

std::vector<Aggregate> aggregates_of(const FeatureView& view) {
  std::vector<Aggregate> out;
  for (const AggregatedFeature& feature : view.aggregated) out.push_back(feature.aggregate);
  return out;
}

bool ViewState::fits(const FeatureView& definition, const Entity& entity) const {
  return keys == entity.keys && fields == fields_of(definition) && row_key == entity.row_key &&
         aggregates == aggregates_of(definition) && event_id == definition.event_id &&
         events_max == definition.events_max;
}

}  // namespace falaj::features
