// features/erasure.h — one person's rows taken out of every feature view of a project.
//
// Segments are immutable and sealed as a whole, so those that hold the person are written again
// without the rows, and the old ones are destroyed with their keys. Quarantined rows are unread
// text that may name anybody: the views' quarantines are destroyed as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "features/ingest.h"
#include "features/key.h"
#include "features/training_sets.h"

namespace falaj::features {

// A person (or whatever an Entity stands for) by the values of its keys.
struct Subject {
  std::vector<table::Field> keys;  // In the entity's order.
  std::vector<KeyPart> parts;
};
// `key` is {"customer_id": 42}: exactly the entity's keys, each of its type. FJ-1003/1004/1005.
Result<Subject> subject_from_value(const Entity& entity, const Value& key);

struct ErasedView {
  std::string view;
  std::uint64_t rows = 0;         // Taken out of segments.
  std::uint64_t segments = 0;     // Written anew or dropped.
  std::uint64_t online = 0;       // Keys removed online.
  std::uint64_t quarantines = 0;  // Destroyed.
  // Where each online row was sealed under a key of its own: whose it was and the rows' keys in the
  // store, for the caller to shred. Personal: never printed.
  storage::Owner owner{};
  std::vector<std::string> own_keys{};
};

struct EraseReport {
  std::vector<ErasedView> views;  // Every view that has the keys, also those without a row.
  // Frozen sets that hold the person: their keys are for the caller to shred.
  std::vector<std::string> training_sets;
  std::uint64_t rows = 0;
};
Value to_value(const EraseReport& report);

extern const storage::Migration kErasureMigration;

// From every view whose entity has the subject's keys (alone or among others). FJ-2001 when the
// entity is not declared. Repeating it after a crash or an error finishes what was left; a view is
// done or untouched. Ingests of a view wait meanwhile. Cost: reads every segment of those views and
// the key columns of every frozen set that has the keys.
struct ErasureServices {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  Ingest& ingest;
  const TrainingSets& sets;
};
Result<EraseReport> erase_subject(const security::RequestContext& context,
                                  const ErasureServices& services, const std::string& entity,
                                  const Value& key);

// Destroys the old segments of erasures that a crash cut short. At start, and after every erasure.
Status finish_erasures(storage::SqlStore& sql, storage::BlobStore& blobs);

}  // namespace falaj::features
