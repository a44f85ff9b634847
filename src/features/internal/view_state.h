// features/internal/view_state.h — what is kept of one view that is read online, and of the commits
// on their way into it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "features/definitions.h"
#include "features/internal/event_index.h"
#include "features/internal/segments.h"
#include "features/internal/view_index.h"
#include "storage/kv.h"
#include "storage/sql.h"
#include "table/batch.h"

namespace falaj::features {

std::vector<table::Field> fields_of(const FeatureView& view);
std::vector<Aggregate> aggregates_of(const FeatureView& view);

// One view that is read online. `turn` serialises its writers.
struct ViewState {
  std::string project;
  std::string view;
  Zone zone;  // Of its first commit; unlabelled before there is one.
  std::vector<table::Field> keys;
  std::vector<table::Field> fields;
  storage::RowKey row_key = storage::RowKey::kOwners;
  table::Schema segments;
  std::uint32_t slot = 0;
  ViewIndex* index = nullptr;
  std::vector<Aggregate> aggregates;
  std::optional<table::Field> event_id;
  std::int64_t events_max = 0;
  std::shared_ptr<EventIndex> events;     // Null without aggregates.
  std::atomic<std::uint64_t> copied = 0;  // Up to this commit the durable copy has every row.
  Mutex turn;
  std::uint64_t watermark FALAJ_GUARDED_BY(turn) = 0;

  storage::Owner owner() const { return owner_of_view(project, zone, view); }
  // Whether it was made for this declaration, as far as rows depend on it.
  bool fits(const FeatureView& definition, const Entity& entity) const;
};

// Of the view; 0 when it has none.
Result<std::uint64_t> newest_commit(storage::SqlStore& sql, const ViewState& state);
// Sets state.zone where the view has a commit: its online rows stay where its first came to be.
Status find_zone(storage::SqlStore& sql, ViewState& state);

// The rows of one commit, as they came into the index.
struct Fresh {
  storage::Owner owner;
  table::Batch rows;       // Sorted, the newest of each key.
  std::vector<bool> wins;  // Which of them came in.
  std::uint64_t commit = 0;
  std::uint64_t follows = 0;  // The view's commit before.
};

using FreshPtr = std::shared_ptr<const Fresh>;

// What one commit brought.
struct CommitRows {
  table::Batch newest;  // Of each key, from each of its segments.
  // In no order, without those too old for any window; only where there are windows.
  table::Batch all;
  std::uint64_t commit = 0;
  Timestamp committed_at{};
};

}  // namespace falaj::features
