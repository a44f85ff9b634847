#include "features/push.h"

#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "base/decode.h"
#include "exec/pool.h"
#include "features/internal/json_rows.h"
#include "features/internal/segment_writer.h"
#include "features/internal/validation.h"
#include "features/internal/view_commits.h"

namespace falaj::features {
namespace {

using table::Batch;

// Rows that become one commit, and rows of one view that may wait for theirs.
constexpr std::size_t kGroupRows = 50'000;
constexpr std::size_t kWaitingRowsMax = 200'000;
constexpr std::size_t kWaitingBytesMax = 256u << 20;
// Views whose groups are written at once; each waits for the disk.
constexpr std::size_t kThreads = 4;
constexpr std::size_t kLanesMax = 4'096;

telemetry::MetricInfo seconds_metric() {
  return {"falaj_features_push_seconds",
          "Time from a push to its rows being durable and visible.",
          telemetry::MetricKind::kHistogram,
          {"project", "view"}};
}

// One push that was found good and waits.
struct Item {
  security::RequestContext context;
  std::shared_ptr<const ViewDefinition> definition;
  Batch rows;  // Of a segment schema.
  std::size_t bytes = 0;
  Timestamp newest_event{};
  Reach reach = Reach::kBoth;
  Pushes::Done done;
  std::int64_t began = 0;

  bool fits(const Item& other) const {
    return reach == other.reach && definition->generation == other.definition->generation &&
           context.zone == other.context.zone;
  }
};

// The pushes of one view.
struct Lane {
  Mutex mutex;
  std::deque<Item> waiting FALAJ_GUARDED_BY(mutex);
  std::size_t rows FALAJ_GUARDED_BY(mutex) = 0;
  std::size_t bytes FALAJ_GUARDED_BY(mutex) = 0;
  bool busy FALAJ_GUARDED_BY(mutex) = false;
};

std::size_t bytes_of(const Batch& rows) {
  std::size_t bytes = rows.rows() * rows.columns.size() * 8;
  for (const table::Column& column : rows.columns) {
    if (column.type() == table::Type::kString) bytes += column.strings().bytes().size();
  }
  return bytes;
}

// The good rows of a push; the first bad one refuses it.
Result<Item> checked(const security::RequestContext& context,
                     std::shared_ptr<const ViewDefinition> definition, const PushedRows& rows,
                     Timestamp now) {
  Validation validation = FALAJ_TRY(Validation::create(*definition, now));
  Batch batch = FALAJ_TRY(batch_of(validation.source_schema(), rows));
  std::vector<std::uint64_t> lines(batch.rows());
  std::iota(lines.begin(), lines.end(), 1);
  std::optional<table::BadRow> bad;
  Batch good = validation.accept(std::move(batch), lines, [&](const table::BadRow& row) {
    if (!bad) bad = row;
  });
  if (bad) {
    return Error(ErrorId::kPushRefused, "row " + std::to_string(bad->line) + ": " + bad->reason);
  }
  Item item;
  item.context = context;
  item.definition = std::move(definition);
  item.bytes = bytes_of(good);
  item.rows = std::move(good);
  item.newest_event = validation.newest_event();
  return item;
}

// The rows behind those of pushes before it: positions in a commit are distinct.
void move_behind(Batch& rows, std::size_t keys, std::uint64_t before) {
  if (before == 0) return;
  std::vector<std::int64_t> positions = rows.columns[keys + 2].ints();
  for (std::int64_t& position : positions) position += static_cast<std::int64_t>(before);
  rows.columns[keys + 2] = table::Column::of_ints(table::Type::kInt64, std::move(positions));
}

Value detail_of(const Item& item, const PushReport& report) {
  Value detail = Value::object();
  detail["rows"] = report.rows;
  detail["commit"] = report.commit;
  detail["first_row"] = report.first_row;
  detail["to"] = reach_name(report.reach);
  detail["zone"] = item.context.zone.name();
  return detail;
}

}  // namespace

std::string_view reach_name(Reach reach) {
  switch (reach) {
    case Reach::kBoth:
      return "both";
    case Reach::kOnline:
      return "online";
    case Reach::kOffline:
      break;
  }
  return "offline";
}

Result<Reach> parse_reach(std::string_view name) {
  if (name == "both" || name == "online_and_offline") return Reach::kBoth;
  if (name == "online") return Reach::kOnline;
  if (name == "offline") return Reach::kOffline;
  return Error(ErrorId::kOutOfRange, "rows go to online, offline or both, not to '" +
                                         std::string(name.substr(0, 40)) + "'");
}

Value to_value(const PushReport& report) {
  Value out = Value::object();
  out["view"] = report.view;
  out["rows"] = report.rows;
  out["commit"] = report.commit;
  out["to"] = reach_name(report.reach);
  return out;
}

struct Pushes::Impl {
  ViewCommits& commits;
  storage::BlobStore& blobs;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;
  Mutex mutex{};
  std::map<std::string, std::unique_ptr<Lane>> lanes FALAJ_GUARDED_BY(mutex){};
  exec::Pool pool{{"push", kThreads, kLanesMax}};  // Last: its tasks use the rest.

  Lane& lane_of(const std::string& project, const std::string& view) {
    const MutexLock lock(mutex);
    std::unique_ptr<Lane>& lane = lanes[project + "/" + view];
    if (lane == nullptr) lane = std::make_unique<Lane>();
    return *lane;
  }

  Status enqueue(Item item) {
    Lane& lane = lane_of(item.definition->project, item.definition->view.name);
    const MutexLock lock(lane.mutex);
    if (lane.rows + item.rows.rows() > kWaitingRowsMax ||
        lane.bytes + item.bytes > kWaitingBytesMax) {
      return Error(Code::kResourceExhausted,
                   "over " + std::to_string(kWaitingRowsMax) + " rows or " +
                       std::to_string(kWaitingBytesMax >> 20) + " MiB of FeatureView " +
                       item.definition->view.name + " wait to be written: push more slowly");
    }
    if (!lane.busy) {
      FALAJ_TRY(pool.submit([this, &lane] { drain(lane); }));
      lane.busy = true;
    }
    lane.rows += item.rows.rows();
    lane.bytes += item.bytes;
    lane.waiting.push_back(std::move(item));
    return {};
  }

  // Those at the front that may become one commit; none when the lane is empty, which is idle then.
  static std::vector<Item> next_group(Lane& lane) {
    const MutexLock lock(lane.mutex);
    std::vector<Item> group;
    std::size_t rows = 0;
    while (!lane.waiting.empty() &&
           (group.empty() || (rows < kGroupRows && group.front().fits(lane.waiting.front())))) {
      rows += lane.waiting.front().rows.rows();
      lane.bytes -= lane.waiting.front().bytes;
      group.push_back(std::move(lane.waiting.front()));
      lane.waiting.pop_front();
    }
    lane.rows -= rows;
    if (group.empty()) lane.busy = false;
    return group;
  }

  void drain(Lane& lane) {
    for (std::vector<Item> group = next_group(lane); !group.empty(); group = next_group(lane)) {
      std::vector<PushReport> reports(group.size());
      const Status written = write(group, reports);
      for (std::size_t i = 0; i < group.size(); ++i) {
        const std::string& view = group[i].definition->view.name;
        metrics.histogram(seconds_metric(), {group[i].definition->project, view})
            .observe_nanos(monotonic_nanos() - group[i].began);
        if (written.ok()) {
          group[i].done(std::move(reports[i]));
        } else {
          group[i].done(written.error().within("push " + view));
        }
      }
    }
  }

  Status write(std::vector<Item>& group, std::vector<PushReport>& reports) {
    const ViewDefinition& definition = *group.front().definition;
    const std::size_t keys = definition.entity.keys.size();
    const Zone& zone = group.front().context.zone;
    const MutexLock lock(commits.turn_of(definition.project, definition.view.name));
    SegmentWriter writer(blobs, owner_of_view(definition.project, zone, definition.view.name), keys,
                         definition.view.online);
    std::uint64_t rows = 0;
    Timestamp newest_event{};
    for (std::size_t i = 0; i < group.size(); ++i) {
      reports[i] = {definition.view.name, group[i].rows.rows(), 0, rows, group[i].reach};
      move_behind(group[i].rows, keys, rows);
      rows += reports[i].rows;
      newest_event = std::max(newest_event, group[i].newest_event);
      FALAJ_TRY(writer.add(std::move(group[i].rows)));
    }
    FALAJ_TRY(writer.finish());
    const std::vector<Segment> segments = FALAJ_TRY(writer.commit());
    const NewRows made{definition, zone, group.front().reach, segments, rows, newest_event};
    const std::uint64_t number =
        FALAJ_TRY(commits.commit(made, [&](storage::SqlTransaction& tx, std::uint64_t commit) {
          return record(tx, group, reports, commit);
        }));
    commits.count(definition, "accepted", rows);
    FALAJ_TRY(commits.publish(made, writer.newest(), number));
    return {};
  }

  // Each push is somebody's.
  Status record(storage::SqlTransaction& tx, const std::vector<Item>& group,
                std::vector<PushReport>& reports, std::uint64_t commit) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      reports[i].commit = commit;
      const ViewDefinition& definition = *group[i].definition;
      FALAJ_TRY(audit.append(
          tx, group[i].context,
          {"features.push", "FeatureView/" + definition.project + "/" + definition.view.name,
           detail_of(group[i], reports[i])}));
    }
    return {};
  }

  Status accept(const security::RequestContext& context, const std::string& view,
                const PushedRows& rows, Reach reach, Done& done) {
    if (!context.zone.labelled()) {
      return Error(Code::kPermissionDenied, "project " + context.project.str() +
                                                " has no zone: declare where its data may be "
                                                "(Project spec: {zone: …}) before pushing");
    }
    auto definition = std::make_shared<ViewDefinition>(
        FALAJ_TRY(commits.definition(context.project.str(), view)));
    if (reach == Reach::kOnline && definition->view.online == OnlineUse::kOffline) {
      return Error(Code::kFailedPrecondition, "FeatureView " + view +
                                                  " is not online: set online: true and apply it, "
                                                  "or push to offline");
    }
    Item item = FALAJ_TRY(checked(context, std::move(definition), rows, clock.now()));
    item.reach = reach;
    item.began = monotonic_nanos();
    item.done = done;
    return enqueue(std::move(item));
  }
};

Pushes::Pushes(Ingest& ingest, storage::BlobStore& blobs, security::Audit& audit,
               telemetry::Metrics& metrics, const Clock& clock)
    : impl_(new Impl{ingest.commits(), blobs, audit, metrics, clock}) {
  metrics.declare(seconds_metric());
}

Pushes::~Pushes() { impl_->pool.drain(); }

void Pushes::push(const security::RequestContext& context, const std::string& view,
                  const PushedRows& rows, Reach reach, Done done) {
  const Status accepted = impl_->accept(context, view, rows, reach, done);
  if (!accepted.ok()) done(accepted.error().within("push " + view));
}

}  // namespace falaj::features
