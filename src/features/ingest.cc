#include "features/ingest.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "features/internal/batch_profile.h"
#include "features/internal/erasing.h"
#include "features/internal/kept_profiles.h"
#include "features/internal/quarantine.h"
#include "features/internal/segment_writer.h"
#include "features/internal/segments.h"
#include "features/internal/validation.h"
#include "features/internal/view_commits.h"
#include "features/online.h"
#include "features/view_care.h"
#include "storage/objects.h"

namespace falaj::features {

const storage::Migration kFeaturesMigration{
    "features-001-segments",
    "CREATE TABLE feature_commits ("
    " commit_number INTEGER PRIMARY KEY, project TEXT NOT NULL, view TEXT NOT NULL,"
    " generation INTEGER NOT NULL, zone TEXT NOT NULL CHECK (zone != ''), rows INTEGER NOT NULL,"
    " newest_event INTEGER NOT NULL, committed_at INTEGER NOT NULL);"
    "CREATE INDEX feature_commits_by_view ON feature_commits (project, view, commit_number);"
    "CREATE TABLE feature_segments ("
    " commit_number INTEGER NOT NULL REFERENCES feature_commits (commit_number),"
    " position INTEGER NOT NULL, blob TEXT NOT NULL, content TEXT NOT NULL,"
    " rows INTEGER NOT NULL,"
    " event_min INTEGER NOT NULL, event_max INTEGER NOT NULL,"
    " PRIMARY KEY (commit_number, position));"
    "CREATE INDEX feature_segments_by_content ON feature_segments (content);"
    "CREATE TABLE feature_quarantines ("
    " id INTEGER PRIMARY KEY, project TEXT NOT NULL, view TEXT NOT NULL, commit_number INTEGER,"
    " zone TEXT NOT NULL CHECK (zone != ''), rows INTEGER NOT NULL, blob TEXT NOT NULL,"
    " at INTEGER NOT NULL);"
    "CREATE TABLE feature_online ("
    " project TEXT NOT NULL, view TEXT NOT NULL, keys INTEGER NOT NULL,"
    " PRIMARY KEY (project, view));"
    "CREATE TABLE training_sets ("
    " number INTEGER PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL,"
    " zone TEXT NOT NULL CHECK (zone != ''),"
    " inputs TEXT NOT NULL, manifest TEXT NOT NULL, frozen_at INTEGER NOT NULL,"
    " UNIQUE (project, name, id));"
    "CREATE INDEX training_sets_by_inputs ON training_sets (project, name, inputs);"};

// What a commit's rows are for, and no count of keys: the index knows it.
const storage::Migration kReachMigration{
    "features-002-reach",
    "ALTER TABLE feature_commits ADD COLUMN reach TEXT NOT NULL DEFAULT 'both';"
    "DROP TABLE feature_online;"};

namespace {

using table::Batch;

// A row's position must fit the lower half of its sequence.
constexpr std::uint64_t kRowsMax = 0xFFFFFFFFull;

// One file on its way into a view.
class Intake {
 public:
  Intake(storage::BlobStore& blobs, Validation validation, const ViewDefinition& definition,
         const ViewCare& care, const Zone& zone)
      : validation_(std::move(validation)),
        profiler_(definition, care),
        quarantine_(blobs, owner_of_view(definition.project, zone, definition.view.name)),
        writer_(blobs, owner_of_view(definition.project, zone, definition.view.name),
                definition.entity.keys.size(), definition.view.online) {}

  Status read(const IngestFile& file, const std::function<Status()>& may_go_on) {
    table::ReadOptions options;
    options.schema = validation_.source_schema();
    options.on_bad_row = [this](const table::BadRow& row) { quarantine_.add(row); };
    const Status read =
        table::read_table(file.bytes, file.format, options,
                          [&](Batch batch, const std::vector<std::uint64_t>& lines) -> Status {
                            FALAJ_TRY(may_go_on());
                            FALAJ_TRY(take(std::move(batch), lines));
                            if (file.on_progress) file.on_progress(rows_read());
                            return {};
                          });
    if (!read.ok()) return read;
    return writer_.finish();
  }

  std::uint64_t rows_read() const { return validation_.accepted() + quarantine_.rows(); }
  Validation& validation() { return validation_; }
  const Profiler& profiler() const { return profiler_; }
  Quarantine& quarantine() { return quarantine_; }
  SegmentWriter& writer() { return writer_; }

 private:
  Status take(Batch batch, const std::vector<std::uint64_t>& lines) {
    Batch good = validation_.accept(std::move(batch), lines,
                                    [this](const table::BadRow& row) { quarantine_.add(row); });
    if (validation_.accepted() > kRowsMax) {
      return Error(Code::kResourceExhausted, "over 2^32 rows in one ingest: split the file");
    }
    profiler_.add(good);
    return writer_.add(std::move(good));
  }

  Validation validation_;
  Profiler profiler_;
  Quarantine quarantine_;
  SegmentWriter writer_;
};

telemetry::MetricInfo seconds_metric() {
  return {"falaj_features_ingest_seconds",
          "Time that one ingest took, commit included.",
          telemetry::MetricKind::kHistogram,
          {"project", "view"}};
}

Value texts(const std::vector<BlobId>& ids) {
  Value out = Value::array();
  for (const BlobId& id : ids) out.push(id.str());
  return out;
}

}  // namespace

Value to_value(const IngestReport& report) {
  Value out = Value::object();
  out["view"] = report.view;
  out["rows_read"] = report.rows_read;
  out["rows_accepted"] = report.rows_accepted;
  out["rows_quarantined"] = report.rows_quarantined;
  out["quarantine"] = report.quarantine.str();
  out["segments"] = texts(report.segments);
  out["commit"] = report.commit;
  out["duplicate_of"] = report.duplicate_of;
  out["online_newer"] = report.online_newer;
  out["online_stale"] = report.online_stale;
  Value examples = Value::array();
  for (const QuarantinedRow& row : report.examples) {
    Value example = Value::object();
    example["line"] = row.line;
    example["reason"] = row.reason;
    examples.push(std::move(example));
  }
  out["examples"] = std::move(examples);
  Value warnings = Value::array();
  for (const IngestReport::Warning& warning : report.warnings) {
    Value each = Value::object();
    each["expectation"] = warning.expectation;
    each["rows"] = warning.rows;
    each["first_line"] = warning.first_line;
    warnings.push(std::move(each));
  }
  out["warnings"] = std::move(warnings);
  return out;
}

struct Ingest::Impl {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  Online& online;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;
  ViewCommits commits{sql, online, metrics, clock};

  Status record_quarantine(storage::SqlTransaction& tx, const ViewDefinition& definition,
                           const Zone& zone, const IngestReport& report, storage::SqlValue commit) {
    if (report.rows_quarantined == 0) return {};
    FALAJ_TRY(
        tx.execute("INSERT INTO feature_quarantines (project, view, commit_number, zone, rows, "
                   "blob, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                   {definition.project, definition.view.name, std::move(commit), zone.name(),
                    static_cast<std::int64_t>(report.rows_quarantined), report.quarantine.str(),
                    clock.now().nanos}));
    return {};
  }

  Status audit_ingest(storage::SqlTransaction& tx, const security::RequestContext& context,
                      const ViewDefinition& definition, const IngestReport& report,
                      const std::string& file) {
    Value detail = Value::object();
    if (!file.empty()) detail["file"] = file;
    detail["rows"] = report.rows_accepted;
    detail["quarantined"] = report.rows_quarantined;
    detail["quarantine"] = report.quarantine.str();
    detail["commit"] = report.commit;
    if (report.duplicate_of > 0) detail["duplicate_of"] = report.duplicate_of;
    detail["segments"] = texts(report.segments);
    detail["zone"] = context.zone.name();
    FALAJ_TRY(audit.append(
        tx, context,
        {report.rows_accepted > 0 ? "features.ingest" : "features.reject",
         "FeatureView/" + definition.project + "/" + definition.view.name, std::move(detail)}));
    return {};
  }

  Status commit(const security::RequestContext& context, const NewRows& rows, const BlobId& profile,
                const std::string& file, IngestReport& report) {
    const ViewDefinition& definition = rows.definition;
    const auto beside = [&](storage::SqlTransaction& tx, std::uint64_t number) -> Status {
      report.duplicate_of =
          FALAJ_TRY(find_commit_of(tx, definition.project, definition.view.name, rows.segments));
      report.commit = number;
      FALAJ_TRY(record_quarantine(tx, definition, context.zone, report,
                                  static_cast<std::int64_t>(number)));
      FALAJ_TRY(keep_profile(tx, {definition.project, definition.view.name},
                             {number, number, definition.generation, context.zone, 1, rows.rows,
                              profile, clock.now()}));
      return audit_ingest(tx, context, definition, report, file);
    };
    FALAJ_TRY(commits.commit(rows, beside));
    return {};
  }

  // If the view is declared anew just now, its rows will not be committed.
  Result<ViewCare> care_of(const ViewDefinition& definition) {
    ViewCare out;
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      out = FALAJ_TRY(decode_view_care(FALAJ_TRY(
          storage::get_object(tx, "FeatureView", definition.project, definition.view.name))));
      return {};
    }));
    return out;
  }

  // The rows are in already: that the profiles of old ones could not be put together is no reason
  // to say otherwise.
  void thin(const ViewDefinition& definition) {
    const Status thinned = thin_profiles(sql, blobs, {definition.project, definition.view.name});
    if (thinned.ok()) return;
    log::warn("profiles not merged",
              {{"view", definition.view.name}, {"reason", thinned.error().message}});
  }

  Error all_rejected(const security::RequestContext& context, const ViewDefinition& definition,
                     const IngestReport& report, const std::string& file) {
    if (report.rows_read == 0) {
      return Error(ErrorId::kAllRowsRejected,
                   "the file for FeatureView " + definition.view.name + " has no row");
    }
    const Status kept = sql.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(record_quarantine(tx, definition, context.zone, report, nullptr));
      return audit_ingest(tx, context, definition, report, file);
    });
    if (!kept.ok()) return kept.error();
    return Error(ErrorId::kAllRowsRejected,
                 "all " + std::to_string(report.rows_read) + " rows for FeatureView " +
                     definition.view.name + " were refused; line " +
                     std::to_string(report.examples.at(0).line) + ": " +
                     report.examples.at(0).reason + ". All of them are in quarantine " +
                     report.quarantine.str());
  }

  Result<IngestReport> append(const security::RequestContext& context,
                              const ViewDefinition& definition, const IngestFile& file) {
    const ViewCare care = FALAJ_TRY(care_of(definition));
    Intake intake(blobs, FALAJ_TRY(Validation::create(definition, clock.now())), definition, care,
                  context.zone);
    FALAJ_TRY(intake.read(file, [&]() -> Status {
      if (clock.now() <= context.deadline) return {};
      return Error(Code::kDeadlineExceeded, "the ingest took longer than the caller waits");
    }));
    IngestReport report;
    report.view = definition.view.name;
    report.rows_read = intake.rows_read();
    report.rows_accepted = intake.validation().accepted();
    report.newest_event = intake.validation().newest_event();
    report.rows_quarantined = intake.quarantine().rows();
    report.examples = intake.quarantine().examples();
    FALAJ_TRY(intake.validation().check_shares());
    report.warnings = intake.validation().warnings();
    report.quarantine = FALAJ_TRY(intake.quarantine().finish());
    commits.count(definition, "quarantined", report.rows_quarantined);
    if (report.rows_accepted == 0) {
      return all_rejected(context, definition, report, file.name);
    }
    const std::vector<Segment> segments = FALAJ_TRY(intake.writer().commit());
    for (const Segment& segment : segments) report.segments.push_back(segment.blob);
    const storage::StoredBlob profile =
        FALAJ_TRY(blobs.put(owner_of_view(definition.project, context.zone, definition.view.name),
                            encode(intake.profiler().profile())));
    const NewRows rows{definition, context.zone,         Reach::kBoth,
                       segments,   report.rows_accepted, report.newest_event};
    const MutexLock lock(commits.turn_of(definition.project, definition.view.name));
    FALAJ_TRY(commit(context, rows, profile.id, file.name, report));
    commits.count(definition, "accepted", report.rows_accepted);
    const Online::Published published =
        FALAJ_TRY(commits.publish(rows, intake.writer().newest(), report.commit));
    report.online_newer = published.newer;
    report.online_stale = published.stale;
    thin(definition);
    return report;
  }
};

Ingest::Ingest(storage::SqlStore& sql, storage::BlobStore& blobs, Online& online,
               security::Audit& audit, telemetry::Metrics& metrics, const Clock& clock)
    : impl_(new Impl{sql, blobs, online, audit, metrics, clock}) {
  metrics.declare(seconds_metric());
}

Ingest::~Ingest() = default;

ViewCommits& Ingest::commits() { return impl_->commits; }

Result<IngestReport> Ingest::append(const security::RequestContext& context,
                                    const std::string& view, const IngestFile& file) {
  if (!context.zone.labelled()) {
    return Error(Code::kPermissionDenied, "project " + context.project.str() +
                                              " has no zone: declare where its data may be "
                                              "(Project spec: {zone: …}) before ingesting");
  }
  const MutexLock lock(impl_->commits.intake_of(context.project.str(), view));
  const std::int64_t began = monotonic_nanos();
  const ViewDefinition definition =
      FALAJ_TRY(impl_->commits.definition(context.project.str(), view));
  Result<IngestReport> report = impl_->append(context, definition, file);
  impl_->metrics.histogram(seconds_metric(), {definition.project, view})
      .observe_nanos(monotonic_nanos() - began);
  if (!report.ok()) return report.error().within("ingest " + view);
  return report;
}

Result<ErasedView> Ingest::erase(const security::RequestContext& context, const std::string& view,
                                 const Subject& subject) {
  const MutexLock intake(impl_->commits.intake_of(context.project.str(), view));
  const MutexLock lock(impl_->commits.turn_of(context.project.str(), view));
  const ViewDefinition definition =
      FALAJ_TRY(impl_->commits.definition(context.project.str(), view));
  Result<ErasedView> report = erase_from_view(
      {impl_->sql, impl_->blobs, impl_->online, impl_->audit}, context, definition, subject);
  if (!report.ok()) return report.error().within("erase from " + view);
  return report;
}

Status Ingest::forget(const ProjectName& project, const std::string& view, const Zone& zone) {
  const MutexLock intake(impl_->commits.intake_of(project.str(), view));
  const MutexLock lock(impl_->commits.turn_of(project.str(), view));
  return forget_view({impl_->sql, impl_->blobs, impl_->online, impl_->audit}, project.str(), view,
                     zone);
}

Result<std::uint64_t> rows_since(storage::SqlStore& sql, const ProjectName& project,
                                 const std::string& view, Timestamp after) {
  const storage::SqlRows rows = FALAJ_TRY(
      storage::query(sql,
                     "SELECT COALESCE(SUM(rows), 0) FROM feature_commits WHERE project = ? AND "
                     "view = ? AND committed_at > ?",
                     {project.str(), view, after.nanos}));
  return static_cast<std::uint64_t>(rows.at(0).integer(0));
}

Result<std::vector<ViewStats>> view_stats(storage::SqlStore& sql, const Online* online,
                                          const ProjectName& project) {
  std::vector<ViewStats> out;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::Object& object :
         FALAJ_TRY(storage::list_objects(tx, "FeatureView", project.str()))) {
      const storage::SqlParams of_view{object.project, object.name};
      ViewStats stats;
      stats.view = object.name;
      const auto commits =
          FALAJ_TRY(tx.query("SELECT COALESCE(SUM(rows), 0), COALESCE(MAX(newest_event), 0) FROM "
                             "feature_commits WHERE project = ? AND view = ?",
                             of_view));
      const auto segments =
          FALAJ_TRY(tx.query("SELECT COUNT(*) FROM feature_segments JOIN feature_commits USING "
                             "(commit_number) WHERE project = ? AND view = ?",
                             of_view));
      const auto refused = FALAJ_TRY(
          tx.query("SELECT COALESCE(SUM(rows), 0) FROM feature_quarantines WHERE project = ? AND "
                   "view = ?",
                   of_view));
      stats.rows = static_cast<std::uint64_t>(commits.at(0).integer(0));
      stats.newest_event = Timestamp{commits.at(0).integer(1)};
      stats.segments = static_cast<std::uint64_t>(segments.at(0).integer(0));
      stats.quarantined = static_cast<std::uint64_t>(refused.at(0).integer(0));
      if (online != nullptr) stats.keys_online = online->keys(project, object.name);
      out.push_back(std::move(stats));
    }
    return {};
  }));
  return out;
}

}  // namespace falaj::features
