// features/ingest.h — files in, validated rows out: none is silently dropped.
//
// A file becomes one or more immutable segments (blobs sorted by key, event time,
// sequence), a commit record in the metadata store with its audit entry, and the newest row per key
// online. Rows that break the schema or an expectation are counted, reported with line and reason,
// and kept in a quarantine file (CSV: line, reason, raw). All rows of one call become visible
// together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "features/definitions.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/blob.h"
#include "storage/kv.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::features {

extern const storage::Migration kFeaturesMigration;
extern const storage::Migration kReachMigration;  // After it.

struct QuarantinedRow {
  std::uint64_t line = 0;
  std::string reason;
};

struct IngestReport {
  std::string view;
  std::uint64_t rows_read = 0;
  std::uint64_t rows_accepted = 0;
  std::uint64_t rows_quarantined = 0;
  std::vector<QuarantinedRow> examples;  // The first 20.
  BlobId quarantine;                     // Empty when nothing was quarantined.
  std::vector<BlobId> segments;
  std::uint64_t commit = 0;  // Arrival number of this ingest: the knowledge cut-off that sees it.
  // The first commit of this view with exactly these rows, 0 if there is none: the same file was
  // probably sent twice. The rows are appended all the same.
  std::uint64_t duplicate_of = 0;
  // Expectations with severity: warn that rows have broken, those in quarantine included.
  struct Warning {
    std::string expectation;  // Its name; of a feature's, what was found first.
    std::uint64_t rows = 0;
    std::uint64_t first_line = 0;  // 0: it is about all of them.
  };
  std::vector<Warning> warnings;
  Timestamp newest_event{};        // Not in the future; 0 when all are.
  std::uint64_t online_newer = 0;  // Rows that replaced an older one online.
  std::uint64_t online_stale = 0;  // Rows older than what online already had.
};
Value to_value(const IngestReport& report);

struct IngestFile {
  const ByteReader& bytes;
  table::Format format = table::Format::kParquet;
  std::function<void(std::uint64_t rows_read)> on_progress;  // May be empty.
  // What the sender calls it, for the audit log and for explanations: "orders.csv". May be empty.
  std::string name{};
};

class Online;
class ViewCommits;  // features/internal/view_commits.h
struct Subject;
struct ErasedView;

// Thread-safe; ingests of one view take turns, with each other and with erasures. Pushes go on
// while a file is read.
class Ingest {
 public:
  Ingest(storage::SqlStore& sql, storage::BlobStore& blobs, Online& online, security::Audit& audit,
         telemetry::Metrics& metrics, const Clock& clock);
  ~Ingest();

  // FJ-2001 unknown view; FJ-3001 unreadable file; FJ-3002 a needed column is missing or of another
  // type; FJ-3003 when no row was accepted (the quarantine is kept, its id is in the message).
  // FJ-3002 too when a feature's share of nulls is over its nulls_max, FJ-3051 when more rows break
  // an expectation than its broken_max allows: nothing is committed.
  Result<IngestReport> append(const security::RequestContext& context, const std::string& view,
                              const IngestFile& file);

  // Takes every row of the subject out of the view: its segments, online, its quarantines. See
  // features/erasure.h, which calls it for each view.
  Result<ErasedView> erase(const security::RequestContext& context, const std::string& view,
                           const Subject& subject);
  // Nothing of a view's data in that zone is left, in memory, online or in files: its keys were
  // destroyed. The declaration stays, and takes new rows. Safe to repeat.
  Status forget(const ProjectName& project, const std::string& view, const Zone& zone);

  // For others of this module that write into views: their commits take turns with those of
  // ingests.
  ViewCommits& commits();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ViewStats {
  std::string view;
  std::uint64_t rows = 0;
  std::uint64_t quarantined = 0;
  std::uint64_t segments = 0;
  std::uint64_t keys_online = 0;
  // Of the events that were not in the future when they came: one wrong date must not move what is
  // reckoned from here. 0 when there is none.
  Timestamp newest_event{};
};
// Accepted rows of ingests that were committed after `after`.
Result<std::uint64_t> rows_since(storage::SqlStore& sql, const ProjectName& project,
                                 const std::string& view, Timestamp after);
// Without `online`, keys_online is 0.
Result<std::vector<ViewStats>> view_stats(storage::SqlStore& sql, const Online* online,
                                          const ProjectName& project);

}  // namespace falaj::features
