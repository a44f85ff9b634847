#include "features/point_in_time_join.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "features/internal/join_output.h"
#include "features/internal/join_plan.h"
#include "features/internal/probes.h"
#include "features/internal/segment_cursor.h"
#include "features/internal/segments.h"
#include "features/internal/stages.h"
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
// Views whose answers wait for the order of the spine at once: as many as stay near the processor,
// two at least.
constexpr std::size_t kFilledBytes = std::size_t{8} << 20;
// Spine rows whose events are held at once, unless one key has more rows.
constexpr std::size_t kWindowRows = 256;

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

  // The same in the order of the spine; empty when all are there.
  std::vector<std::uint8_t> found_rows;
  std::vector<std::uint8_t> asked_rows;
  std::vector<std::uint8_t> known_rows;

  const std::vector<std::uint8_t>& valid_of(const PlannedView& planned, std::size_t column) const {
    if (!planned.windows) return found_rows;
    const auto& features = planned.view->features;
    if (column == features.size()) return known_rows;
    return features[column].aggregate ? asked_rows : found_rows;
  }
};

bool may_have_nulls(const PlannedView& planned, const JoinFeature& feature) {
  return feature.aggregate ||
         std::any_of(planned.segments.begin(), planned.segments.end(), [&](const auto& segment) {
           const auto column = segment.file->schema().find(feature.stored.name);
           return !column || segment.file->summary(*column).any_null;
         });
}

// Ready for a view's answers, whatever was in it before.
void prepare(const PlannedView& planned, std::size_t rows, ViewOutput& out) {
  const auto& features = planned.view->features;
  const bool available = !planned.view->available_as.empty();
  out.columns.resize(features.size() + (available ? 1 : 0));
  for (std::size_t i = 0; i < features.size(); ++i) {
    out.columns[i].prepare(features[i].stored.type, rows, may_have_nulls(planned, features[i]));
  }
  if (available) out.columns.back().prepare(Type::kTimestamp, rows, false);
  out.found.assign(rows, 0);
  out.asked.assign(planned.windows ? rows : 0, 1);
  out.known.assign(planned.windows ? rows : 0, 0);
}

// Which rows of the spine have answers.
void order_valid(const PlannedView& planned, const std::vector<std::uint32_t>& places,
                 ViewOutput& out) {
  out.found_rows = valid_in_order(out.found, places);
  if (!planned.windows) return;
  out.asked_rows = valid_in_order(out.asked, places);
  out.known_rows = valid_in_order(out.known, places);
}

// What one thread needs; used again for every range.
struct Worker {
  TextArena texts;
  std::vector<Winner> winners;
  std::vector<NewestRow> newest;
  std::vector<std::uint32_t> without;  // Probes without an answer.
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

// The oldest event time that may answer.
std::int64_t oldest_for(std::int64_t at, std::int64_t ttl) {
  return ttl <= 0 || at < kMinTime + ttl ? kMinTime : at - ttl;
}

// All probes of a range against one segment, where event times decide alone.
Status ask_by_event(const PlannedView& planned, std::uint32_t number, const Probes& probes,
                    std::span<const Probe> range, Worker& worker) {
  worker.newest.clear();
  SegmentCursor cursor(*planned.segments[number].file);
  FALAJ_TRY(cursor.seek_all(probes, range, worker.newest));
  for (const NewestRow& found : worker.newest) {
    Winner& best = worker.winners[found.probe];
    if (found.event < oldest_for(range[found.probe].at, planned.view->ttl.nanos)) continue;
    if (best.segment != kNoSegment && found.event < best.event) continue;
    best = {found.event, 0, 0, number, found.block, found.row};
  }
  return {};
}

// All probes of a range against one segment.
Status ask_segment(const PlannedView& planned, std::uint32_t number, const Probes& probes,
                   std::span<const Probe> range, Worker& worker) {
  const PlannedSegment& segment = planned.segments[number];
  const bool few = probes.sorted().size() < segment.file->blocks().size();
  if (planned.in_order && planned.view->created == CreatedRule::kBreaksTies && !few) {
    return ask_by_event(planned, number, probes, range, worker);
  }
  SegmentCursor cursor(*segment.file, few ? Questions::kFew : Questions::kMany);
  for (std::size_t i = 0; i < range.size(); ++i) {
    const Probe& probe = range[i];
    const KeyRef key{probe.prefix, probes.key(probe)};
    if (!FALAJ_TRY(cursor.seek(key, probe.at))) continue;
    const std::int64_t oldest = oldest_for(probe.at, planned.view->ttl.nanos);
    if (!FALAJ_TRY(settle(cursor, key, probe.at, oldest, planned.view->created))) continue;
    Winner& best = worker.winners[i];
    Winner found{cursor.event(), 0, 0, number, cursor.block(), cursor.row()};
    if (best.segment != kNoSegment && found.event < best.event) continue;
    if (!planned.in_order) {
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
    FALAJ_TRY(ask_segment(planned, i, probes, range, worker));
  }
  worker.without.clear();
  for (std::size_t i = 0; i < range.size(); ++i) {
    const Winner& winner = worker.winners[i];
    if (winner.segment == kNoSegment) {
      worker.without.push_back(static_cast<std::uint32_t>(first + i));
      continue;
    }
    out.found[first + i] = 1;
    if (planned.view->available_as.empty()) continue;
    out.columns.back().set(first + i, winner.created == kMinTime ? winner.event : winner.created);
  }
  for (OutputColumn& column : out.columns) column.clear(worker.without);
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
    values.columns.emplace_back().prepare(column.type, found.size(), true);
  }
  Status filled;
  for (std::uint32_t i = 0; filled.ok() && i < windows.segments.size(); ++i) {
    filled = fill_from(windows.segments[i], i, 0, worker, values);
  }
  std::vector<std::uint32_t> places(found.size());
  std::iota(places.begin(), places.end(), 0u);
  for (const OutputColumn& column : values.columns) {
    out.columns.push_back(column.finish({}, places));
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

// Rows of the spine against every view: what the threads work on.
struct Pass {
  const Plan& plan;
  std::size_t rows;
  std::size_t range_rows;  // Probes of a task.
  std::vector<Worker> workers;
  // For each set of keys.
  std::vector<std::optional<Probes>> probes;
  std::vector<std::vector<std::uint32_t>> places;
  std::vector<ViewOutput> outputs;  // View i fills the one at i modulo their number.
  std::vector<std::vector<Column>> columns;

  ViewOutput& output(std::size_t view) { return outputs[view % outputs.size()]; }
};

// One range of a view's probes.
Status fill_range(Pass& pass, std::size_t view, std::size_t worker, std::size_t range) {
  const PlannedView& planned = pass.plan.views[view];
  const Probes& asked = *pass.probes[planned.key_set];
  const std::size_t all = asked.sorted().size();
  const std::size_t first = std::min(range * pass.range_rows, all);
  const std::size_t count = std::min(pass.range_rows, all - first);
  if (count == 0) return {};
  Worker& by = pass.workers[worker];
  Status joined = join_range(planned, asked, first, count, by, pass.output(view));
  if (joined.ok() && planned.windows) {
    joined = join_all_windows(planned, asked, first, count, by, pass.output(view));
  }
  if (joined.ok()) return {};
  return joined.error().within("FeatureView " + planned.view->name);
}

// What there is to do, in the order in which it is begun. While the answers of one view are put in
// order those of the next are found already, so that no thread waits for the last range of another.
std::vector<Stage> stages_of(Pass& pass, std::size_t begin) {
  std::vector<Stage> out;
  const auto add = [&](std::size_t tasks, auto work, std::vector<std::size_t> after) {
    out.push_back(
        {tasks,
         [work](std::size_t worker, std::size_t task) -> Status { return work(worker, task); },
         std::move(after)});
    return out.size() - 1;
  };
  const std::size_t probed =
      add(pass.probes.size(),
          [&pass, begin](std::size_t, std::size_t set) {
            pass.probes[set].emplace(pass.plan.key_sets[set], *pass.plan.time, begin,
                                     begin + pass.rows);
            pass.places[set] = pass.probes[set]->places();
            return Status();
          },
          {});
  const std::size_t views = pass.plan.views.size();
  const std::size_t kept = pass.outputs.size();
  std::vector<std::size_t> filled;
  std::vector<std::size_t> finished;
  for (std::size_t step = 0; step < views + kept - 1; ++step) {
    if (step < views) {
      const std::size_t view = step;
      std::vector<std::size_t> after;
      if (view >= kept) after.push_back(finished[view - kept]);
      const std::size_t prepared = add(
          1,
          [&pass, view](std::size_t, std::size_t) {
            prepare(pass.plan.views[view], pass.rows, pass.output(view));
            return Status();
          },
          std::move(after));
      filled.push_back(add((pass.rows + pass.range_rows - 1) / pass.range_rows,
                           [&pass, view](std::size_t worker, std::size_t range) {
                             return fill_range(pass, view, worker, range);
                           },
                           {probed, prepared}));
    }
    if (step + 1 >= kept) {
      const std::size_t view = step + 1 - kept;
      const PlannedView& planned = pass.plan.views[view];
      const std::size_t known =
          add(1,
              [&pass, &planned, view](std::size_t, std::size_t) {
                order_valid(planned, pass.places[planned.key_set], pass.output(view));
                return Status();
              },
              {filled[view]});
      finished.push_back(add(pass.columns[view].size(),
                             [&pass, &planned, view](std::size_t, std::size_t column) {
                               const ViewOutput& from = pass.output(view);
                               pass.columns[view][column] = from.columns[column].finish(
                                   from.valid_of(planned, column), pass.places[planned.key_set]);
                               return Status();
                             },
                             {known}));
    }
  }
  return out;
}

// Rows [begin, end) of the spine against every view.
Result<Batch> join_rows(const Plan& plan, const JoinOptions& options, std::size_t begin,
                        std::size_t end) {
  const std::size_t rows = end - begin;
  const std::size_t threads = std::max<std::size_t>(1, options.threads);
  Pass pass{plan, rows, std::clamp(rows / (threads * 8 + 1), kRangeMin, kRangeMax), {}, {}, {},
            {},   {}};
  pass.workers.resize(threads);
  pass.probes.resize(plan.key_sets.size());
  pass.places.resize(plan.key_sets.size());
  std::size_t widest = 1;
  for (const PlannedView& planned : plan.views) {
    const std::size_t columns =
        planned.view->features.size() + (planned.view->available_as.empty() ? 0 : 1);
    pass.columns.emplace_back(columns, Column(Type::kInt64));
    widest = std::max(widest, columns);
  }
  const std::size_t kept =
      kFilledBytes / (widest * sizeof(double) * std::max<std::size_t>(rows, 1));
  pass.outputs.resize(
      std::clamp<std::size_t>(kept, 2, std::max<std::size_t>(plan.views.size(), 2)));
  FALAJ_TRY(run_stages(stages_of(pass, begin), threads));
  return batch_of(plan, std::move(pass.columns));
}

// Bytes that a pass holds for each spine row: probes, answers of two views in the order in which
// they are found, and the batch itself.
std::int64_t bytes_per_row(const Plan& plan) {
  std::int64_t out = 0;
  for (const auto& keys : plan.key_sets) {
    out += static_cast<std::int64_t>(sizeof(Probe) + 32 * keys.size());
  }
  std::int64_t widest = 0;
  for (const PlannedView& planned : plan.views) {
    std::int64_t width = planned.view->available_as.empty() ? 1 : 10;
    for (const JoinFeature& feature : planned.view->features) {
      width += feature.stored.type == Type::kString ? 80 : 10;
    }
    out += width;
    widest = std::max(widest, width);
  }
  return out + 2 * widest;
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
