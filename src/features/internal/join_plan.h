// features/internal/join_plan.h — what a point-in-time join will read, found before it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "features/internal/segment_file.h"
#include "features/internal/windows.h"
#include "features/point_in_time_join.h"
#include "table/batch.h"

namespace falaj::features {

// Features whose chunks stand side by side in a segment, read at once.
struct FeatureSpan {
  std::size_t first = 0;  // Chunks.
  std::size_t last = 0;
  std::vector<std::pair<std::size_t, std::size_t>> features;  // Number in the view, chunk.
};

struct PlannedSegment {
  const SegmentFile* file = nullptr;
  std::uint64_t commit = 0;
  std::vector<FeatureSpan> spans;
  std::vector<std::size_t> missing;  // Features that the view got later: null here.
};

// The aggregates of a view, and where their events are.
struct PlannedWindows {
  WindowPlan plan;
  std::vector<std::size_t> features;  // The number in the view of each of the plan's items.
  std::vector<PlannedSegment> segments;
};

// A view whose columns were found.
struct PlannedView {
  const JoinView* view = nullptr;
  std::size_t key_set = 0;
  std::vector<PlannedSegment> segments;
  // Of two rows with one event time the one in the later segment wins, whatever else they say.
  bool in_order = false;
  std::optional<PlannedWindows> windows;
};

struct Plan {
  const table::Column* time = nullptr;
  std::vector<std::vector<const table::Column*>> key_sets;  // Distinct lists of spine columns.
  std::vector<PlannedView> views;
};

// `spine` and `views` outlive it. The errors are those of point_in_time_join().
Result<Plan> make_plan(const table::Batch& spine, const std::vector<JoinView>& views,
                       const JoinOptions& options);

}  // namespace falaj::features
