#include "features/arrivals.h"

#include <algorithm>

#include "storage/objects.h"

namespace falaj::features {

const storage::Migration kArrivalsMigration{
    "features-004-arrivals",
    "CREATE TABLE feature_arrivals ("
    " project TEXT NOT NULL, view TEXT NOT NULL, problem TEXT NOT NULL, since INTEGER NOT NULL,"
    " PRIMARY KEY (project, view, problem)) STRICT;"};

namespace {

constexpr const char* kStale = "stale";
constexpr const char* kFew = "few_rows";

telemetry::MetricInfo age_metric() {
  return {"falaj_features_age_seconds",
          "Age of the newest event of views that declare freshness or volume.",
          telemetry::MetricKind::kGauge,
          {"project", "view"}};
}

telemetry::MetricInfo alarm_metric() {
  return {"falaj_features_arrival_alarm",
          "1 while rows of the view are too old (stale) or too few (few_rows).",
          telemetry::MetricKind::kGauge,
          {"project", "view", "problem"}};
}

bool expects(const Arrival& arrival) {
  return arrival.freshness > Duration{} || arrival.every > Duration{};
}

Result<ArrivalFacts> facts_of(storage::SqlTransaction& tx, const storage::Object& view,
                              const Arrival& expected, Timestamp now) {
  ArrivalFacts facts;
  facts.declared = view.updated_at;
  const storage::SqlRows newest =
      FALAJ_TRY(tx.query("SELECT COALESCE(MAX(newest_event), 0) FROM feature_commits WHERE "
                         "project = ? AND view = ?",
                         {view.project, view.name}));
  facts.newest_event = Timestamp{newest.at(0).integer(0)};
  if (expected.every <= Duration{}) return facts;
  const storage::SqlRows rows =
      FALAJ_TRY(tx.query("SELECT COALESCE(SUM(rows), 0) FROM feature_commits WHERE project = ? AND "
                         "view = ? AND committed_at > ?",
                         {view.project, view.name, (now - expected.every).nanos}));
  facts.rows = static_cast<std::uint64_t>(rows.at(0).integer(0));
  return facts;
}

struct Judged {
  std::string project;
  ViewArrival arrival;
};

// Of one project, or of all for "".
Result<std::vector<Judged>> judge_all(storage::SqlStore& sql, const std::string& project,
                                      Timestamp now) {
  std::vector<Judged> out;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::Object& view : FALAJ_TRY(storage::list_objects(tx, "FeatureView"))) {
      if (!project.empty() && view.project != project) continue;
      const ViewCare care = FALAJ_TRY(decode_view_care(view));
      if (!expects(care.arrival)) continue;
      const ArrivalFacts facts = FALAJ_TRY(facts_of(tx, view, care.arrival, now));
      out.push_back(
          {view.project, {view.name, care.arrival, judge_arrival(care.arrival, facts, now)}});
    }
    return {};
  }));
  return out;
}

// Whether this is new; what was known and what is now differ at most once a change.
Status settle(const ArrivalServices& services, const Judged& judged, const char* problem,
              bool holds) {
  const ViewArrival& arrival = judged.arrival;
  const storage::SqlParams place{judged.project, arrival.view, std::string(problem)};
  services.metrics.gauge(alarm_metric(), {judged.project, arrival.view, problem})
      .set(holds ? 1 : 0);
  const storage::SqlRows known = FALAJ_TRY(storage::query(
      services.sql,
      "SELECT since FROM feature_arrivals WHERE project = ? AND view = ? AND problem = ?", place));
  if (holds == !known.empty()) return {};
  return services.sql.write([&](storage::SqlTransaction& tx) -> Status {
    if (holds) {
      FALAJ_TRY(tx.execute(
          "INSERT INTO feature_arrivals VALUES (?, ?, ?, ?)",
          {judged.project, arrival.view, std::string(problem), services.clock.now().nanos}));
    } else {
      FALAJ_TRY(tx.execute(
          "DELETE FROM feature_arrivals WHERE project = ? AND view = ? AND problem = ?", place));
    }
    Value detail = to_value(arrival);
    detail["problem"] = problem;
    const auto context =
        security::system_context("service:features", ProjectName(judged.project), Zone());
    FALAJ_TRY(services.audit.append(
        tx, context,
        {holds ? "features.alarm" : "features.alarm_end",
         "FeatureView/" + judged.project + "/" + arrival.view, std::move(detail)}));
    return {};
  });
}

// Views that expect nothing any more, or are gone, have no alarm.
Status forget_others(const ArrivalServices& services, const std::vector<Judged>& judged) {
  const storage::SqlRows rows = FALAJ_TRY(
      storage::query(services.sql, "SELECT DISTINCT project, view FROM feature_arrivals"));
  for (const storage::SqlRow& row : rows) {
    const bool known = std::any_of(judged.begin(), judged.end(), [&](const Judged& each) {
      return each.project == row.text(0) && each.arrival.view == row.text(1);
    });
    if (known) continue;
    FALAJ_TRY(services.sql.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute("DELETE FROM feature_arrivals WHERE project = ? AND view = ?",
                           {row.text(0), row.text(1)}));
      return {};
    }));
    for (const char* problem : {kStale, kFew}) {
      services.metrics.gauge(alarm_metric(), {row.text(0), row.text(1), problem}).set(0);
    }
  }
  return {};
}

}  // namespace

ArrivalState judge_arrival(const Arrival& expected, const ArrivalFacts& facts, Timestamp now) {
  ArrivalState out;
  out.rows = facts.rows;
  out.age = now - (facts.newest_event.nanos == 0 ? facts.declared : facts.newest_event);
  const Duration declared = now - facts.declared;
  out.stale = expected.freshness > Duration{} && out.age > expected.freshness &&
              declared > expected.freshness;
  out.few = expected.every > Duration{} && declared > expected.every &&
            facts.rows < static_cast<std::uint64_t>(expected.rows_min);
  return out;
}

void declare_arrival_metrics(telemetry::Metrics& metrics) {
  metrics.declare(age_metric());
  metrics.declare(alarm_metric());
}

Status tick_arrivals(const ArrivalServices& services) {
  const std::vector<Judged> judged = FALAJ_TRY(judge_all(services.sql, "", services.clock.now()));
  for (const Judged& each : judged) {
    services.metrics.gauge(age_metric(), {each.project, each.arrival.view})
        .set(each.arrival.state.age.as_seconds());
    FALAJ_TRY(settle(services, each, kStale, each.arrival.state.stale));
    FALAJ_TRY(settle(services, each, kFew, each.arrival.state.few));
  }
  return forget_others(services, judged);
}

Result<std::vector<ViewArrival>> read_arrivals(storage::SqlStore& sql, const ProjectName& project,
                                               Timestamp now) {
  std::vector<ViewArrival> out;
  for (Judged& each : FALAJ_TRY(judge_all(sql, project.str(), now))) {
    out.push_back(std::move(each.arrival));
  }
  return out;
}

Value to_value(const ViewArrival& arrival) {
  Value out;
  out["view"] = arrival.view;
  if (arrival.expected.freshness > Duration{}) {
    out["freshness_seconds"] = arrival.expected.freshness.as_seconds();
    out["stale"] = arrival.state.stale;
  }
  out["age_seconds"] = arrival.state.age.as_seconds();
  if (arrival.expected.every > Duration{}) {
    out["every_seconds"] = arrival.expected.every.as_seconds();
    out["rows_min"] = arrival.expected.rows_min;
    out["rows"] = arrival.state.rows;
    out["few"] = arrival.state.few;
  }
  return out;
}

}  // namespace falaj::features
