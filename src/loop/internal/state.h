// loop/internal/state.h — where a policy's round stands, durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loop/next_action.h"
#include "storage/sql.h"

namespace falaj::loop {

// One round: from the decision to retrain to promote or keep. Written before each effect that a
// crash could separate from its record, so that a restart takes up the same round again.
struct State {
  Phase phase = Phase::kWatching;
  std::int64_t round = 0;  // Rounds begun so far; names the frozen sets.
  std::int64_t alarm = 0;
  Timestamp began_at{};
  std::string training_set;         // Manifest id of what is trained on.
  std::string run;                  // "" until the run is recorded.
  std::string run_error;            // Why no run could be started.
  std::string obstacle;             // What was last recorded to stand in the way,
  std::int64_t obstacle_alarm = 0;  // and for which alarm.
  bool evaluated = false;
  bool promoting = false;  // Decided; the alias may not have moved yet.
  std::string model;       // Of which the candidate is a version.
  std::int64_t candidate = 0;
  std::int64_t evaluated_champion = 0;  // The version it was compared with.
  double champion_auc = 0;
  double candidate_auc = 0;
  std::int64_t gate_rows = 0;
  std::int64_t gate_positives = 0;
  std::string gate_set;  // Manifest id of what the gate measured on.
  // What was decided last, for people.
  Action last_action;
  Snapshot snapshot;
};

struct PolicyKey {
  std::string project;
  std::string policy;
  auto operator<=>(const PolicyKey&) const = default;
};

Result<State> load_state(storage::SqlTransaction& tx, const PolicyKey& key);
Status save_state(storage::SqlTransaction& tx, const PolicyKey& key, const State& state);
Status insert_retrain(storage::SqlTransaction& tx, const PolicyKey& key, Timestamp at);

struct Retrains {
  std::int64_t last_week = 0;
  std::optional<Timestamp> newest;
};
Result<Retrains> count_retrains(storage::SqlTransaction& tx, const PolicyKey& key, Timestamp now);

}  // namespace falaj::loop
