#include "features/internal/view_commits.h"

#include <algorithm>

namespace falaj::features {
namespace {

telemetry::MetricInfo rows_metric() {
  return {"falaj_features_rows_total",
          "Rows of ingests and pushes by what became of them.",
          telemetry::MetricKind::kCounter,
          {"project", "view", "outcome"}};
}

Status insert_segments(storage::SqlTransaction& tx, std::uint64_t commit,
                       const std::vector<Segment>& segments) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    FALAJ_TRY(
        tx.execute("INSERT INTO feature_segments VALUES (?, ?, ?, ?, ?, ?, ?)",
                   {static_cast<std::int64_t>(commit), static_cast<std::int64_t>(i),
                    segment.blob.str(), segment.content, static_cast<std::int64_t>(segment.rows),
                    segment.event_min.nanos, segment.event_max.nanos}));
  }
  return {};
}

}  // namespace

ViewCommits::ViewCommits(storage::SqlStore& sql, Online& online, telemetry::Metrics& metrics,
                         const Clock& clock)
    : sql_(sql), online_(online), metrics_(metrics), clock_(clock) {
  metrics.declare(rows_metric());
}

ViewCommits::Turns& ViewCommits::turns_of(const std::string& project, const std::string& view) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Turns>& turns = turns_[project + "/" + view];
  if (turns == nullptr) turns = std::make_unique<Turns>();
  return *turns;
}

Mutex& ViewCommits::turn_of(const std::string& project, const std::string& view) {
  return turns_of(project, view).turn;
}

Mutex& ViewCommits::intake_of(const std::string& project, const std::string& view) {
  return turns_of(project, view).intake;
}

Result<ViewDefinition> ViewCommits::definition(const std::string& project,
                                               const std::string& view) {
  ViewDefinition out;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    out = FALAJ_TRY(load_view(tx, project, view));
    return {};
  }));
  return out;
}

Result<std::uint64_t> ViewCommits::commit(const NewRows& rows, const Beside& beside) {
  const ViewDefinition& definition = rows.definition;
  std::uint64_t commit = 0;
  bool expected = false;
  const Status done = sql_.write([&](storage::SqlTransaction& tx) -> Status {
    const ViewDefinition current =
        FALAJ_TRY(load_view(tx, definition.project, definition.view.name));
    if (current.generation != definition.generation) {
      return Error(ErrorId::kStaleGeneration,
                   "FeatureView " + definition.view.name +
                       " was changed while its rows came in: send them again");
    }
    const storage::SqlRows last =
        FALAJ_TRY(tx.query("SELECT COALESCE(MAX(commit_number), 0) FROM feature_commits"));
    commit = std::max(static_cast<std::uint64_t>(last.at(0).integer(0)), handed_out_.load()) + 1;
    FALAJ_TRY(beside(tx, commit));
    FALAJ_TRY(tx.execute(
        "INSERT INTO feature_commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        {static_cast<std::int64_t>(commit), definition.project, definition.view.name,
         definition.generation, rows.zone.name(), static_cast<std::int64_t>(rows.rows),
         rows.newest_event.nanos, clock_.now().nanos, std::string(reach_name(rows.reach))}));
    FALAJ_TRY(insert_segments(tx, commit, rows.segments));
    handed_out_ = commit;
    online_.expect(commit);
    expected = true;
    return {};
  });
  if (done.ok()) return commit;
  if (expected) online_.pass(commit);
  return done.error();
}

Result<Online::Published> ViewCommits::publish(const NewRows& rows, const table::Batch& newest,
                                               std::uint64_t commit) {
  const ViewDefinition& definition = rows.definition;
  if (definition.view.online == OnlineUse::kOffline || rows.reach == Reach::kOffline) {
    online_.pass(commit);
    return Online::Published{};
  }
  Result<Online::Published> published = online_.publish(
      ProjectName(definition.project), definition.view, definition.entity, newest, commit);
  if (!published.ok()) {
    return published.error().within("commit " + std::to_string(commit) +
                                    " is kept, but is not online yet; the next rows or the next "
                                    "start bring it online");
  }
  count(definition, "online_newer", published->newer);
  count(definition, "online_stale", published->stale);
  return published;
}

void ViewCommits::count(const ViewDefinition& definition, const char* outcome, std::uint64_t rows) {
  metrics_.counter(rows_metric(), {definition.project, definition.view.name, outcome}).add(rows);
}

}  // namespace falaj::features
