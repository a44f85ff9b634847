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

Result<std::uint64_t> newest_commit(storage::SqlStore& sql, const ViewState& state) {
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql,
                               "SELECT COALESCE(MAX(commit_number), 0) FROM feature_commits "
                               "WHERE project = ? AND view = ?",
                               {state.project, state.view}));
  return static_cast<std::uint64_t>(rows[0].integer(0));
}

Status find_zone(storage::SqlStore& sql, ViewState& state) {
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql,
                               "SELECT zone FROM feature_commits WHERE project = ? AND view = ? "
                               "ORDER BY commit_number LIMIT 1",
                               {state.project, state.view}));
  if (!rows.empty()) state.zone = Zone(rows[0].text(0));
  return {};
}

}  // namespace falaj::features
