// What is kept of a rollout: one row each.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serving/rollout/rollouts.h"
#include "storage/sql.h"

namespace falaj::serving::rollout {

using Key = std::pair<std::string, std::string>;  // Project, name.

struct Record {
  Key key;
  std::string zone;  // The champion's: the edges are a profile of its scores.
  std::string deployment;
  std::string model;
  std::string alias;
  std::int64_t champion = 0;
  std::int64_t candidate = 0;
  std::string sticky;
  RolloutPolicy policy;  // As declared when it started.
  std::uint64_t salt = 0;
  std::vector<float> edges;
  Value replay;  // What the replay found; null before it has ended, or when none is asked for.
  State state = State::kRunning;
  Manual manual;
  std::size_t step = 0;
  std::int64_t count = 0;  // How often this step was begun to be counted.
  Timestamp started_at{};
  Timestamp entered_at{};
  std::string reason;
  Value evidence;  // Of the decision that ended it.
  Value decision;

  std::string object() const { return "Rollout/" + key.first + "/" + key.second; }
  ProjectName project() const { return ProjectName(key.first); }
};

RolloutStatus status_of(const Record& record);

Status save(storage::SqlTransaction& tx, const Record& record);
// Of a project, or of all ("").
Result<std::vector<Record>> load(storage::SqlTransaction& tx, const std::string& project);

}  // namespace falaj::serving::rollout
