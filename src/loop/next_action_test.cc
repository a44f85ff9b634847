#include "loop/next_action.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"

namespace falaj::loop {
namespace {

const Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

Policy policy() {
  Policy made;
  made.name = "fraud_loop";
  made.monitor = "fraud_drift";
  made.job = "fraud_train";
  made.train_window = Duration::days(30);
  made.gate_window = Duration::days(7);
  made.no_worse_by = 0.002;
  made.retrains_per_week_max = 2;
  made.cooldown = Duration::hours(1);
  return made;
}

Snapshot watching() {
  Snapshot snapshot;
  snapshot.now = kNow;
  snapshot.alarm_open = true;
  snapshot.alarm = 4;
  snapshot.champion_version = 1;
  return snapshot;
}

Snapshot training(std::string status, std::int64_t candidate) {
  Snapshot snapshot = watching();
  snapshot.phase = Phase::kTraining;
  snapshot.run = "R1";
  snapshot.run_status = std::move(status);
  snapshot.candidate_version = candidate;
  return snapshot;
}

Snapshot evaluated(double champion, double candidate) {
  Snapshot snapshot = training("finished", 2);
  snapshot.phase = Phase::kEvaluating;
  snapshot.evaluated = true;
  snapshot.evaluated_champion = snapshot.champion_version;
  snapshot.champion_auc = champion;
  snapshot.candidate_auc = candidate;
  snapshot.gate_rows = 1000;
  snapshot.gate_positives = 100;
  return snapshot;
}

struct Case {
  const char* name;
  Snapshot snapshot;
  ActionKind expected;
  const char* says;  // Part of the reason.
};

template <class Change>
Snapshot with(Snapshot snapshot, Change change) {
  change(snapshot);
  return snapshot;
}

std::vector<Case> watching_cases() {
  return {
      {"no alarm", with(watching(), [](Snapshot& s) { s.alarm_open = false; }), ActionKind::kNone,
       "no alarm"},
      {"alarm", watching(), ActionKind::kRetrain, "alarm 4 is open on version 1"},
      {"alarm before any version serves",
       with(watching(), [](Snapshot& s) { s.champion_version = 0; }), ActionKind::kNone,
       "no version serves"},
      {"one below the week's maximum",
       with(watching(), [](Snapshot& s) { s.retrains_last_week = 1; }), ActionKind::kRetrain,
       "retrain with fraud_train"},
      {"at the week's maximum", with(watching(), [](Snapshot& s) { s.retrains_last_week = 2; }),
       ActionKind::kNone, "2 of at most 2"},
      {"over the week's maximum", with(watching(), [](Snapshot& s) { s.retrains_last_week = 9; }),
       ActionKind::kNone, "9 of at most 2"},
      {"one nanosecond before the cooldown is over",
       with(watching(),
            [](Snapshot& s) {
              s.last_retrain = kNow - Duration::hours(1) + Duration::nanoseconds(1);
            }),
       ActionKind::kNone, "cooldown of 1h"},
      {"when the cooldown is over",
       with(watching(), [](Snapshot& s) { s.last_retrain = kNow - Duration::hours(1); }),
       ActionKind::kRetrain, "alarm 4"},
      {"a clock that went back",
       with(watching(), [](Snapshot& s) { s.last_retrain = kNow + Duration::days(1); }),
       ActionKind::kNone, "cooldown"},
      {"an obstacle", with(watching(), [](Snapshot& s) { s.obstacle = "it rains"; }),
       ActionKind::kKeep, "it rains: version 1 stays"},
      {"an obstacle that is known",
       with(watching(),
            [](Snapshot& s) {
              s.obstacle = "it rains";
              s.obstacle_known = true;
            }),
       ActionKind::kNone, "it rains"},
      {"an obstacle without an alarm",
       with(watching(),
            [](Snapshot& s) {
              s.obstacle = "it rains";
              s.alarm_open = false;
            }),
       ActionKind::kNone, "no alarm"},
  };
}

std::vector<Case> training_cases() {
  return {
      {"queued", training("queued", 0), ActionKind::kNone, "run R1 is queued"},
      {"running", training("running", 0), ActionKind::kNone, "run R1 is running"},
      {"failed", training("failed", 0), ActionKind::kKeep, "ended as 'failed': version 1 stays"},
      {"stopped", training("stopped", 0), ActionKind::kKeep, "'stopped'"},
      {"failed after registering", training("failed", 2), ActionKind::kKeep, "'failed'"},
      {"unknown status", training("", 2), ActionKind::kKeep, "''"},
      {"finished", training("finished", 2), ActionKind::kEvaluate, "made version 2"},
      {"finished without a version", training("finished", 0), ActionKind::kKeep,
       "without registering"},
      {"promoted by hand meanwhile", training("finished", 1), ActionKind::kKeep, "serves already"},
      {"no run", with(training("failed", 0), [](Snapshot& s) { s.run_error = "no rows"; }),
       ActionKind::kKeep, "no run could be started: no rows: version 1 stays"},
      {"an obstacle came up",
       with(training("finished", 2), [](Snapshot& s) { s.obstacle = "it rains"; }),
       ActionKind::kKeep, "it rains"},
      {"the alarm closed meanwhile",
       with(training("finished", 2), [](Snapshot& s) { s.alarm_open = false; }),
       ActionKind::kEvaluate, "made version 2"},
  };
}

std::vector<Case> evaluating_cases() {
  return {
      {"not evaluated", with(evaluated(0, 0), [](Snapshot& s) { s.evaluated = false; }),
       ActionKind::kEvaluate, "not evaluated"},
      {"better", evaluated(0.80, 0.90), ActionKind::kPromote, "AUC 0.9 of version 2 against 0.8"},
      {"equal", evaluated(0.80, 0.80), ActionKind::kPromote, "no worse"},
      {"worse within the margin", evaluated(0.80, 0.7985), ActionKind::kPromote, "no worse"},
      {"exactly at the margin", evaluated(0.80, 0.80 - 0.002), ActionKind::kPromote, "no worse"},
      {"just past the margin", evaluated(0.80, std::nextafter(0.80 - 0.002, 0)), ActionKind::kKeep,
       "worse by more than 0.002"},
      {"much worse", evaluated(0.80, 0.5), ActionKind::kKeep, "worse by more"},
      {"no labels",
       with(evaluated(0, 0),
            [](Snapshot& s) {
              s.gate_rows = 0;
              s.gate_positives = 0;
            }),
       ActionKind::kKeep, "0 labelled rows"},
      {"one class only", with(evaluated(0.5, 0.5), [](Snapshot& s) { s.gate_positives = 0; }),
       ActionKind::kKeep, "10 of each class"},
      {"the other class only",
       with(evaluated(0.5, 0.5), [](Snapshot& s) { s.gate_positives = 1000; }), ActionKind::kKeep,
       "10 of each class"},
      {"one row too few", with(evaluated(0.5, 0.9), [](Snapshot& s) { s.gate_positives = 9; }),
       ActionKind::kKeep, "9 of them positive"},
      {"just enough rows", with(evaluated(0.5, 0.9), [](Snapshot& s) { s.gate_positives = 10; }),
       ActionKind::kPromote, "1000 rows"},
      {"another version serves than was measured",
       with(evaluated(0.5, 0.9), [](Snapshot& s) { s.champion_version = 3; }),
       ActionKind::kEvaluate, "compared with version 1, but version 3 serves now"},
      {"another version serves than failed the gate",
       with(evaluated(0.9, 0.5), [](Snapshot& s) { s.champion_version = 3; }),
       ActionKind::kEvaluate, "version 3 serves now"},
      {"promoted by hand meanwhile",
       with(evaluated(0.5, 0.9), [](Snapshot& s) { s.champion_version = 2; }), ActionKind::kKeep,
       "version 2 serves already"},
      {"an obstacle came up",
       with(evaluated(0.5, 0.9), [](Snapshot& s) { s.obstacle = "it rains"; }), ActionKind::kKeep,
       "it rains"},
      {"champion not measured", evaluated(std::nan(""), 0.9), ActionKind::kKeep, "null"},
      {"candidate not measured", evaluated(0.8, std::nan("")), ActionKind::kKeep, "null"},
  };
}

void expect_all(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Action action = next_action(one.snapshot, policy());
    EXPECT_EQ(action_name(action.kind), action_name(one.expected)) << action.reason;
    EXPECT_NE(action.reason.find(one.says), std::string::npos) << action.reason;
    EXPECT_FALSE(action.reason.empty());
  }
}

TEST(NextAction, retrains_only_on_an_alarm_within_its_limits) { expect_all(watching_cases()); }
TEST(NextAction, follows_the_run_to_its_end) { expect_all(training_cases()); }
TEST(NextAction, promotes_only_what_passed_the_gate) { expect_all(evaluating_cases()); }

TEST(NextAction, waits_for_the_labels_a_policy_asks_for) {
  Policy patient = policy();
  patient.labels_min = 100;
  Snapshot snapshot = watching();
  snapshot.labels_since_alarm = 99;
  EXPECT_EQ(next_action(snapshot, patient).kind, ActionKind::kNone);
  EXPECT_NE(next_action(snapshot, patient).reason.find("99 of 100"), std::string::npos);
  snapshot.labels_since_alarm = 100;
  EXPECT_EQ(next_action(snapshot, patient).kind, ActionKind::kRetrain);
  EXPECT_EQ(snapshot_from_value(to_value(snapshot)).value(), snapshot);
  EXPECT_EQ(policy_from_value(to_value(patient)).value(), patient);
}

TEST(NextAction, never_retrains_when_no_retraining_is_allowed) {
  Policy never = policy();
  never.retrains_per_week_max = 0;
  EXPECT_EQ(next_action(watching(), never).kind, ActionKind::kNone);
}

// Walks every combination of the discrete inputs: no snapshot leads outside what its phase allows.
TEST(NextAction, stays_within_its_phase_for_every_combination) {
  const auto allowed = [](Phase phase, ActionKind kind) {
    switch (kind) {
      case ActionKind::kNone:
        return phase != Phase::kEvaluating;
      case ActionKind::kRetrain:
        return phase == Phase::kWatching;
      case ActionKind::kEvaluate:
        return phase != Phase::kWatching;
      case ActionKind::kPromote:
        return phase == Phase::kEvaluating;
      case ActionKind::kKeep:
        return phase != Phase::kWatching;
    }
    return false;
  };
  for (const Phase phase : {Phase::kWatching, Phase::kTraining, Phase::kEvaluating}) {
    for (const char* status : {"", "queued", "running", "finished", "failed", "stopped", "odd"}) {
      for (unsigned bits = 0; bits < 64; ++bits) {
        Snapshot snapshot = evaluated(0.8, (bits & 1U) != 0 ? 0.9 : 0.1);
        snapshot.phase = phase;
        snapshot.run_status = status;
        snapshot.alarm_open = (bits & 2U) != 0;
        snapshot.evaluated = (bits & 4U) != 0;
        snapshot.gate_rows = (bits & 8U) != 0 ? 1000 : 0;
        snapshot.candidate_version = (bits & 16U) != 0 ? 2 : 0;
        if ((bits & 32U) != 0) snapshot.last_retrain = kNow;
        const Action action = next_action(snapshot, policy());
        EXPECT_TRUE(allowed(phase, action.kind))
            << phase_name(phase) << " → " << action_name(action.kind);
        EXPECT_EQ(action, next_action(snapshot, policy()));
      }
    }
  }
}

TEST(NextAction, is_the_same_after_its_inputs_went_through_json) {
  for (const std::vector<Case>& cases : {watching_cases(), training_cases(), evaluating_cases()}) {
    for (const Case& one : cases) {
      SCOPED_TRACE(one.name);
      const Value snapshot = parse_json(to_json(to_value(one.snapshot))).value();
      const Value rules = parse_json(to_json(to_value(policy()))).value();
      EXPECT_EQ(policy_from_value(rules).value(), policy());
      EXPECT_EQ(
          next_action(snapshot_from_value(snapshot).value(), policy_from_value(rules).value()),
          next_action(one.snapshot, policy()));
      EXPECT_EQ(to_json(to_value(snapshot_from_value(snapshot).value())), to_json(snapshot));
    }
  }
}

TEST(NextAction, replays_a_record_from_before_the_measured_champion_was_kept) {
  const Value now = to_value(evaluated(0.5, 0.9));
  Value then = Value::object();
  for (const char* key :
       {"now", "phase", "alarm_open", "champion_version", "candidate_version", "evaluated",
        "champion_auc", "candidate_auc", "gate_rows", "gate_positives"}) {
    then[key] = now[key];
  }
  EXPECT_EQ(next_action(snapshot_from_value(then).value(), policy()).kind, ActionKind::kPromote);
}

TEST(NextAction, refuses_a_record_it_cannot_read) {
  EXPECT_EQ(snapshot_from_value(Value()).error().id, ErrorId::kReplayDiffers);
  Value odd = to_value(watching());
  odd["phase"] = "dreaming";
  EXPECT_FALSE(snapshot_from_value(odd).ok());
  EXPECT_EQ(policy_from_value(Value()).error().id, ErrorId::kReplayDiffers);
}

}  // namespace
}  // namespace falaj::loop
