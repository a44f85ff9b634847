// features/training_sets.h — a frozen training set: the same request gives the same bytes, for
// ever.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "features/definitions.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::features {

// What a frozen set is made of; stored as JSON beside the Parquet blob and hashed into `id`.
struct Manifest {
  std::string name;
  std::string project;
  std::string zone;
  std::string id;           // SHA-256 over everything below but `data` and the time of freezing.
  BlobId data;              // Parquet: keys, time, label, features…, "split" (train | valid).
  std::string data_sha256;  // Of the Parquet bytes; `data` names how this store keeps them.
  std::uint64_t rows = 0;
  std::uint64_t rows_valid = 0;
  std::vector<std::string> features;  // Columns a model is trained on, in the service's order.
  std::vector<std::string> keys;
  std::string time_column;
  std::string label;
  std::string service;
  std::int64_t service_generation = 0;
  std::vector<std::string> views;     // "customer_activity@3"
  std::vector<std::string> segments;  // Content hashes of the segments that were read.
  std::string spine_hash;
  std::uint64_t known_at = 0;    // Commit number: nothing that arrived later was seen.
  std::vector<Leakage> leakage;  // Of each view of the service.
  Timestamp from{};
  Timestamp to{};
  Timestamp frozen_at{};
};
Value to_value(const Manifest& manifest);
// Whose the frozen rows are.
storage::Owner owner_of(const Manifest& manifest);
Result<Manifest> manifest_from_value(const Value& value);

// Overrides of the declared spec for one freeze: the loop asks for a newer window.
struct FreezeOptions {
  std::optional<Timestamp> from;
  std::optional<Timestamp> to;
  std::optional<std::uint64_t> known_at;
  const ByteReader* spine_file = nullptr;  // For a spec with spine.path.
  table::Format spine_format = table::Format::kParquet;
  std::string name_suffix;  // The frozen set's name: "<spec name><suffix>".
};

struct TrainingSetOptions {
  // About what a freeze may hold besides its spine and, for each row and view, the eight bytes that
  // the certificate of leakage takes: past it the spine is joined in several passes, each of which
  // reads the views again. The bytes of the set do not depend on it.
  std::int64_t memory_max = std::int64_t{1} << 30;
};

class TrainingSets {
 public:
  TrainingSets(storage::SqlStore& sql, storage::BlobStore& blobs, security::Audit& audit,
               const Clock& clock, const TrainingSetOptions& options = {});
  ~TrainingSets();

  // Joins, writes, records. What was joined is written while the rest is joined: only the spine is
  // in memory as a whole. Freezing the same inputs again returns the first manifest.
  // FJ-3006 for a bad spine, FJ-3005 for colliding feature names, FJ-3004 for a corrupt segment;
  // kFailedPrecondition when the set refuses values that were created after their row;
  // kDeadlineExceeded when the caller no longer waits: seen between two passes.
  Result<Manifest> freeze(const security::RequestContext& context, const std::string& name,
                          const FreezeOptions& options = {});
  // The newest frozen manifest of that name; FJ-2001 when it was never frozen.
  Result<Manifest> latest(const ProjectName& project, const std::string& name) const;
  Result<Manifest> by_id(const ProjectName& project, const std::string& id) const;
  Result<std::vector<Manifest>> list(const ProjectName& project) const;
  // What has happened to the set's views since it was frozen, a sentence each: rows that came
  // later, a view that was declared anew or is gone. Empty when freezing again gives the same set.
  Result<std::vector<std::string>> newer_inputs(const Manifest& manifest) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace falaj::features
