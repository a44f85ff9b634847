#include "features/internal/join_plan.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

Result<const Column*> spine_column(const Batch& spine, const std::string& name, Type type,
                                   ErrorId when_missing) {
  const Column* column = spine.find(name);
  if (column == nullptr) {
    return Error(when_missing, "spine: there is no column \"" + name + "\"");
  }
  if (column->type() == type) return column;
  return Error(ErrorId::kSpineInvalid, "spine: column \"" + name + "\" is " +
                                           std::string(type_name(column->type())) + ", not " +
                                           std::string(type_name(type)));
}

Result<PlannedSegment> plan_segment(const JoinSegment& segment, const JoinView& view) {
  const SegmentFile& file = *segment.file;
  PlannedSegment out{&file, segment.commit, {}, {}};
  std::vector<std::pair<std::size_t, std::size_t>> chunks;  // Chunk, feature.
  for (std::size_t i = 0; i < view.features.size(); ++i) {
    if (view.features[i].aggregate) continue;
    const table::Field& field = view.features[i].stored;
    const auto column = file.schema().find(field.name);
    if (!column) {
      out.missing.push_back(i);
      continue;
    }
    if (*column < file.keys()) {
      return Error(ErrorId::kSchemaMismatch,
                   "FeatureView " + view.name + ": \"" + field.name + "\" is a key, not a feature");
    }
    const Type stored = file.schema().fields[*column].type;
    if (stored != field.type) {
      return Error(ErrorId::kSchemaMismatch, "FeatureView " + view.name + ": \"" + field.name +
                                                 "\" is stored as " +
                                                 std::string(type_name(stored)) + ", not " +
                                                 std::string(type_name(field.type)));
    }
    chunks.emplace_back(SegmentFile::chunk_of(*column), i);
  }
  std::sort(chunks.begin(), chunks.end());
  for (const auto& [chunk, feature] : chunks) {
    if (out.spans.empty() || chunk > out.spans.back().last + 1) {
      out.spans.push_back({chunk, chunk, {}});
    }
    out.spans.back().last = chunk;
    out.spans.back().features.emplace_back(feature, chunk);
  }
  return out;
}

Status check_keys(const SegmentFile& file, const JoinView& view) {
  bool same = file.keys() == view.keys.size();
  for (std::size_t i = 0; same && i < view.keys.size(); ++i) {
    same = file.schema().fields[i].type == view.keys[i].type;
  }
  if (same) return {};
  return Error(ErrorId::kSchemaMismatch,
               "FeatureView " + view.name + ": a segment has other keys than the entity");
}

// What aggregates read is found as features are.
Status plan_window_segments(const JoinView& view, std::uint64_t known_at, PlannedView& out) {
  std::vector<Aggregate> aggregates;
  PlannedWindows windows;
  for (std::size_t i = 0; i < view.features.size(); ++i) {
    if (!view.features[i].aggregate) continue;
    aggregates.push_back(*view.features[i].aggregate);
    windows.features.push_back(i);
  }
  if (aggregates.empty()) return {};
  windows.plan = plan_windows(view.event_id, aggregates);
  JoinView events;
  events.name = view.name;
  for (const table::Field& column : windows.plan.columns) events.features.push_back({column, {}});
  for (const JoinSegment& segment : view.segments) {
    if (segment.commit > known_at) continue;
    windows.segments.push_back(FALAJ_TRY(plan_segment(segment, events)));
  }
  // When the events were available is one more aggregate, over a column that is made of their
  // times.
  if (!view.available_as.empty()) {
    const Aggregate latest{
        AggregateFunction::kMax, {view.available_as, Type::kTimestamp}, windows.plan.longest, 0};
    windows.plan.items.push_back({latest, windows.plan.columns.size()});
  }
  out.windows = std::move(windows);
  return {};
}

// Puts segments in the order of their rows' sequences, if no row has a creation time and the
// sequences of one are all before those of the next. Then event times decide, and nothing else need
// be read to search. So it is with most views: an ingest's rows come behind those before.
bool put_in_order(std::vector<PlannedSegment>& segments) {
  struct Reach {
    std::uint64_t commit;
    std::int64_t first;
    std::int64_t last;
    PlannedSegment segment;
  };
  if (segments.size() <= 1) return true;
  std::vector<Reach> reaches;
  for (const PlannedSegment& segment : segments) {
    const SegmentFile& file = *segment.file;
    const SegmentFile::Summary& position = file.summary(file.keys() + 2);
    if (!file.summary(file.keys() + 1).all_null || position.any_null) return false;
    reaches.push_back({segment.commit, position.min, position.max, segment});
  }
  std::sort(reaches.begin(), reaches.end(), [](const Reach& a, const Reach& b) {
    return std::tie(a.commit, a.first) < std::tie(b.commit, b.first);
  });
  for (std::size_t i = 1; i < reaches.size(); ++i) {
    const Reach& before = reaches[i - 1];
    if (before.commit == reaches[i].commit && before.last >= reaches[i].first) return false;
  }
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i] = std::move(reaches[i].segment);
  return true;
}

Result<PlannedView> plan_view(const Batch& spine, const JoinView& view, std::uint64_t known_at,
                              Plan& plan) {
  PlannedView out;
  out.view = &view;
  std::vector<const Column*> keys;
  for (std::size_t i = 0; i < view.keys.size(); ++i) {
    const std::string& name = view.columns.empty() ? view.keys[i].name : view.columns[i];
    keys.push_back(
        FALAJ_TRY(spine_column(spine, name, view.keys[i].type, ErrorId::kEntityKeyMissing)));
  }
  const auto known = std::find(plan.key_sets.begin(), plan.key_sets.end(), keys);
  out.key_set = static_cast<std::size_t>(known - plan.key_sets.begin());
  if (known == plan.key_sets.end()) plan.key_sets.push_back(std::move(keys));
  for (const JoinSegment& segment : view.segments) {
    if (segment.commit > known_at) continue;
    FALAJ_TRY(check_keys(*segment.file, view));
    out.segments.push_back(FALAJ_TRY(plan_segment(segment, view)));
  }
  out.in_order = view.available_as.empty() && put_in_order(out.segments);
  FALAJ_TRY(plan_window_segments(view, known_at, out));
  return out;
}

}  // namespace

Result<Plan> make_plan(const Batch& spine, const std::vector<JoinView>& views,
                       const JoinOptions& options) {
  if (spine.rows() >= Column::kNoRow) {
    return Error(Code::kResourceExhausted, "spine: over 2^32 rows; join a shorter period");
  }
  Plan out;
  out.time =
      FALAJ_TRY(spine_column(spine, options.time_column, Type::kTimestamp, ErrorId::kSpineInvalid));
  for (const JoinView& view : views) {
    if (view.keys.empty() || (!view.columns.empty() && view.columns.size() != view.keys.size())) {
      return Error(Code::kInvalidArgument,
                   "FeatureView " + view.name + ": name one spine column for each key");
    }
    out.views.push_back(FALAJ_TRY(plan_view(spine, view, options.known_at, out)));
  }
  return out;
}

}  // namespace falaj::features
