#include "serving/rollout/recordings.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "serving/deployments.h"
#include "serving/rollout/assignment.h"

namespace falaj::serving::rollout {

const storage::Migration kRecordingsMigration{"serving-002-recordings", R"sql(
CREATE TABLE recorded_requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT NOT NULL,
  deployment TEXT NOT NULL,
  zone TEXT NOT NULL CHECK (zone != ''),
  blob TEXT NOT NULL,
  requests INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  begins_at INTEGER NOT NULL
);
CREATE INDEX recorded_requests_by_deployment ON recorded_requests (project, deployment, id);
)sql"};

namespace {

constexpr std::size_t kSegment = 64;
constexpr Duration kWaitMax = Duration::seconds(5);

storage::Owner owner_of(const Recorder::Whose& whose) {
  return {ProjectName(whose.project), Zone(whose.zone), "Deployment/" + whose.deployment};
}

// Removing what is not there is done already.
Status remove_blob(storage::BlobStore& blobs, const storage::Owner& owner, const BlobId& id) {
  const Status removed = blobs.remove(owner, id);
  if (!removed.ok() && removed.error().code == Code::kNotFound) return {};
  return removed;
}

}  // namespace

// One blob of requests.
struct Recordings::Segment {
  std::int64_t id = 0;
  Recorder::Whose whose;
  BlobId blob;
  std::int64_t requests = 0;
  std::int64_t bytes = 0;
  Timestamp begins_at{};
};

Recorder::Recorder(Whose whose, const RecordRule& rule, const Clock& clock)
    : whose_(std::move(whose)), rule_(rule), clock_(clock), kept_at_(clock.now()) {}

// By a hash of how many came before: no caller can choose to be drawn, or not to be.
bool Recorder::is_drawn() {
  const std::uint64_t number = asked_.fetch_add(1, std::memory_order_relaxed);
  const std::string_view bytes(reinterpret_cast<const char*>(&number), sizeof number);
  return meets_candidate(place_of(unit_of(bytes, 0)), rule_.share);
}

void Recorder::offer(std::span<const EntityKeys> entities) {
  if (!is_drawn() || entities.empty() || entities.size() > kMirroredEntitiesMax) return;
  Recorded request{clock_.now(), std::vector(entities.begin(), entities.end())};
  static_cast<void>(waiting_.try_push(std::move(request)));  // Full: a sample may lack one.
}

void Recorder::offer(std::span<const Tensor> inputs) {
  if (!is_drawn() || !is_small(inputs)) return;
  Recorded request{clock_.now(), std::vector(inputs.begin(), inputs.end())};
  static_cast<void>(waiting_.try_push(std::move(request)));
}

Recordings::Recordings(storage::SqlStore& sql, storage::BlobStore& blobs, const Clock& clock)
    : sql_(sql), blobs_(blobs), clock_(clock) {}

std::shared_ptr<Recorder> Recordings::recorder(const Recorder::Whose& whose,
                                               const RecordRule& rule) {
  MutexLock lock(mutex_);
  if (rule.share <= 0) {
    recorders_.erase(whose);
    return nullptr;
  }
  std::shared_ptr<Recorder>& now = recorders_[whose];
  if (now == nullptr || now->rule() != rule) {
    now = std::make_shared<Recorder>(whose, rule, clock_);
  }
  return now;
}

std::vector<std::shared_ptr<Recorder>> Recordings::recorders(const Key& key) const {
  std::vector<std::shared_ptr<Recorder>> found;
  MutexLock lock(mutex_);
  for (const auto& [each, recorder] : recorders_) {
    const bool in_project = key.first.empty() || each.project == key.first;
    if (in_project && (key.second.empty() || each.deployment == key.second)) {
      found.push_back(recorder);
    }
  }
  return found;
}

Status Recordings::keep_waiting(Recorder& recorder) {
  for (;;) {
    std::vector<Recorded> requests;
    while (requests.size() < kSegment) {
      std::optional<Recorded> next = recorder.waiting_.try_pop();
      if (!next.has_value()) break;
      requests.push_back(std::move(*next));
    }
    if (requests.empty()) return {};
    const Recorder::Whose& whose = recorder.whose();
    const auto stored = FALAJ_TRY(blobs_.put(owner_of(whose), encode_recorded(requests)));
    const Status entered = sql_.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute(
          "INSERT INTO recorded_requests (project, deployment, zone, blob, requests, bytes,"
          " begins_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
          {whose.project, whose.deployment, whose.zone, stored.id.str(),
           static_cast<std::int64_t>(requests.size()), stored.bytes, requests.front().at.nanos}));
      return {};
    });
    if (entered.ok()) continue;
    cleaned_.erase(whose);  // Should it stay after all, the next look finds it.
    FALAJ_TRY(remove_blob(blobs_, owner_of(whose), stored.id));
    return entered;
  }
}

Result<std::vector<Recordings::Segment>> Recordings::segments(const Key& key) const {
  const storage::SqlRows rows = FALAJ_TRY(storage::query(
      sql_,
      "SELECT id, project, deployment, zone, blob, requests, bytes, begins_at"
      " FROM recorded_requests WHERE (? = '' OR project = ?) AND (? = '' OR deployment = ?)"
      " ORDER BY id",
      {key.first, key.first, key.second, key.second}));
  std::vector<Segment> found;
  for (const storage::SqlRow& row : rows) {
    found.push_back({row.integer(0),
                     {row.text(1), row.text(2), row.text(3)},
                     BlobId(row.text(4)),
                     row.integer(5),
                     row.integer(6),
                     {row.integer(7)}});
  }
  return found;
}

// The bytes first: a row without them is removed at the next try.
Status Recordings::drop(const Segment& segment) {
  FALAJ_TRY(remove_blob(blobs_, owner_of(segment.whose), segment.blob));
  return sql_.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("DELETE FROM recorded_requests WHERE id = ?", {segment.id}));
    return {};
  });
}

Status Recordings::drop_surplus(const Key& key, const RecordRule& rule) {
  const Timestamp now = clock_.now();
  std::vector<Segment> kept = FALAJ_TRY(segments(key));
  std::reverse(kept.begin(), kept.end());
  std::int64_t requests = 0;
  std::int64_t bytes = 0;
  for (const Segment& segment : kept) {
    const bool enough = requests >= rule.requests || bytes + segment.bytes > kRecordedBytesMax;
    if (enough || rule.share <= 0 || now - segment.begins_at >= rule.age) {
      FALAJ_TRY(drop(segment));
      continue;
    }
    requests += segment.requests;
    bytes += segment.bytes;
  }
  return {};
}

// What a crash left between the store and the table. Once for each owner.
Status Recordings::drop_strays(const Recorder::Whose& whose) {
  if (cleaned_.contains(whose)) return {};
  std::set<std::string> known;
  for (const Segment& segment : FALAJ_TRY(segments({whose.project, whose.deployment}))) {
    known.insert(segment.blob.str());
  }
  for (const BlobId& id : FALAJ_TRY(blobs_.list(owner_of(whose)))) {
    if (!known.contains(id.str())) FALAJ_TRY(remove_blob(blobs_, owner_of(whose), id));
  }
  cleaned_.insert(whose);
  return {};
}

Status Recordings::keep_due(Recorder& recorder) {
  FALAJ_TRY(drop_strays(recorder.whose()));
  const Timestamp now = clock_.now();
  if (recorder.waiting_.size() < kSegment && now - recorder.kept_at_ < kWaitMax) return {};
  recorder.kept_at_ = now;
  return keep_waiting(recorder);
}

Status Recordings::tick() {
  MutexLock lock(keeping_);
  Status first_failure;
  const auto note = [&](const Status& done) {
    if (!done.ok() && first_failure.ok()) first_failure = done;
  };
  for (const auto& recorder : recorders({})) note(keep_due(*recorder));
  {
    MutexLock look(mutex_);
    std::erase_if(recorders_, [](const auto& entry) {  // Nothing serves with it any more.
      return entry.second.use_count() == 1 && entry.second->waiting_.size() == 0;
    });
  }
  std::map<Key, RecordRule> rules;  // Of those that have something, whether or not they are loaded.
  for (const Segment& segment : FALAJ_TRY(segments({}))) {
    rules[{segment.whose.project, segment.whose.deployment}];
  }
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    for (auto& [key, rule] : rules) {
      const auto found = FALAJ_TRY(storage::find_object(tx, "Deployment", key.first, key.second));
      if (found.has_value()) rule = FALAJ_TRY(decode_deployment(*found)).record;
    }
    return {};
  }));
  for (const auto& [key, rule] : rules) note(drop_surplus(key, rule));
  return first_failure;
}

Result<std::vector<Recorded>> Recordings::read(const std::string& project,
                                               const std::string& deployment) {
  const Key key{project, deployment};
  MutexLock lock(keeping_);
  for (const auto& recorder : recorders(key)) FALAJ_TRY(keep_waiting(*recorder));
  std::vector<Recorded> requests;
  for (const Segment& segment : FALAJ_TRY(segments(key))) {
    const std::string bytes = FALAJ_TRY(blobs_.get(owner_of(segment.whose), segment.blob));
    for (Recorded& request : FALAJ_TRY(decode_recorded(bytes))) {
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Result<std::int64_t> Recordings::count(const std::string& project,
                                       const std::string& deployment) const {
  std::int64_t requests = 0;
  for (const Segment& segment : FALAJ_TRY(segments({project, deployment}))) {
    requests += segment.requests;
  }
  return requests;
}

// Every deployment that the project ever had, in every zone that ever was: the store cannot list
// owners, and a crash leaves bytes that no row names.
Result<std::vector<Recorder::Whose>> Recordings::owners(const std::string& project) const {
  std::set<std::string> deployments;
  std::set<std::string> zones;
  for (const Segment& segment : FALAJ_TRY(segments({project, ""}))) {
    deployments.insert(segment.whose.deployment);
    zones.insert(segment.whose.zone);
  }
  for (const auto& recorder : recorders({project, ""})) {
    deployments.insert(recorder->whose().deployment);
    zones.insert(recorder->whose().zone);
  }
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    for (const auto& object : FALAJ_TRY(storage::object_history(tx, "Deployment"))) {
      if (object.project == project) deployments.insert(object.name);
    }
    for (const auto& object : FALAJ_TRY(storage::object_history(tx, "Zone"))) {
      zones.insert(object.name);
    }
    return {};
  }));
  std::vector<Recorder::Whose> all;
  for (const std::string& deployment : deployments) {
    for (const std::string& zone : zones) all.push_back({project, deployment, zone});
  }
  return all;
}

Status Recordings::erase(const ProjectName& project) {
  MutexLock lock(keeping_);
  ++erasures_;
  for (const auto& recorder : recorders({project.str(), ""})) {
    while (recorder->waiting_.try_pop().has_value()) continue;
  }
  const std::vector<Recorder::Whose> known = FALAJ_TRY(owners(project.str()));
  const std::vector<Segment> all = FALAJ_TRY(segments({project.str(), ""}));
  for (const Segment& segment : all) FALAJ_TRY(drop(segment));
  for (const Recorder::Whose& whose : known) {
    for (const BlobId& id : FALAJ_TRY(blobs_.list(owner_of(whose)))) {
      FALAJ_TRY(remove_blob(blobs_, owner_of(whose), id));
    }
  }
  if (!all.empty()) {
    log::info("recorded requests erased", {{"project", project.str()}, {"segments", all.size()}});
  }
  return {};
}

}  // namespace falaj::serving::rollout
