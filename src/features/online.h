// features/online.h — the newest row per key, in memory, read in well under a microsecond a view.
//
// The durable copy is in the KvStore, and follows what is published: the commits behind it are read
// from their segments when the view is loaded, into the hot index above it: behind the start, one
// view after the other, or when one is first asked for. Late rows never overwrite
// newer ones: (event, created, sequence) must increase.
//
// Every answer is of one commit number N: it has all rows that arrived with commits up to N, of
// every view, and none of a later one. A point-in-time join at the same time with known_at = N
// finds the same values.
//
// Features over windows are computed from the key's recent events, which stay in memory beside its
// newest row (internal/event_index.h): at start, and for each commit, they are read from segments.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "features/definitions.h"
#include "features/key.h"
#include "features/point_in_time_join.h"
#include "storage/blob.h"
#include "storage/kv.h"
#include "storage/sql.h"

namespace falaj::features {

enum class FeatureStatus : std::uint8_t { kPresent, kNullValue, kNotFound, kOutsideMaxAge };
std::string_view status_name(FeatureStatus status);  // "PRESENT", "NULL_VALUE", …

struct OnlineComputed;  // features/internal/online_computed.h
struct OnlineWindows;   // features/internal/event_index.h

// A FeatureService made ready for reading; immutable, shared. Feature i of a read is columns[i].
struct OnlinePlan {
  struct View {
    std::string view;
    std::int64_t generation = 0;         // Of its declaration.
    std::uint32_t slot = 0;              // Internal number of the view's index.
    std::vector<std::size_t> key_names;  // Indices into `keys`, in the entity's order.
    Duration ttl{};
    static constexpr std::uint32_t kWindow = 0xFFFFFFFFu;
    std::vector<std::uint32_t> fields;  // Feature positions inside the packed row, or kWindow.
    std::vector<table::Field> stored;   // The same features as the view calls them.
    std::shared_ptr<const OnlineWindows> windows{};  // Null when the view has none.
  };
  std::string project;
  std::vector<table::Field> keys;       // Distinct key columns a request must bring.
  std::vector<table::Field> columns;    // Features in the service's order.
  std::vector<std::string> full_names;  // "view__feature"
  // The view of each column; of a computed feature that of the first that it is computed from.
  std::vector<std::size_t> sources;
  std::vector<View> views;
  std::shared_ptr<const OnlineComputed> computed;  // Null: columns are what the views have.
};

// One entity: key column → id, in any order.
using EntityKeys = std::vector<std::pair<std::string, KeyPart>>;
// Appends the parts in the order of plan.keys; others are left out.
// FJ-3007 when one is missing, FJ-1005 when one has another type: never silent nulls.
Status append_keys(const OnlinePlan& plan, const EntityKeys& entity, std::vector<KeyPart>& out);

// What to read, and as of when.
struct OnlineAsk {
  Timestamp now{};
  Duration max_age{};  // Over 0: nothing older is present. A view's shorter ttl still counts.
};

// The answer to a request of several rows, all at one commit. Row i, column c is at
// i × columns + c; row i, view v at i × views + v.
struct OnlineAnswer {
  std::uint64_t commit = 0;
  std::size_t columns = 0;
  std::size_t views = 0;
  std::vector<FeatureStatus> statuses;
  // By the column's type: the bits of a double, an integer or nanoseconds, 0 or 1; of a text
  // (offset << 32 | length) in `texts`. 0 unless present.
  std::vector<std::uint64_t> words;
  std::string texts;
  std::vector<Timestamp> events;  // Of the rows found; Timestamp::min() where there is none.
  // Its texts are over kTextsMax, and some are not there: it must not be handed out.
  bool too_large = false;
  static constexpr std::size_t kTextsMax = 64u << 20;

  // Adds a text and gives its word, or marks the answer as too large.
  std::uint64_t add_text(std::string_view text) {
    if (text.size() > kTextsMax - texts.size()) {
      too_large = true;
      return 0;
    }
    const std::uint64_t word = texts.size() << 32 | text.size();
    texts.append(text);
    return word;
  }
  std::string_view text(std::uint64_t word) const {
    return std::string_view(texts).substr(word >> 32, word & 0xFFFFFFFFu);
  }
};

struct OnlineRow {
  std::vector<double> numbers;  // One per column; NaN unless present (texts: hash bucket is not
                                // applied here, a text is NaN).
  std::vector<FeatureStatus> statuses;
  Timestamp oldest_event = Timestamp::max();
  std::uint64_t commit = 0;  // That it was read at.
  bool too_large = false;    // As in OnlineAnswer, of what its numbers are computed from.
};

class ParitySamples;  // features/parity.h

struct OnlineOptions {
  ParitySamples* parity = nullptr;  // Where sampled replies go; outlives the Online.
};

class Online {
 public:
  // Reads no rows: behind it, on a thread of its own, the durable rows of every online view are
  // loaded and it catches up with committed segments that were not yet published (a crash between
  // commit and publish). plan() of a view that was not loaded yet loads it. A view that cannot be
  // loaded (a corrupt segment, stored types that contradict its declaration) is logged and skipped:
  // the others work, and plan() of a service that takes it fails with the reason.
  static Result<std::unique_ptr<Online>> open(storage::SqlStore& sql, storage::KvStore& kv,
                                              storage::BlobStore& blobs,
                                              const OnlineOptions& options = {});
  virtual ~Online() = default;

  // FJ-2001 when the service or one of its views is not declared; FJ-3002 or FJ-3004 naming a view
  // whose rows cannot be loaded. Cached until a definition changes; a failure is not cached.
  virtual Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                         const std::string& service) = 0;
  // The same for features of any views, in the order of `wanted`, which names no view twice. Bare
  // names that are there twice are FJ-3005; with full names they may be.
  virtual Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                         const std::vector<ServiceView>& wanted,
                                                         NameStyle names) = 0;
  // What was planned before, without looking further: null when it must be planned. Never blocks on
  // disk.
  virtual std::shared_ptr<const OnlinePlan> known_plan(const ProjectName& project,
                                                       const std::string& service) const = 0;
  virtual std::shared_ptr<const OnlinePlan> known_plan(const ProjectName& project,
                                                       const std::vector<ServiceView>& wanted,
                                                       NameStyle names) const = 0;
  // `keys` in the order of plan.keys. Missing rows are statuses, not errors. `out` is reused.
  // Never blocks on disk: safe on an event-loop thread.
  virtual void read(const OnlinePlan& plan, std::span<const KeyPart> keys, Timestamp now,
                    OnlineRow& out) const = 0;
  // The same for several entities: `keys` are those of the first, then those of the second, …
  virtual void read(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
                    OnlineAnswer& out) const = 0;

  // Every row of the view that was committed is in memory when it returns. FJ-2001 when it is not
  // declared, FJ-0006 when it is not online; as plan() for rows that cannot be loaded. Blocks.
  virtual Status make_sure(const ProjectName& project, const std::string& view) = 0;

  // The commit that is read at now.
  virtual std::uint64_t commit() const = 0;
  // Called by Ingest inside the transaction that makes the commit, as its last step, and when that
  // failed, or its rows are not for online: until then no reader goes past it.
  virtual void expect(std::uint64_t commit) = 0;
  virtual void pass(std::uint64_t commit) = 0;
  // Called by Ingest after its commit is durable: rows of `batch` with keys, event, created and
  // sequence; newer ones win. Counts replaced and stale rows. Readers see all of them when it
  // returns, which waits for commits before it that are about to be published too. The durable copy
  // is written behind it; a copy that fails is logged, and made with the view's next commit or at
  // the next start. Waits while several copies are under way.
  struct Published {
    std::uint64_t newer = 0;
    std::uint64_t stale = 0;
  };
  virtual Result<Published> publish(const ProjectName& project, const FeatureView& view,
                                    const Entity& entity, const table::Batch& rows,
                                    std::uint64_t commit) = 0;
  // Removes the rows of these encoded keys, at once and durably. How many there were.
  virtual Result<std::uint64_t> erase(const ProjectName& project, const FeatureView& view,
                                      const Entity& entity,
                                      const std::vector<std::string>& keys) = 0;
  // Forgets all of a view, in memory and durably, without needing its keys or its definition: they
  // may be gone. `zone` is that of its rows.
  virtual Status forget(const ProjectName& project, const std::string& view, const Zone& zone) = 0;
  // 0 for a view that was not loaded yet.
  virtual std::uint64_t keys(const ProjectName& project, const std::string& view) const = 0;
  // Forget cached plans; called when a definition was applied or deleted.
  virtual void definitions_changed() = 0;
};

}  // namespace falaj::features
