#include "features/point_in_time_join.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "exec/pool.h"
#include "features/internal/join_output.h"
#include "features/internal/probes.h"
#include "features/internal/segment_cursor.h"
#include "features/internal/segments.h"
#include "features/internal/windows.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::int64_t kMinTime = std::numeric_limits<std::int64_t>::min();
constexpr std::uint32_t kNoSegment = std::numeric_limits<std::uint32_t>::max();
// Spine rows that a thread takes at once: enough to walk on through a segment, few enough that
// their winners stay in the cache and both threads end together.
constexpr std::size_t kRangeMin = 1024;
constexpr std::size_t kRangeMax = 32'768;
// Up to so many rows of a block are read one by one.
constexpr std::size_t kFewRows = 4;
// A pass over all views for fewer rows would cost more than it saves.
constexpr std::size_t kPassRowsMin = 16'384;
// Spine rows whose events are held at once, unless one key has more rows.
constexpr std::size_t kWindowRows = 256;

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
  std::optional<PlannedWindows> windows;
};

struct Plan {
  const Column* time = nullptr;
  std::vector<std::vector<const Column*>> key_sets;  // Distinct lists of spine columns.
  std::vector<PlannedView> views;
};

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
  FALAJ_TRY(plan_window_segments(view, known_at, out));
  return out;
}

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

// The best row so far for a probe.
struct Winner {
  std::int64_t event = 0;
  std::int64_t created = 0;
  std::uint64_t sequence = 0;
  std::uint32_t segment = kNoSegment;
  std::uint32_t block = 0;
  std::uint32_t row = 0;
};

// The features of one view for the rows of one pass, in the order of its probes.
struct ViewOutput {
  std::vector<OutputColumn> columns;  // The features, then when the row was known if that is asked.
  std::vector<std::uint8_t> found;
  // Of a view with aggregates: those of every probe are there, and when something was known.
  std::vector<std::uint8_t> asked;
  std::vector<std::uint8_t> known;

  const std::vector<std::uint8_t>& found_of(const PlannedView& planned, std::size_t column) const {
    if (!planned.windows) return found;
    const auto& features = planned.view->features;
    if (column == features.size()) return known;
    return features[column].aggregate ? asked : found;
  }
};

// What one thread needs; used again for every range.
struct Worker {
  TextArena texts;
  std::vector<Winner> winners;
  std::vector<Move> moves;
  SegmentFile::Chunks chunks;
};

// The newest row that may answer, from where the cursor stands back to `oldest`.
Result<bool> settle(SegmentCursor& cursor, const KeyRef& key, std::int64_t at, std::int64_t oldest,
                    CreatedRule rule) {
  while (cursor.event() >= oldest) {
    if (rule == CreatedRule::kBreaksTies) return true;
    FALAJ_TRY(cursor.look_closer());
    if (cursor.has_created() && cursor.created() <= at) return true;
    if (!FALAJ_TRY(cursor.back(key))) return false;
  }
  return false;
}

// All probes of a range against one segment.
Status ask_segment(const PlannedView& planned, std::uint32_t number, const Probes& probes,
                   std::span<const Probe> range, std::vector<Winner>& winners) {
  const PlannedSegment& segment = planned.segments[number];
  const std::int64_t ttl = planned.view->ttl.nanos;
  // Where there is nothing to compare with, times need not be looked at.
  const bool alone = planned.segments.size() == 1 && planned.view->available_as.empty();
  const bool few = probes.sorted().size() < segment.file->blocks().size();
  SegmentCursor cursor(*segment.file, few ? Questions::kFew : Questions::kMany);
  for (std::size_t i = 0; i < range.size(); ++i) {
    const Probe& probe = range[i];
    const KeyRef key{probe.prefix, probes.key(probe)};
    if (!FALAJ_TRY(cursor.seek(key, probe.at))) continue;
    const std::int64_t oldest = ttl <= 0 || probe.at < kMinTime + ttl ? kMinTime : probe.at - ttl;
    if (!FALAJ_TRY(settle(cursor, key, probe.at, oldest, planned.view->created))) continue;
    Winner& best = winners[i];
    Winner found{cursor.event(), 0, 0, number, cursor.block(), cursor.row()};
    if (!alone) {
      if (best.segment != kNoSegment && found.event < best.event) continue;
      FALAJ_TRY(cursor.look_closer());
      found.created = cursor.has_created() ? cursor.created() : kMinTime;
      found.sequence = sequence_of(segment.commit, cursor.position());
      if (best.segment != kNoSegment && std::tie(found.event, found.created, found.sequence) <
                                            std::tie(best.event, best.created, best.sequence)) {
        continue;
      }
    }
    best = found;
  }
  return {};
}

// Values one by one, where that reads less than whole chunks.
Status fill_few(const PlannedSegment& segment, std::size_t block, const FeatureSpan& span,
                Worker& worker, ViewOutput& out) {
  std::vector<std::uint32_t> rows;
  std::vector<Move> moves;
  for (const Move& move : worker.moves) {
    moves.push_back({static_cast<std::uint32_t>(rows.size()), move.to});
    rows.push_back(move.from);
  }
  for (const auto& [feature, chunk] : span.features) {
    if (FALAJ_TRY(segment.file->read_values(block, chunk, rows, worker.chunks))) {
      out.columns[feature].fill(worker.chunks.at(chunk), moves, worker.texts);
      continue;
    }
    FALAJ_TRY(segment.file->read_chunks(block, chunk, chunk, worker.chunks));
    out.columns[feature].fill(worker.chunks.at(chunk), worker.moves, worker.texts);
  }
  return {};
}

// Takes the features of the rows that won in one segment, block by block, to `first` and behind.
Status fill_from(const PlannedSegment& segment, std::uint32_t number, std::size_t first,
                 Worker& worker, ViewOutput& out) {
  for (std::size_t i = 0; i < worker.winners.size();) {
    worker.moves.clear();
    std::uint32_t block = 0;
    for (; i < worker.winners.size(); ++i) {
      const Winner& winner = worker.winners[i];
      if (winner.segment != number) continue;
      if (worker.moves.empty()) block = winner.block;
      if (winner.block != block) break;
      worker.moves.push_back({winner.row, static_cast<std::uint32_t>(first + i)});
    }
    for (const std::size_t feature : segment.missing) {
      out.columns[feature].fill_nulls(worker.moves);
    }
    if (worker.moves.empty()) continue;
    for (const FeatureSpan& span : segment.spans) {
      if (worker.moves.size() <= kFewRows) {
        FALAJ_TRY(fill_few(segment, block, span, worker, out));
        continue;
      }
      FALAJ_TRY(segment.file->read_chunks(block, span.first, span.last, worker.chunks));
      for (const auto& [feature, chunk] : span.features) {
        out.columns[feature].fill(worker.chunks.at(chunk), worker.moves, worker.texts);
      }
    }
  }
  return {};
}

// The probes [first, first + count).
Status join_range(const PlannedView& planned, const Probes& probes, std::size_t first,
                  std::size_t count, Worker& worker, ViewOutput& out) {
  const std::span<const Probe> range = probes.sorted().subspan(first, count);
  worker.winners.assign(range.size(), Winner{});
  for (std::uint32_t i = 0; i < planned.segments.size(); ++i) {
    FALAJ_TRY(ask_segment(planned, i, probes, range, worker.winners));
  }
  for (std::size_t i = 0; i < range.size(); ++i) {
    const Winner& winner = worker.winners[i];
    if (winner.segment == kNoSegment) continue;
    out.found[first + i] = 1;
    if (planned.view->available_as.empty()) continue;
    out.columns.back().set(first + i, winner.created == kMinTime ? winner.event : winner.created);
  }
  for (std::uint32_t i = 0; i < planned.segments.size(); ++i) {
    FALAJ_TRY(fill_from(planned.segments[i], i, first, worker, out));
  }
  return {};
}

// Probes of one key, side by side, and its events.
struct KeyGroup {
  std::size_t first = 0;  // Probes [first, last) of a stretch.
  std::size_t last = 0;
  std::size_t events_end = 0;
};

struct FoundEvent {
  std::uint32_t group = 0;
  Winner row;
};

std::vector<KeyGroup> groups_of(const Probes& probes, std::span<const Probe> stretch) {
  std::vector<KeyGroup> out;
  for (std::size_t i = 0; i < stretch.size(); ++i) {
    const bool same = i > 0 && stretch[i].prefix == stretch[i - 1].prefix &&
                      probes.key(stretch[i]) == probes.key(stretch[i - 1]);
    if (!same) out.push_back({i, i, 0});
    out.back().last = i + 1;
  }
  return out;
}

// The events of one segment that may be in a window of a group's probes, newest first.
Status find_events(const PlannedWindows& windows, std::uint32_t number, const Probes& probes,
                   std::span<const Probe> stretch, const std::vector<KeyGroup>& groups,
                   std::vector<FoundEvent>& out) {
  const PlannedSegment& segment = windows.segments[number];
  const std::int64_t longest = windows.plan.longest.nanos;
  SegmentCursor cursor(*segment.file);
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    const Probe& first = stretch[groups[i].first];
    const Probe& last = stretch[groups[i].last - 1];
    const KeyRef key{last.prefix, probes.key(last)};
    const bool all = first.at < kMinTime + longest;
    bool more = FALAJ_TRY(cursor.seek(key, last.at));
    while (more && (all || cursor.event() > first.at - longest)) {
      FALAJ_TRY(cursor.look_closer());
      out.push_back(
          {i,
           {cursor.event(), cursor.has_created() ? cursor.created() : kMinTime,
            sequence_of(segment.commit, cursor.position()), number, cursor.block(), cursor.row()}});
      more = FALAJ_TRY(cursor.back(key));
    }
  }
  return {};
}

// The events of all groups, each group's side by side in the order of windows.h.
Result<EventRows> read_events(const PlannedView& planned, const Probes& probes,
                              std::span<const Probe> stretch, std::vector<KeyGroup>& groups,
                              Worker& worker) {
  const PlannedWindows& windows = *planned.windows;
  std::vector<FoundEvent> found;
  for (std::uint32_t i = 0; i < windows.segments.size(); ++i) {
    FALAJ_TRY(find_events(windows, i, probes, stretch, groups, found));
  }
  const auto ascends = [](const FoundEvent& a, const FoundEvent& b) {
    return std::tie(a.group, a.row.event, a.row.created, a.row.sequence) <
           std::tie(b.group, b.row.event, b.row.created, b.row.sequence);
  };
  if (windows.segments.size() == 1) {
    for (auto begin = found.begin(); begin != found.end();) {
      const auto end = std::find_if(begin, found.end(),
                                    [&](const auto& each) { return each.group != begin->group; });
      std::reverse(begin, end);
      begin = end;
    }
  } else {
    std::sort(found.begin(), found.end(), ascends);
  }
  EventRows out;
  worker.winners.clear();
  for (const FoundEvent& each : found) {
    worker.winners.push_back(each.row);
    out.event.push_back(each.row.event);
    out.created.push_back(each.row.created);
    out.sequence.push_back(each.row.sequence);
    groups[each.group].events_end = out.event.size();
  }
  ViewOutput values;
  TextArena texts;
  std::swap(texts, worker.texts);  // Texts of events need not last.
  for (const table::Field& column : windows.plan.columns) {
    values.columns.emplace_back(column.type, found.size());
  }
  Status filled;
  for (std::uint32_t i = 0; filled.ok() && i < windows.segments.size(); ++i) {
    filled = fill_from(windows.segments[i], i, 0, worker, values);
  }
  std::vector<std::uint32_t> places(found.size());
  std::iota(places.begin(), places.end(), 0u);
  values.found.assign(found.size(), 1);
  for (OutputColumn& column : values.columns) {
    out.columns.push_back(column.finish(values.found, places));
  }
  std::swap(texts, worker.texts);
  FALAJ_TRY(std::move(filled));
  return out;
}

void set_windows(const PlannedView& planned, WindowReader& reader, std::size_t place,
                 Worker& worker, ViewOutput& out) {
  const PlannedWindows& windows = *planned.windows;
  for (std::size_t i = 0; i < windows.features.size(); ++i) {
    out.columns[windows.features[i]].set(place, reader.value(i), worker.texts);
  }
  if (planned.view->available_as.empty()) return;
  const expression::Cell latest = reader.value(windows.features.size());
  out.known[place] = out.found[place];
  if (latest.is_null) return;
  const bool later = out.found[place] == 0 || out.columns.back().integer(place) < latest.integer;
  if (later) out.columns.back().set(place, latest.integer);
  out.known[place] = 1;
}

// The aggregates of the probes [first, first + count), which were joined before.
Status join_windows(const PlannedView& planned, const Probes& probes, std::size_t first,
                    std::size_t count, Worker& worker, ViewOutput& out) {
  const PlannedWindows& windows = *planned.windows;
  const bool by_row = planned.view->created == CreatedRule::kKnownByRow;
  const std::span<const Probe> stretch = probes.sorted().subspan(first, count);
  std::vector<KeyGroup> groups = groups_of(probes, stretch);
  EventRows rows = FALAJ_TRY(read_events(planned, probes, stretch, groups, worker));
  if (!planned.view->available_as.empty()) {
    std::vector<std::int64_t> available = rows.created;
    for (std::size_t i = 0; i < available.size(); ++i) {
      if (available[i] == EventRows::kNoCreation) available[i] = rows.event[i];
    }
    rows.columns.push_back(Column::of_ints(Type::kTimestamp, std::move(available)));
  }
  WindowReader reader(windows.plan);
  std::vector<std::uint32_t> counted;
  std::size_t begin = 0;
  for (const KeyGroup& group : groups) {
    const std::size_t end = std::max(begin, group.events_end);
    if (!by_row) {
      counted_events(windows.plan, rows, begin, end, {}, counted);
      reader.begin(rows, counted);
    }
    for (std::size_t i = group.first; i < group.last; ++i) {
      if (by_row) {
        KnownEvents known;
        known.created_by = stretch[i].at;
        counted_events(windows.plan, rows, begin, end, known, counted);
        reader.begin(rows, counted);
      }
      reader.move_to(stretch[i].at);
      set_windows(planned, reader, first + i, worker, out);
    }
    begin = end;
  }
  return {};
}

// The same in stretches that hold few events at once; a key is not cut where that can be helped.
Status join_all_windows(const PlannedView& planned, const Probes& probes, std::size_t first,
                        std::size_t count, Worker& worker, ViewOutput& out) {
  const std::span<const Probe> all = probes.sorted();
  const std::size_t end = first + count;
  for (std::size_t begin = first; begin < end;) {
    std::size_t stop = std::min(begin + kWindowRows, end);
    while (stop < end && all[stop].prefix == all[stop - 1].prefix &&
           probes.key(all[stop]) == probes.key(all[stop - 1])) {
      ++stop;
    }
    FALAJ_TRY(join_windows(planned, probes, begin, stop - begin, worker, out));
    begin = stop;
  }
  return {};
}

// Calls work(worker, task) for every task, a thread for each worker; the first error ends it.
template <class Work>
Status share(std::size_t tasks, std::vector<Worker>& workers, Work work) {
  std::atomic<std::size_t> next{0};
  Mutex mutex;
  Status first_error;
  const auto loop = [&](Worker& worker) {
    for (std::size_t task = next++; task < tasks; task = next++) {
      Status done = work(worker, task);
      if (done.ok()) continue;
      next = tasks;
      const MutexLock lock(mutex);
      if (first_error.ok()) first_error = std::move(done);
    }
  };
  const std::size_t used = std::max<std::size_t>(1, std::min(workers.size(), tasks));
  if (used == 1) {
    loop(workers[0]);
    return first_error;
  }
  exec::Pool pool({"join", used - 1, used});
  for (std::size_t i = 1; i < used; ++i) {
    // A pool that is full leaves the work to the others.
    if (!pool.submit([&loop, &workers, i] { loop(workers[i]); }).ok()) break;
  }
  loop(workers[0]);
  pool.drain();
  return first_error;
}

// The columns of every view in the order of the spine.
Result<std::vector<std::vector<Column>>> finished(const Plan& plan,
                                                  const std::vector<std::optional<Probes>>& probes,
                                                  std::vector<Worker>& workers,
                                                  std::vector<ViewOutput>& outputs) {
  std::vector<std::vector<std::uint32_t>> places;
  for (const auto& asked : probes) places.push_back(asked->places());
  std::vector<std::pair<std::size_t, std::size_t>> tasks;  // View, column.
  std::vector<std::vector<Column>> out(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    out[i].assign(outputs[i].columns.size(), Column(Type::kInt64));
    for (std::size_t c = 0; c < out[i].size(); ++c) tasks.emplace_back(i, c);
  }
  FALAJ_TRY(share(tasks.size(), workers, [&](Worker&, std::size_t task) -> Status {
    const auto [view, column] = tasks[task];
    out[view][column] = outputs[view].columns[column].finish(
        outputs[view].found_of(plan.views[view], column), places[plan.views[view].key_set]);
    return {};
  }));
  return out;
}

Result<Batch> batch_of(const Plan& plan, std::vector<std::vector<Column>> columns) {
  Batch out;
  const auto add = [&](table::Field field, Column column) -> Status {
    if (out.schema.find(field.name)) {
      return Error(ErrorId::kFeatureNameCollision, "two features are called " + field.name);
    }
    out.schema.fields.push_back(std::move(field));
    out.columns.push_back(std::move(column));
    return {};
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const JoinView& view = *plan.views[i].view;
    for (std::size_t f = 0; f < view.features.size(); ++f) {
      FALAJ_TRY(add({view.features[f].as, view.features[f].stored.type}, std::move(columns[i][f])));
    }
    if (view.available_as.empty()) continue;
    FALAJ_TRY(add({view.available_as, Type::kTimestamp}, std::move(columns[i].back())));
  }
  return out;
}

// Rows [begin, end) of the spine against every view.
Result<Batch> join_rows(const Plan& plan, const JoinOptions& options, std::size_t begin,
                        std::size_t end) {
  const std::size_t rows = end - begin;
  std::vector<std::optional<Probes>> probes(plan.key_sets.size());
  // All at once: what was filled points into them.
  std::vector<Worker> workers(std::max<std::size_t>(1, options.threads));
  FALAJ_TRY(share(probes.size(), workers, [&](Worker&, std::size_t set) -> Status {
    probes[set].emplace(plan.key_sets[set], *plan.time, begin, end);
    return {};
  }));
  std::vector<ViewOutput> outputs;
  for (const PlannedView& planned : plan.views) {
    ViewOutput& output = outputs.emplace_back();
    output.found.assign(rows, 0);
    if (planned.windows) {
      output.asked.assign(rows, 1);
      output.known.assign(rows, 0);
    }
    for (const JoinFeature& feature : planned.view->features) {
      output.columns.emplace_back(feature.stored.type, rows);
    }
    if (!planned.view->available_as.empty()) output.columns.emplace_back(Type::kTimestamp, rows);
  }
  const std::size_t size = std::clamp(rows / (options.threads * 8 + 1), kRangeMin, kRangeMax);
  // A view after the other, each in ranges: a thread walks on through the segments of one.
  const std::size_t ranges = (rows + size - 1) / size;
  const auto join_task = [&](Worker& worker, std::size_t task) -> Status {
    const std::size_t view = task / ranges;
    const Probes& asked = *probes[plan.views[view].key_set];
    const std::size_t all = asked.sorted().size();
    const std::size_t first = std::min(task % ranges * size, all);
    const std::size_t count = std::min(size, all - first);
    if (count == 0) return {};
    const PlannedView& planned = plan.views[view];
    Status joined = join_range(planned, asked, first, count, worker, outputs[view]);
    if (joined.ok() && planned.windows) {
      joined = join_all_windows(planned, asked, first, count, worker, outputs[view]);
    }
    if (joined.ok()) return {};
    return joined.error().within("FeatureView " + plan.views[view].view->name);
  };
  FALAJ_TRY(share(ranges * plan.views.size(), workers, join_task));
  return batch_of(plan, FALAJ_TRY(finished(plan, probes, workers, outputs)));
}

// Bytes that a pass holds for each spine row: probes, winners' answers, and the batch itself.
std::int64_t bytes_per_row(const Plan& plan) {
  std::int64_t out = 0;
  for (const auto& keys : plan.key_sets) {
    out += static_cast<std::int64_t>(sizeof(Probe) + 32 * keys.size());
  }
  for (const PlannedView& planned : plan.views) {
    out += 1;
    for (const JoinFeature& feature : planned.view->features) {
      out += feature.stored.type == Type::kString ? 80 : 10;
    }
  }
  return out;
}

}  // namespace

Status name_features(NameStyle style, const std::vector<std::string>& taken,
                     std::vector<JoinView>& views) {
  const auto collision = [](const std::string& name) {
    return Error(ErrorId::kFeatureNameCollision,
                 "\"" + name +
                     "\" would be two columns of the training set: rename the feature, or take it "
                     "from one view only");
  };
  std::set<std::string> names;
  for (const std::string& name : taken) {
    if (!names.insert(name).second) return collision(name);
  }
  for (JoinView& view : views) {
    for (JoinFeature& feature : view.features) {
      feature.as =
          style == NameStyle::kFull ? view.name + "__" + feature.stored.name : feature.stored.name;
      if (!names.insert(feature.as).second) return collision(feature.as);
    }
  }
  return {};
}

Status point_in_time_join(const Batch& spine, const std::vector<JoinView>& views,
                          const JoinOptions& options, const OnJoined& on_rows) {
  const Plan plan = FALAJ_TRY(make_plan(spine, views, options));
  const std::int64_t fit = options.memory_max / std::max<std::int64_t>(bytes_per_row(plan), 1);
  const std::size_t rows =
      std::max(static_cast<std::size_t>(std::max<std::int64_t>(fit, 0)), kPassRowsMin);
  for (std::size_t begin = 0; begin < spine.rows(); begin += rows) {
    Batch joined = FALAJ_TRY(join_rows(plan, options, begin, std::min(begin + rows, spine.rows())));
    FALAJ_TRY(on_rows(std::move(joined)));
  }
  return {};
}

Result<Batch> point_in_time_join(const Batch& spine, const std::vector<JoinView>& views,
                                 const JoinOptions& options) {
  const Plan plan = FALAJ_TRY(make_plan(spine, views, options));
  return join_rows(plan, options, 0, spine.rows());
}

}  // namespace falaj::features
