#include "features/online.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "exec/pool.h"
#include "features/internal/online_rows.h"
#include "features/internal/segments.h"
#include "features/internal/view_index.h"
#include "features/internal/view_rows.h"
#include "storage/objects.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kAllCommits = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kViewsMax = 16'384;
// Rows of one durable write: large enough to amortise it, small enough for memory.
constexpr std::size_t kRowsPerWrite = 20'000;
// Published commits that may wait for their durable copy; the next publish waits for a place.
constexpr std::size_t kCopiesMax = 4;

std::vector<table::Field> fields_of(const FeatureView& view) {
  std::vector<table::Field> out;
  for (const Feature& feature : view.features) out.push_back({feature.name, feature.type});
  return out;
}

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
  std::atomic<std::uint64_t> copied = 0;  // Up to this commit the durable copy has every row.
  Mutex turn;
  std::uint64_t watermark FALAJ_GUARDED_BY(turn) = 0;

  storage::Owner owner() const { return owner_of_view(project, zone, view); }
  bool fits(const FeatureView& definition, const Entity& entity) const {
    return keys == entity.keys && fields == fields_of(definition) && row_key == entity.row_key;
  }
};

std::vector<const Column*> first_columns(const Batch& rows, std::size_t count) {
  std::vector<const Column*> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(&rows.columns[i]);
  return out;
}

std::int64_t created_of(const Batch& rows, std::size_t keys, std::size_t row) {
  const Column& created = rows.columns[keys + 1];
  return created.is_null(row) ? std::numeric_limits<std::int64_t>::min() : created.ints()[row];
}

void log_failed(const char* what, const std::string& project, const std::string& view,
                const Error& error) {
  log::error(what, {{"project", project},
                    {"view", view},
                    {"error", to_string(error.id)},
                    {"reason", error.message}});
}
void log_skipped(const std::string& project, const std::string& view, const Error& error) {
  log_failed("feature view not online", project, view, error);
}

// The rows of one commit, as they came into the index.
struct Fresh {
  storage::Owner owner;
  Batch rows;              // Sorted, the newest of each key.
  std::vector<bool> wins;  // Which of them came in.
  std::uint64_t commit = 0;
  std::uint64_t follows = 0;  // The view's commit before.
};

class OnlineRows final : public Online {
 public:
  OnlineRows(storage::SqlStore& sql, storage::KvStore& kv, storage::BlobStore& blobs)
      : sql_(sql), kv_(kv), blobs_(blobs), copiers_({"online", 1, kCopiesMax}) {}
  // What was not copied yet is caught up with at the next start.
  ~OnlineRows() override {
    stopping_.store(true);
    copiers_.drain();
  }

  // One view that cannot be loaded must not keep all others from being served.
  Status load() {
    std::vector<ViewDefinition> views;
    FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
      for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "FeatureView"))) {
        Result<ViewDefinition> view = load_view(tx, object.project, object.name);
        if (view.ok()) {
          views.push_back(std::move(view).value());
        } else {
          log_skipped(object.project, object.name, view.error());
        }
      }
      return {};
    }));
    for (const ViewDefinition& view : views) {
      if (view.view.online != OnlineUse::kOnline) continue;
      const Result<ViewState*> loaded = current(view);
      if (!loaded.ok()) log_skipped(view.project, view.view.name, loaded.error());
    }
    return {};
  }

  Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                 const std::string& service) override {
    const std::pair<std::string, std::string> name(project.str(), service);
    std::uint64_t epoch = 0;
    {
      const MutexLock lock(plans_mutex_);
      const auto known = plans_.find(name);
      if (known != plans_.end()) return known->second;
      epoch = epoch_;
    }
    std::shared_ptr<const OnlinePlan> plan = FALAJ_TRY(make_plan(project.str(), service));
    const MutexLock lock(plans_mutex_);
    // A definition that changed meanwhile may have made this plan old.
    if (epoch == epoch_) plans_[name] = plan;
    return plan;
  }

  void read(const OnlinePlan& plan, std::span<const KeyPart> keys, Timestamp now,
            OnlineRow& out) const override {
    out.numbers.assign(plan.columns.size(), kNan);
    out.statuses.assign(plan.columns.size(), FeatureStatus::kNotFound);
    out.oldest_event = Timestamp::max();
    thread_local std::string key;
    std::size_t column = 0;
    for (const OnlinePlan::View& view : plan.views) {
      key.clear();
      for (const std::size_t part : view.key_names) append_part(key, keys[part]);
      const ViewIndex* index = slots_[view.slot].load(std::memory_order_acquire);
      index->read(key, [&](const RowView& row) { fill(view, row, now, column, out); });
      column += view.fields.size();
    }
  }

  Result<Published> publish(const ProjectName& project, const FeatureView& view,
                            const Entity& entity, const Batch& rows,
                            std::uint64_t commit) override {
    ViewState* state = FALAJ_TRY(state_of(project.str(), view, entity));
    const MutexLock lock(state->turn);
    // A commit before this one may not have come online: its publish failed, or nobody read the
    // view online then. It must not be skipped by moving the watermark past it.
    FALAJ_TRY(catch_up(*state, commit - 1));
    const Published out = FALAJ_TRY(take_in(*state, rows, commit));
    FALAJ_TRY(record_keys(*state));
    return out;
  }

  // First durably, then in memory: a crash in between leaves nothing to be loaded again.
  Result<std::uint64_t> erase(const ProjectName& project, const FeatureView& view,
                              const Entity& entity, const std::vector<std::string>& keys) override {
    ViewState* state = FALAJ_TRY(state_of(project.str(), view, entity));
    const MutexLock lock(state->turn);
    if (!state->zone.labelled()) FALAJ_TRY(find_zone(*state));
    if (!state->zone.labelled() || keys.empty()) return std::uint64_t{0};
    wait_for_copies(0);
    std::vector<storage::KvWrite> batch;
    for (const std::string& key : keys) batch.push_back({kRowMark + key, std::nullopt});
    FALAJ_TRY(kv_.write(state->owner(), batch));
    std::uint64_t removed = 0;
    for (const std::string& key : keys) removed += state->index->erase(key) ? 1 : 0;
    // Whoever has the view's key could still read deleted rows in old files.
    FALAJ_TRY(kv_.purge(state->owner()));
    FALAJ_TRY(record_keys(*state));
    const MutexLock states(states_mutex_);
    for (ViewState* old : retired_of(project.str(), view.name)) {
      for (const std::string& key : keys) old->index->erase(key);
    }
    return removed;
  }

  Status forget(const ProjectName& project, const std::string& view, const Zone& zone) override {
    ViewState* state = nullptr;
    {
      const MutexLock lock(states_mutex_);
      const auto found = states_.find({project.str(), view});
      if (found != states_.end()) state = found->second.get();
      for (ViewState* old : retired_of(project.str(), view)) old->index->clear();
    }
    if (state == nullptr) return kv_.clear(owner_of_view(project.str(), zone, view));
    const MutexLock lock(state->turn);
    wait_for_copies(0);
    FALAJ_TRY(kv_.clear(owner_of_view(project.str(), zone, view)));
    state->index->clear();
    state->watermark = 0;
    state->copied = 0;
    return record_keys(*state);
  }

  std::uint64_t keys(const ProjectName& project, const std::string& view) const override {
    const MutexLock lock(states_mutex_);
    const auto state = states_.find({project.str(), view});
    return state == states_.end() ? 0 : state->second->index->keys();
  }

  void definitions_changed() override {
    const MutexLock lock(plans_mutex_);
    ++epoch_;
    plans_.clear();
  }

 private:
  // Indexes of earlier definitions: plans made before may still read them.
  std::vector<ViewState*> retired_of(const std::string& project, const std::string& view) const
      FALAJ_REQUIRES(states_mutex_) {
    std::vector<ViewState*> out;
    for (const auto& state : retired_) {
      if (state->project == project && state->view == view) out.push_back(state.get());
    }
    return out;
  }

  static void append_part(std::string& key, const KeyPart& part) {
    if (const auto* number = std::get_if<std::int64_t>(&part)) {
      append_key_part(key, *number);
    } else {
      append_key_part(key, std::string_view(std::get<std::string>(part)));
    }
  }

  static void fill(const OnlinePlan::View& view, const RowView& row, Timestamp now,
                   std::size_t column, OnlineRow& out) {
    const Timestamp event{row.event()};
    const bool old = view.ttl > Duration{} && event < now - view.ttl;
    if (!old) out.oldest_event = std::min(out.oldest_event, event);
    for (const std::uint32_t field : view.fields) {
      FeatureStatus& status = out.statuses[column];
      if (old) {
        status = FeatureStatus::kOutsideMaxAge;
      } else if (row.is_null(field)) {
        status = FeatureStatus::kNullValue;
      } else {
        status = FeatureStatus::kPresent;
        out.numbers[column] = row.number(field);
      }
      ++column;
    }
  }

  // The view's state, loaded from the durable rows when it is new or its fields have changed.
  Result<ViewState*> state_of(const std::string& project, const FeatureView& view,
                              const Entity& entity) {
    const MutexLock lock(states_mutex_);
    std::unique_ptr<ViewState>& known = states_[{project, view.name}];
    if (known != nullptr && known->fits(view, entity)) return known.get();
    auto state = std::make_unique<ViewState>();
    state->project = project;
    state->view = view.name;
    state->keys = entity.keys;
    state->fields = fields_of(view);
    state->row_key = entity.row_key;
    state->segments = segment_schema(view, entity);
    wait_for_copies(0);
    Status loaded = load_rows(*state);
    if (!loaded.ok()) {
      if (known == nullptr) states_.erase({project, view.name});
      return loaded.error();
    }
    // Plans made before still point to the old index: it stays, as it was.
    if (known != nullptr) retired_.push_back(std::move(known));
    known = std::move(state);
    return known.get();
  }

  Status load_rows(ViewState& state) FALAJ_REQUIRES(states_mutex_) {
    if (indexes_.size() == kViewsMax) {
      return Error(Code::kResourceExhausted,
                   "over 16384 online views since start: restart to forget changed ones");
    }
    auto index = std::make_unique<ViewIndex>(state.fields.size());
    FALAJ_TRY(find_zone(state));
    RowUnpacker unpacker(kv_, state.owner(), state.fields);
    RowWords words(state.fields.size());
    std::uint64_t last = 0;
    Status status;
    std::optional<std::string> watermark;
    const auto take = [&](std::string_view key, std::string_view value) {
      if (key == kWatermarkKey) watermark = value;
      if (key.empty() || key.front() != kRowMark) return true;
      status = unpacker.unpack(value, words);
      if (!status.ok()) return false;
      last = std::max(last, commit_of(words.words()[2]));
      index->put(key.substr(1), words.words(), ViewIndex::Replaced::kForget);
      return true;
    };
    if (state.zone.labelled()) FALAJ_TRY(kv_.scan(state.owner(), take));
    FALAJ_TRY(std::move(status));
    const MutexLock lock(state.turn);
    state.watermark = watermark ? decode_number(*watermark) : 0;
    state.copied = state.watermark;
    index->show(std::max(last, state.watermark));
    state.slot = static_cast<std::uint32_t>(indexes_.size());
    state.index = index.get();
    slots_[state.slot].store(index.get(), std::memory_order_release);
    indexes_.push_back(std::move(index));
    return {};
  }

  // A view's online rows stay where its first rows came to be.
  Status find_zone(ViewState& state) {
    const storage::SqlRows rows =
        FALAJ_TRY(storage::query(sql_,
                                 "SELECT zone FROM feature_commits WHERE project = ? AND view = ? "
                                 "ORDER BY commit_number LIMIT 1",
                                 {state.project, state.view}));
    if (!rows.empty()) state.zone = Zone(rows[0].text(0));
    return {};
  }

  // The state with every committed row in it.
  Result<ViewState*> current(const ViewDefinition& definition) {
    ViewState* state = FALAJ_TRY(state_of(definition.project, definition.view, definition.entity));
    const MutexLock lock(state->turn);
    FALAJ_TRY(catch_up(*state, kAllCommits));
    return state;
  }

  // Publishes committed segments behind the watermark.
  Status catch_up(ViewState& state, std::uint64_t up_to) FALAJ_REQUIRES(state.turn) {
    bool any = false;
    FALAJ_TRY(for_each_commit(state, state.watermark, up_to,
                              [&](const Batch& newest, std::uint64_t commit)
                                  FALAJ_REQUIRES(state.turn) -> Status {
                                    any = true;
                                    FALAJ_TRY(take_in(state, newest, commit));
                                    return {};
                                  }));
    return any ? record_keys(state) : Status();
  }

  // The committed rows behind `after`, a commit at a time, in their order.
  Status for_each_commit(
      const ViewState& state, std::uint64_t after, std::uint64_t up_to,
      const std::function<Status(const Batch& newest, std::uint64_t commit)>& each) {
    std::vector<Segment> segments;
    FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
      segments = FALAJ_TRY(list_segments(tx, state.project, state.view, after, up_to));
      return {};
    }));
    for (std::size_t i = 0; i < segments.size();) {
      const std::uint64_t commit = segments[i].commit;
      Batch newest;
      for (; i < segments.size() && segments[i].commit == commit; ++i) {
        const Batch rows = FALAJ_TRY(
            read_segment(blobs_, {state.project, state.view}, segments[i], state.segments));
        newest.append(newest_rows(rows, state.keys.size()));
      }
      FALAJ_TRY(each(newest, commit));
    }
    return {};
  }

  // Into memory, visible all at once; the durable copy follows. The commit is durable by itself: a
  // crash before the copy is done costs the next start some reading, see catch_up().
  Result<Published> take_in(ViewState& state, const Batch& unsorted, std::uint64_t commit)
      FALAJ_REQUIRES(state.turn) {
    if (!state.zone.labelled()) FALAJ_TRY(find_zone(state));
    const std::size_t keys = state.keys.size();
    auto fresh = std::make_shared<Fresh>();
    fresh->owner = state.owner();
    fresh->rows = newest_rows(sorted_rows(unsorted, keys), keys);
    fresh->commit = commit;
    fresh->follows = state.watermark;
    const Batch& rows = fresh->rows;
    const KeyColumn row_keys(first_columns(rows, keys));
    fresh->wins = winners(state, rows, row_keys, commit);
    Published out;
    RowWords words(state.fields.size());
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      if (!fresh->wins[row]) {
        ++out.stale;
        continue;
      }
      to_words(rows, row, keys, commit, words);
      const auto put = state.index->put(row_keys[row], words.words(), ViewIndex::Replaced::kKeep);
      if (put == ViewIndex::Put::kNewer) ++out.newer;
    }
    state.index->show(commit);
    state.watermark = std::max(state.watermark, commit);
    FALAJ_TRY(start_copy(state, std::move(fresh)));
    return out;
  }

  Status start_copy(ViewState& state, std::shared_ptr<const Fresh> fresh) {
    wait_for_copies(kCopiesMax - 1);
    {
      const MutexLock lock(copies_mutex_);
      ++copies_;
    }
    const auto ended = [this] {
      const MutexLock lock(copies_mutex_);
      --copies_;
      copies_changed_.notify_all();
    };
    Status submitted = copiers_.submit([this, &state, fresh = std::move(fresh), ended] {
      const Status copied = stopping_.load() ? Status() : copy(state, *fresh);
      // The next publish of the view tries again, or the next start.
      if (!copied.ok()) {
        log_failed("online rows not copied yet", state.project, state.view, copied.error());
      }
      ended();
    });
    if (!submitted.ok()) ended();
    return submitted;
  }

  void wait_for_copies(std::size_t most) {
    const MutexLock lock(copies_mutex_);
    copies_changed_.wait(copies_mutex_,
                         [&]() FALAJ_REQUIRES(copies_mutex_) { return copies_ <= most; });
  }

  // On the copiers' one thread, so in the order of the publishes.
  Status copy(ViewState& state, const Fresh& fresh) {
    if (state.copied == fresh.follows) {
      const KeyColumn row_keys(first_columns(fresh.rows, state.keys.size()));
      return write_durably(state, fresh, row_keys);
    }
    // A copy before this one failed: its rows are read again. Those that were replaced since lose
    // against the index, and come with the commit that replaced them.
    return for_each_commit(
        state, state.copied, fresh.commit,
        [&](const Batch& newest, std::uint64_t commit) -> Status {
          const std::size_t keys = state.keys.size();
          Fresh again{fresh.owner, newest_rows(sorted_rows(newest, keys), keys), {}, commit};
          const KeyColumn row_keys(first_columns(again.rows, keys));
          again.wins = winners(state, again.rows, row_keys, commit);
          return write_durably(state, again, row_keys);
        });
  }

  // Which rows are at least as new as what is there.
  std::vector<bool> winners(const ViewState& state, const Batch& rows, const KeyColumn& row_keys,
                            std::uint64_t commit) const {
    const std::size_t keys = state.keys.size();
    std::vector<bool> out(rows.rows(), true);
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      const auto mine = std::make_tuple(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                                        sequence_of(commit, rows.columns[keys + 2].ints()[row]));
      state.index->read(row_keys[row], [&](const RowView& there) {
        out[row] = mine >= std::make_tuple(there.event(), there.created(), there.sequence());
      });
    }
    return out;
  }

  // In parts; the watermark goes with the last, so a part that is missing is written again.
  Status write_durably(ViewState& state, const Fresh& fresh, const KeyColumn& row_keys) {
    const std::size_t keys = state.keys.size();
    const Batch& rows = fresh.rows;
    const RowPacker packer(state.fields);
    const std::span<const Column> features = std::span(rows.columns).subspan(keys + 3);
    std::vector<storage::KvWrite> batch{packer.schema_record()};
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      if (!fresh.wins[row]) continue;
      batch.push_back({kRowMark + std::string(row_keys[row]),
                       packer.pack(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                                   sequence_of(fresh.commit, rows.columns[keys + 2].ints()[row]),
                                   features, row),
                       state.row_key});
      if (batch.size() < kRowsPerWrite) continue;
      if (stopping_.load()) return {};
      FALAJ_TRY(kv_.write(fresh.owner, batch));
      batch.clear();
    }
    batch.push_back({std::string(kWatermarkKey), encode_number(fresh.commit)});
    FALAJ_TRY(kv_.write(fresh.owner, batch));
    state.copied = std::max(state.copied.load(), fresh.commit);
    return {};
  }

  static void to_words(const Batch& rows, std::size_t row, std::size_t keys, std::uint64_t commit,
                       RowWords& out) {
    out.set_version(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                    sequence_of(commit, rows.columns[keys + 2].ints()[row]));
    for (std::size_t i = keys + 3; i < rows.columns.size(); ++i) {
      const std::size_t field = i - keys - 3;
      if (rows.columns[i].is_null(row)) {
        out.set_null(field);
      } else {
        out.set_number(field, rows.columns[i].number_at(row));
      }
    }
  }

  Status record_keys(const ViewState& state) {
    return sql_.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(
          tx.execute("INSERT INTO feature_online (project, view, keys) VALUES (?, ?, ?) "
                     "ON CONFLICT (project, view) DO UPDATE SET keys = excluded.keys",
                     {state.project, state.view, static_cast<std::int64_t>(state.index->keys())}));
      return {};
    });
  }

  Result<std::shared_ptr<const OnlinePlan>> make_plan(const std::string& project,
                                                      const std::string& service);
  Status add_view(const ViewDefinition& definition, const ServiceView& wanted, OnlinePlan& plan);

  storage::SqlStore& sql_;
  storage::KvStore& kv_;
  storage::BlobStore& blobs_;

  mutable Mutex states_mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<ViewState>> states_
      FALAJ_GUARDED_BY(states_mutex_);
  std::vector<std::unique_ptr<ViewState>> retired_ FALAJ_GUARDED_BY(states_mutex_);
  std::vector<std::unique_ptr<ViewIndex>> indexes_ FALAJ_GUARDED_BY(states_mutex_);
  std::array<std::atomic<const ViewIndex*>, kViewsMax> slots_{};

  Mutex plans_mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const OnlinePlan>> plans_
      FALAJ_GUARDED_BY(plans_mutex_);
  std::uint64_t epoch_ FALAJ_GUARDED_BY(plans_mutex_) = 0;

  std::atomic<bool> stopping_{false};
  Mutex copies_mutex_;
  CondVar copies_changed_;
  std::size_t copies_ FALAJ_GUARDED_BY(copies_mutex_) = 0;
  exec::Pool copiers_;  // Last: its tasks use the rest.
};

// The place of a request's key column in plan.keys, added when it is new.
Result<std::size_t> key_place(OnlinePlan& plan, const table::Field& key) {
  for (std::size_t i = 0; i < plan.keys.size(); ++i) {
    if (plan.keys[i].name != key.name) continue;
    if (plan.keys[i].type == key.type) return i;
    return Error(ErrorId::kSchemaMismatch, "key column \"" + key.name +
                                               "\" is declared as int64 and as string by entities "
                                               "of one service: give it one type");
  }
  plan.keys.push_back(key);
  return plan.keys.size() - 1;
}

Status OnlineRows::add_view(const ViewDefinition& definition, const ServiceView& wanted,
                            OnlinePlan& plan) {
  if (definition.view.online == OnlineUse::kOffline) {
    return Error(Code::kFailedPrecondition, "FeatureView " + definition.view.name +
                                                " is not online: set online: true and apply it");
  }
  const Result<ViewState*> loaded = current(definition);
  if (!loaded.ok()) return loaded.error().within("FeatureView " + definition.view.name);
  const ViewState* state = *loaded;
  OnlinePlan::View view;
  view.view = definition.view.name;
  view.slot = state->slot;
  view.ttl = definition.view.ttl;
  for (const table::Field& key : definition.entity.keys) {
    view.key_names.push_back(FALAJ_TRY(key_place(plan, key)));
  }
  for (const table::Field& field : FALAJ_TRY(selected_features(definition.view, wanted))) {
    if (table::Schema{plan.columns}.find(field.name)) {
      return Error(ErrorId::kFeatureNameCollision, "two views of the service have a feature \"" +
                                                       field.name +
                                                       "\": take it from one of them only");
    }
    const auto place = std::find(state->fields.begin(), state->fields.end(), field);
    view.fields.push_back(static_cast<std::uint32_t>(place - state->fields.begin()));
    plan.columns.push_back(field);
    plan.full_names.push_back(view.view + "__" + field.name);
  }
  plan.views.push_back(std::move(view));
  return {};
}

Result<std::shared_ptr<const OnlinePlan>> OnlineRows::make_plan(const std::string& project,
                                                                const std::string& service) {
  FeatureService definition;
  std::vector<ViewDefinition> views;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    definition = FALAJ_TRY(decode_feature_service(
        FALAJ_TRY(storage::get_object(tx, "FeatureService", project, service))));
    for (const ServiceView& view : definition.views) {
      views.push_back(FALAJ_TRY(load_view(tx, project, view.view)));
    }
    return {};
  }));
  auto plan = std::make_shared<OnlinePlan>();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Status added = add_view(views[i], definition.views[i], *plan);
    if (!added.ok()) return added.error().within("FeatureService " + service);
  }
  return std::shared_ptr<const OnlinePlan>(std::move(plan));
}

}  // namespace

std::string_view status_name(FeatureStatus status) {
  switch (status) {
    case FeatureStatus::kPresent:
      return "PRESENT";
    case FeatureStatus::kNullValue:
      return "NULL_VALUE";
    case FeatureStatus::kNotFound:
      return "NOT_FOUND";
    case FeatureStatus::kOutsideMaxAge:
      break;
  }
  return "OUTSIDE_MAX_AGE";
}

Result<std::unique_ptr<Online>> Online::open(storage::SqlStore& sql, storage::KvStore& kv,
                                             storage::BlobStore& blobs) {
  auto online = std::make_unique<OnlineRows>(sql, kv, blobs);
  FALAJ_TRY(online->load());
  return std::unique_ptr<Online>(std::move(online));
}

}  // namespace falaj::features
