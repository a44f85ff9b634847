#include "features/online.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "exec/pool.h"
#include "features/internal/horizon.h"
#include "features/internal/online_computed.h"
#include "features/internal/online_read.h"
#include "features/internal/online_rows.h"
#include "features/internal/plan_cache.h"
#include "features/internal/plan_name.h"
#include "features/internal/segments.h"
#include "features/internal/view_copy.h"
#include "features/internal/view_index.h"
#include "features/internal/view_rows.h"
#include "features/internal/view_state.h"
#include "features/parity.h"
#include "storage/objects.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kViewsMax = 16'384;
// Published commits that may wait for their durable copy; the next publish waits for a place.
constexpr std::size_t kCopiesMax = 4;

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

Status check_online(const FeatureView& view) {
  if (view.online == OnlineUse::kOnline) return {};
  return Error(Code::kFailedPrecondition,
               "FeatureView " + view.name + " is not online: set online: true and apply it");
}

class OnlineRows final : public Online {
 public:
  OnlineRows(storage::SqlStore& sql, storage::KvStore& kv, storage::BlobStore& blobs,
             const OnlineOptions& options)
      : sql_(sql),
        kv_(kv),
        blobs_(blobs),
        parity_(options.parity),
        memory_max_(options.memory_max),
        copiers_({"online", 1, kCopiesMax + 1}),
        loader_({"online-load", 1, 1}) {}
  // What was not copied yet is caught up with at the next start.
  ~OnlineRows() override {
    stopping_.store(true);
    loader_.drain();
    copiers_.drain();
  }

  // Reads declarations, no rows: those come behind it. One view that cannot be loaded must not keep
  // all others from being served.
  Status load() {
    std::vector<ViewDefinition> views;
    FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
      const storage::SqlRows last =
          FALAJ_TRY(tx.query("SELECT COALESCE(MAX(commit_number), 0) FROM feature_commits"));
      pass(static_cast<std::uint64_t>(last.at(0).integer(0)));
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
    std::erase_if(
        views, [](const ViewDefinition& view) { return view.view.online != OnlineUse::kOnline; });
    return loader_.submit([this, views = std::move(views)] { load_views(views); });
  }

  // On the loader's thread. Who asks for one of them meanwhile loads it, and waits for no other.
  void load_views(const std::vector<ViewDefinition>& views) {
    for (const ViewDefinition& view : views) {
      if (stopping_.load()) return;
      const Result<ViewState*> state = current(view);
      if (!state.ok()) log_skipped(view.project, view.view.name, state.error());
    }
  }

  Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                 const std::string& service) override {
    return plans_.get({project.str(), plan_name(service)},
                      [&] { return plan_service(project.str(), service); });
  }

  Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                 const std::vector<ServiceView>& wanted,
                                                 NameStyle names) override {
    return plans_.get({project.str(), plan_name(wanted, names)}, [&] {
      FeatureService asked;
      asked.views = wanted;
      asked.names = names;
      return plan_layout(project.str(), asked);
    });
  }

  std::shared_ptr<const OnlinePlan> known_plan(const ProjectName& project,
                                               const std::string& service) const override {
    return plans_.known({project.str(), plan_name(service)});
  }

  std::shared_ptr<const OnlinePlan> known_plan(const ProjectName& project,
                                               const std::vector<ServiceView>& wanted,
                                               NameStyle names) const override {
    return plans_.known({project.str(), plan_name(wanted, names)});
  }

  void read(const OnlinePlan& plan, std::span<const KeyPart> keys, Timestamp now,
            OnlineRow& out) const override {
    const bool sampled = plan.computed == nullptr && is_sampled();
    if (plan.computed != nullptr || sampled) {
      thread_local OnlineAnswer answer;
      if (sampled) {
        look_up_all(plan, keys, {now, {}}, Elsewhere::kFetch, answer);
        parity_->take(plan, keys, {now, {}}, answer, 0);
      } else {
        read(plan, keys, OnlineAsk{now, {}}, answer);
      }
      return to_numbers(plan, now, answer, out);
    }
    at_one_commit(out.commit, [&](std::uint64_t commit) {
      out.numbers.assign(plan.columns.size(), kNan);
      out.statuses.assign(plan.columns.size(), FeatureStatus::kNotFound);
      out.oldest_event = Timestamp::max();
      out.too_large = false;
      out.failed.reset();
      return look_up(
          plan, keys, {commit, now, Elsewhere::kFetch, out.failed},
          [&](const OnlinePlan::View& view, std::size_t column, const RowView& row) {
            fill_numbers(plan, view, column, row, now, out);
          },
          [&](std::size_t column, const expression::Cell& cell) {
            fill_window(plan, column, cell, out);
          });
    });
  }

  void read(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
            OnlineAnswer& out) const override {
    read_or_leave(plan, keys, ask, Elsewhere::kFetch, out);
  }

  bool read_now(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
                OnlineAnswer& out) const override {
    return read_or_leave(plan, keys, ask, Elsewhere::kLeave, out);
  }

  Status make_sure(const ProjectName& project, const std::string& view) override {
    ViewDefinition definition;
    FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
      definition = FALAJ_TRY(load_view(tx, project.str(), view));
      return {};
    }));
    FALAJ_TRY(loaded(definition));
    return {};
  }

  std::uint64_t commit() const override { return horizon_.commit(); }
  void expect(std::uint64_t commit) override { horizon_.expect(commit); }
  void pass(std::uint64_t commit) override { horizon_.pass(commit); }

  Result<Published> publish(const ProjectName& project, const FeatureView& view,
                            const Entity& entity, const Batch& rows,
                            std::uint64_t commit) override {
    Result<ViewState*> state = state_of(project.str(), view, entity);
    if (!state.ok()) {
      pass(commit);
      return state.error();
    }
    const MutexLock lock((*state)->turn);
    // A commit before this one may not have come online: its publish failed, or nobody read the
    // view online then. It must not be skipped by moving the watermark past it.
    Published out;
    const Status ready = catch_up(**state, commit - 1);
    Result<FreshPtr> taken =
        ready.ok() ? take_published(**state, (*state)->fits(view, entity), rows, commit, out)
                   : ready.error();
    // Whatever became of it: the commits behind it must not wait for ever.
    pass(commit);
    if (!taken.ok()) return taken.error();
    horizon_.wait(commit);
    (*state)->index->settle();
    if (*taken != nullptr) FALAJ_TRY(start_copy(**state, std::move(taken).value()));
    return out;
  }

  // First durably, then in memory: a crash in between leaves nothing to be loaded again.
  Result<std::uint64_t> erase(const ProjectName& project, const FeatureView& view,
                              const Entity& entity, const std::vector<std::string>& keys) override {
    if (parity_ != nullptr) parity_->forget(project.str(), view.name);
    ViewState* state = FALAJ_TRY(state_of(project.str(), view, entity));
    const MutexLock lock(state->turn);
    if (!state->zone.labelled()) FALAJ_TRY(find_zone(sql_, *state));
    if (!state->zone.labelled() || keys.empty()) return std::uint64_t{0};
    wait_for_copies(0);
    std::vector<storage::KvWrite> batch;
    for (const std::string& key : keys) batch.push_back({kRowMark + key, std::nullopt});
    const ViewIndex::Hold hold(*state->index);
    FALAJ_TRY(bring_in(kv_, *state, keys));  // So that it is known which of them there were.
    FALAJ_TRY(kv_.write(state->owner(), batch));
    std::uint64_t removed = 0;
    for (const std::string& key : keys) {
      removed += state->index->erase(key) ? 1 : 0;
      if (state->events != nullptr) state->events->erase(key);
    }
    sweeps_.changed();
    // Whoever has the view's key could still read deleted rows in old files.
    FALAJ_TRY(kv_.purge(state->owner()));
    const MutexLock states(states_mutex_);
    for (ViewState* old : retired_of(project.str(), view.name)) {
      for (const std::string& key : keys) {
        old->index->erase(key);
        if (old->events != nullptr) old->events->erase(key);
      }
    }
    return removed;
  }

  Status forget(const ProjectName& project, const std::string& view, const Zone& zone) override {
    if (parity_ != nullptr) parity_->forget(project.str(), view);
    const MutexLock loading(loading_turn(project.str(), view));
    ViewState* state = nullptr;
    {
      const MutexLock lock(states_mutex_);
      const auto found = states_.find({project.str(), view});
      if (found != states_.end()) state = found->second.get();
      for (ViewState* old : retired_of(project.str(), view)) {
        old->index->clear();
        if (old->events != nullptr) old->events->clear();
      }
    }
    if (state == nullptr) return kv_.clear(owner_of_view(project.str(), zone, view));
    const MutexLock lock(state->turn);
    wait_for_copies(0);
    FALAJ_TRY(kv_.clear(owner_of_view(project.str(), zone, view)));
    state->index->clear();
    if (state->events != nullptr) state->events->clear();
    sweeps_.changed();
    state->watermark = 0;
    state->copied = 0;
    return {};
  }

  std::uint64_t keys(const ProjectName& project, const std::string& view) const override {
    const MutexLock lock(states_mutex_);
    const auto state = states_.find({project.str(), view});
    return state == states_.end() ? 0 : state->second->index->keys();
  }

  void definitions_changed() override { plans_.clear(); }

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

  // What becomes of a reading whose rows are not all in memory.
  enum class Elsewhere : std::uint8_t { kFetch, kLeave };
  enum class Looked : std::uint8_t { kDone, kAgain, kLeft };

  // Reads at the newest commit, again when rows of it were replaced meanwhile. False when it was
  // left.
  template <class Read>
  bool at_one_commit(std::uint64_t& commit, Read read) const {
    for (;;) {
      commit = horizon_.commit();
      const Looked looked = read(commit);
      if (looked != Looked::kAgain) return looked == Looked::kDone;
      std::this_thread::yield();
    }
  }

  struct Moment {
    std::uint64_t commit;
    Timestamp now;
    Elsewhere elsewhere;
    std::optional<Error>& failed;
  };

  // found(view, column, row) for each view that has one, and window(column, cell) for each feature
  // over a window; again when that commit is gone.
  template <class Found, class Window>
  Looked look_up(const OnlinePlan& plan, std::span<const KeyPart> keys, const Moment& at,
                 Found found, Window window) const {
    thread_local std::string key;
    std::size_t column = 0;
    for (const OnlinePlan::View& view : plan.views) {
      key.clear();
      for (const std::size_t part : view.key_names) append_part(key, keys[part]);
      const ViewState* state = slots_[view.slot].load(std::memory_order_acquire);
      const auto take = [&](const RowView& row) { found(view, column, row); };
      const auto seen = state->index->read(key, at.commit, take);
      if (seen == ViewIndex::Seen::kTooNew) return Looked::kAgain;
      if (seen == ViewIndex::Seen::kElsewhere) {
        if (at.elsewhere == Elsewhere::kLeave) return Looked::kLeft;
        const Looked looked = fetch(*state, key, at, take);
        if (looked != Looked::kDone || at.failed) return looked;
      }
      const auto put = [&](std::size_t item, const expression::Cell& cell) {
        window(column + view.windows->places[item], cell);
      };
      if (view.windows != nullptr && !read_windows(*view.windows, key, at.commit, at.now, put)) {
        return Looked::kAgain;
      }
      column += view.fields.size();
    }
    return Looked::kDone;
  }

  // From the durable copy, which has the newest row of every key that is not in memory.
  template <class Take>
  Looked fetch(const ViewState& state, const std::string& key, const Moment& at, Take take) const {
    RowWords words(state.fields.size());
    const Result<bool> found = fetch_row(kv_, state, key, words);
    if (!found.ok()) {
      at.failed = found.error().within("FeatureView " + state.view);
      return Looked::kDone;
    }
    if (!*found) return Looked::kDone;
    if (commit_of(words.row().sequence()) > at.commit) return Looked::kAgain;
    take(words.row());
    begin_eviction();
    return Looked::kDone;
  }

  bool is_sampled() const { return parity_ != nullptr && parity_->due(); }

  bool read_or_leave(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
                     Elsewhere elsewhere, OnlineAnswer& out) const {
    if (plan.computed != nullptr) {
      thread_local OnlineAnswer found;
      if (!read_or_leave(plan.computed->reads, keys, ask, elsewhere, found)) return false;
      compute(*plan.computed, keys, ask.now, found, out);
      return true;
    }
    if (!look_up_all(plan, keys, ask, elsewhere, out)) return false;
    if (is_sampled() && !keys.empty()) {
      const std::size_t rows = keys.size() / plan.keys.size();
      parity_->take(plan, keys, ask, out, out.commit % rows);
    }
    return true;
  }

  bool look_up_all(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
                   Elsewhere elsewhere, OnlineAnswer& out) const {
    const std::size_t width = plan.keys.size();
    const std::size_t rows = keys.size() / width;
    out.columns = plan.columns.size();
    out.views = plan.views.size();
    return at_one_commit(out.commit, [&](std::uint64_t commit) {
      out.statuses.assign(rows * out.columns, FeatureStatus::kNotFound);
      out.words.assign(rows * out.columns, 0);
      out.texts.clear();
      out.too_large = false;
      out.failed.reset();
      out.events.assign(rows * out.views, Timestamp::min());
      for (std::size_t i = 0; i < rows; ++i) {
        const auto found = [&](const OnlinePlan::View& view, std::size_t column,
                               const RowView& row) {
          fill_answer(plan, view, column, row, ask, i, out);
        };
        const auto window = [&](std::size_t column, const expression::Cell& cell) {
          put_cell(cell, plan.columns[column].type, i * out.columns + column, out);
        };
        const Looked looked = look_up(plan, keys.subspan(i * width, width),
                                      {commit, ask.now, elsewhere, out.failed}, found, window);
        if (looked != Looked::kDone || out.failed) return looked;
      }
      return Looked::kDone;
    });
  }

  // Who loads or forgets a view waits for others who do, and for those of no other view.
  Mutex& loading_turn(const std::string& project, const std::string& view) {
    const MutexLock lock(states_mutex_);
    std::unique_ptr<Mutex>& turn = loading_[{project, view}];
    if (turn == nullptr) turn = std::make_unique<Mutex>();
    return *turn;
  }

  ViewState* known_state(const std::string& project, const std::string& view) const {
    const MutexLock lock(states_mutex_);
    const auto found = states_.find({project, view});
    return found == states_.end() ? nullptr : found->second.get();
  }

  // The view's state, loaded from the durable rows when it is new or its fields have changed.
  Result<ViewState*> state_of(const std::string& project, const FeatureView& view,
                              const Entity& entity) {
    if (ViewState* known = known_state(project, view.name)) {
      if (known->fits(view, entity)) return known;
    }
    const MutexLock loading(loading_turn(project, view.name));
    if (ViewState* known = known_state(project, view.name)) {
      if (known->fits(view, entity)) return known;
      // Whoever still has an earlier declaration must not bring it back: plans hold on to this one.
      if (is_declared(*known)) return known;
    }
    auto state = std::make_unique<ViewState>();
    state->project = project;
    state->view = view.name;
    state->keys = entity.keys;
    state->fields = fields_of(view);
    state->row_key = entity.row_key;
    state->segments = segment_schema(view, entity);
    state->aggregates = aggregates_of(view);
    state->event_id = view.event_id;
    state->events_max = view.events_max;
    wait_for_copies(0);
    std::unique_ptr<ViewIndex> index = FALAJ_TRY(load_rows(*state));
    FALAJ_TRY(load_events(*state));
    return take_over(std::move(state), std::move(index));
  }

  // The state from now on.
  Result<ViewState*> take_over(std::unique_ptr<ViewState> state, std::unique_ptr<ViewIndex> index) {
    const MutexLock lock(states_mutex_);
    if (indexes_.size() == kViewsMax) {
      return Error(Code::kResourceExhausted,
                   "over 16384 online views since start: restart to forget changed ones");
    }
    state->slot = static_cast<std::uint32_t>(indexes_.size());
    state->index = index.get();
    slots_[state->slot].store(state.get(), std::memory_order_release);
    indexes_.push_back(std::move(index));
    std::unique_ptr<ViewState>& known = states_[{state->project, state->view}];
    // Plans made before still point to the old index: it stays, as it was.
    if (known != nullptr) retired_.push_back(std::move(known));
    known = std::move(state);
    return known.get();
  }

  bool is_declared(const ViewState& state) {
    return sql_
        .read([&](storage::SqlTransaction& tx) -> Status {
          const ViewDefinition now = FALAJ_TRY(load_view(tx, state.project, state.view));
          if (state.fits(now.view, now.entity)) return {};
          return Error(ErrorId::kStaleGeneration, "declared otherwise");
        })
        .ok();
  }

  Result<std::unique_ptr<ViewIndex>> load_rows(ViewState& state) {
    auto index = std::make_unique<ViewIndex>(state.fields.size(), memory_);
    FALAJ_TRY(find_zone(sql_, state));
    std::optional<std::string> watermark;
    if (state.zone.labelled()) {
      watermark = FALAJ_TRY(kv_.get(state.owner(), kWatermarkKey));
      if (watermark && decode_number(*watermark) > FALAJ_TRY(newest_commit(sql_, state))) {
        // Of commits that are not there: the metadata was set back (a restored backup) and the
        // rows, which may lie in another server, were not. They are made again from the segments.
        log::warn("online rows are newer than the metadata: made again", {{"view", state.view}});
        FALAJ_TRY(kv_.clear(state.owner()));
        watermark.reset();
      }
      FALAJ_TRY(scan_rows(kv_, state, {memory_, memory_max_}, *index));
    }
    const MutexLock lock(state.turn);
    state.watermark = watermark ? decode_number(*watermark) : 0;
    state.copied = state.watermark;
    return index;
  }

  // The events of the commits that load_rows() found, as far back as a window may reach.
  Status load_events(ViewState& state) {
    if (state.aggregates.empty()) return {};
    const MutexLock lock(state.turn);
    state.events = std::make_shared<EventIndex>(plan_windows(state.event_id, state.aggregates),
                                                state.events_max);
    return read_events(
        sql_, blobs_,
        {{state.project, state.view}, state.segments, state.keys.size(), state.watermark},
        *state.events);
  }

  // The state with every row in it that readers may see; of a later declaration than `definition`
  // when there is one. Rows that were committed under an earlier one may still be on their way into
  // its state, where nobody will look: they are waited for, and taken from their segments. Commits
  // behind them are published into this state by those who made them.
  Result<ViewState*> current(const ViewDefinition& definition) {
    ViewState* state = FALAJ_TRY(state_of(definition.project, definition.view, definition.entity));
    horizon_.wait(FALAJ_TRY(newest_commit(sql_, *state)));
    const MutexLock lock(state->turn);
    FALAJ_TRY(catch_up(*state, commit()));
    return state;
  }

  Result<ViewState*> loaded(const ViewDefinition& definition) {
    FALAJ_TRY(check_online(definition.view));
    Result<ViewState*> state = current(definition);
    if (!state.ok()) return state.error().within("FeatureView " + definition.view.name);
    return state;
  }

  // Publishes committed segments behind the watermark.
  Status catch_up(ViewState& state, std::uint64_t up_to) FALAJ_REQUIRES(state.turn) {
    return for_each_commit(sql_, blobs_, state, state.watermark, up_to,
                           [&](const CommitRows& rows) FALAJ_REQUIRES(state.turn) -> Status {
                             Published counts;
                             FreshPtr fresh = FALAJ_TRY(take_in(state, rows, counts));
                             state.index->settle();
                             return start_copy(state, std::move(fresh));
                           });
  }

  // Into memory; readers see it once the horizon has passed it, and its durable copy follows. The
  // commit is durable by itself: a crash before the copy is done costs the next start some reading,
  // see catch_up().
  Result<FreshPtr> take_in(ViewState& state, const CommitRows& brought, Published& out)
      FALAJ_REQUIRES(state.turn) {
    const std::uint64_t commit = brought.commit;
    if (!state.zone.labelled()) FALAJ_TRY(find_zone(sql_, state));
    const std::size_t keys = state.keys.size();
    auto fresh = std::make_shared<Fresh>();
    fresh->owner = state.owner();
    fresh->rows = newest_rows(sorted_rows(brought.newest, keys), keys);
    fresh->commit = commit;
    fresh->follows = state.watermark;
    if (state.events != nullptr && !brought.all.columns.empty()) {
      const Batch events = sorted_rows(brought.all, keys);
      state.events->put({events, keys, commit, state.watermark, brought.committed_at});
    }
    const Batch& rows = fresh->rows;
    const KeyColumn row_keys(first_columns(rows, keys));
    const ViewIndex::Hold hold(*state.index);
    FALAJ_TRY(bring_in(kv_, state, row_keys, rows.rows()));
    fresh->wins = winners(state, rows, row_keys, commit);
    RowWords words(state.fields.size());
    for (std::size_t row = 0; row < rows.rows(); ++row) {
      if (!fresh->wins[row]) {
        ++out.stale;
        continue;
      }
      to_words(rows, row, keys, commit, words);
      const auto put = state.index->put(row_keys[row], words.row(), ViewIndex::Replaced::kKeep);
      if (put == ViewIndex::Put::kNewer) ++out.newer;
    }
    state.watermark = std::max(state.watermark, commit);
    return FreshPtr(std::move(fresh));
  }

  // What its segments say of one commit; null when they hold no rows of it.
  Result<FreshPtr> take_segments(ViewState& state, std::uint64_t commit, Published& out)
      FALAJ_REQUIRES(state.turn) {
    FreshPtr fresh;
    FALAJ_TRY(for_each_commit(sql_, blobs_, state, commit - 1, commit,
                              [&](const CommitRows& rows) FALAJ_REQUIRES(state.turn) -> Status {
                                fresh = FALAJ_TRY(take_in(state, rows, out));
                                return {};
                              }));
    return fresh;
  }

  // A publisher brings the newest rows only, of its own declaration: those of windows, and rows for
  // a state of another declaration, are read from what was committed.
  Result<FreshPtr> take_published(ViewState& state, bool fits, const Batch& newest,
                                  std::uint64_t commit, Published& out) FALAJ_REQUIRES(state.turn) {
    if (state.events != nullptr || !fits) {
      FreshPtr fresh = FALAJ_TRY(take_segments(state, commit, out));
      if (fresh != nullptr || !fits) return fresh;
    }
    return take_in(state, {newest, {}, commit, {}}, out);
  }

  Status start_copy(ViewState& state, FreshPtr fresh) {
    {
      // Waiting and taking the place are one step: of several who wait only so many go on.
      const MutexLock lock(copies_mutex_);
      copies_changed_.wait(copies_mutex_,
                           [&]() FALAJ_REQUIRES(copies_mutex_) { return copies_ < kCopiesMax; });
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
      } else {
        sweeps_.changed();
      }
      ended();
      evict();
    });
    if (!submitted.ok()) ended();
    return submitted;
  }

  // On the copiers' thread, behind what it has to do. Nothing is lost when that is too much: the
  // next reading or copy begins one again.
  void begin_eviction() const {
    if (!sweeps_.due() || evicting_.exchange(true)) return;
    if (!copiers_.submit([this] { evict(); }).ok()) evicting_.store(false);
  }

  // On the copiers' thread.
  void evict() const {
    evicting_.store(false);
    if (!sweeps_.due()) return;
    std::vector<ViewState*> all;
    {
      const MutexLock lock(states_mutex_);
      for (const auto& [name, state] : states_) all.push_back(state.get());
      for (const auto& state : retired_) all.push_back(state.get());
    }
    const std::int64_t wanted = sweeps_.target();
    for (std::size_t i = 0; i < all.size() && memory_.load() > wanted; ++i) {
      const ViewState* state = all[(evict_from_ + i) % all.size()];
      state->index->evict(memory_.load() - wanted, state->copied);
    }
    ++evict_from_;
    sweeps_.swept();
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
      return write_durably(kv_, stopping_, state, fresh, row_keys);
    }
    // A copy before this one failed: its rows are read again. Those that were replaced since lose
    // against the index, and come with the commit that replaced them.
    return for_each_commit(
        sql_, blobs_, state, state.copied, fresh.commit, [&](const CommitRows& rows) -> Status {
          const std::size_t keys = state.keys.size();
          Fresh again{
              fresh.owner, newest_rows(sorted_rows(rows.newest, keys), keys), {}, rows.commit};
          const KeyColumn row_keys(first_columns(again.rows, keys));
          const ViewIndex::Hold hold(*state.index);
          FALAJ_TRY(bring_in(kv_, state, row_keys, again.rows.rows()));
          again.wins = winners(state, again.rows, row_keys, rows.commit);
          return write_durably(kv_, stopping_, state, again, row_keys);
        });
  }

  using PlanPtr = PlanCache::PlanPtr;
  Result<PlanPtr> plan_service(const std::string& project, const std::string& service);
  Result<PlanPtr> plan_layout(const std::string& project, const FeatureService& service);
  Status add_view(const ViewDefinition& definition, const ServicePart& part, OnlinePlan& plan);

  storage::SqlStore& sql_;
  storage::KvStore& kv_;
  storage::BlobStore& blobs_;
  ParitySamples* const parity_;
  const std::int64_t memory_max_;
  std::atomic<std::int64_t> memory_{0};  // Of the rows of all views.
  mutable std::atomic<bool> evicting_{false};
  mutable SweepGate sweeps_{{memory_, memory_max_}};

  mutable Mutex states_mutex_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<ViewState>> states_
      FALAJ_GUARDED_BY(states_mutex_);
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Mutex>> loading_
      FALAJ_GUARDED_BY(states_mutex_);
  std::vector<std::unique_ptr<ViewState>> retired_ FALAJ_GUARDED_BY(states_mutex_);
  std::vector<std::unique_ptr<ViewIndex>> indexes_ FALAJ_GUARDED_BY(states_mutex_);
  std::array<std::atomic<const ViewState*>, kViewsMax> slots_{};

  PlanCache plans_;

  Horizon horizon_;
  std::atomic<bool> stopping_{false};
  Mutex copies_mutex_;
  CondVar copies_changed_;
  std::size_t copies_ FALAJ_GUARDED_BY(copies_mutex_) = 0;
  mutable std::size_t evict_from_ = 0;  // Of the copiers' thread.
  mutable exec::Pool copiers_;          // Last: their tasks use the rest.
  exec::Pool loader_;
};

Status OnlineRows::add_view(const ViewDefinition& definition, const ServicePart& part,
                            OnlinePlan& plan) {
  const ViewState* state = FALAJ_TRY(loaded(definition));
  OnlinePlan::View view;
  view.view = definition.view.name;
  view.generation = definition.generation;
  view.stored = part.stored;
  view.slot = state->slot;
  view.ttl = definition.view.ttl;
  for (const std::string& column : part.key_columns) {
    view.key_names.push_back(*table::Schema{plan.keys}.find(column));
  }
  for (const table::Field& field : part.stored) {
    const auto place = std::find(state->fields.begin(), state->fields.end(), field);
    const bool window = find_aggregated(definition.view, field.name) != nullptr;
    if (!window && place == state->fields.end()) {
      return Error(ErrorId::kStaleGeneration,
                   "FeatureView " + definition.view.name + " was changed meanwhile: ask again");
    }
    view.fields.push_back(window ? OnlinePlan::View::kWindow
                                 : static_cast<std::uint32_t>(place - state->fields.begin()));
    plan.sources.push_back(plan.views.size());
  }
  view.windows = pick_windows(state->events, definition.view, part.stored);
  plan.views.push_back(std::move(view));
  return {};
}

Result<OnlineRows::PlanPtr> OnlineRows::plan_service(const std::string& project,
                                                     const std::string& service) {
  FeatureService definition;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    definition = FALAJ_TRY(decode_feature_service(
        FALAJ_TRY(storage::get_object(tx, "FeatureService", project, service))));
    return {};
  }));
  Result<PlanPtr> plan = plan_layout(project, definition);
  if (!plan.ok()) return plan.error().within("FeatureService " + service);
  return plan;
}

Result<OnlineRows::PlanPtr> OnlineRows::plan_layout(const std::string& project,
                                                    const FeatureService& service) {
  std::vector<ViewDefinition> views;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    for (const ServiceView& view : service.views) {
      views.push_back(FALAJ_TRY(load_view(tx, project, view.view)));
    }
    return {};
  }));
  std::vector<ViewOfService> parts;
  for (const ViewDefinition& view : views) parts.push_back({view.view, view.entity});
  ServiceLayout layout = FALAJ_TRY(lay_out(service, parts));
  OnlinePlan reads;
  reads.project = project;
  reads.keys = layout.keys;
  reads.columns = layout.reads;
  for (std::size_t i = 0; i < views.size(); ++i) {
    FALAJ_TRY(add_view(views[i], layout.parts[i], reads));
  }
  return std::make_shared<const OnlinePlan>(with_columns(std::move(reads), std::move(layout)));
}

}  // namespace

Result<std::unique_ptr<Online>> Online::open(storage::SqlStore& sql, storage::KvStore& kv,
                                             storage::BlobStore& blobs,
                                             const OnlineOptions& options) {
  auto online = std::make_unique<OnlineRows>(sql, kv, blobs, options);
  FALAJ_TRY(online->load());
  return std::unique_ptr<Online>(std::move(online));
}

}  // namespace falaj::features
