// features/online.h — the newest row per key, in memory, read in well under a microsecond a view.
//
// The durable copy is in the KvStore, and follows what is published: the commits behind it are read
// from their segments at start. The hot index above it is rebuilt then. Late rows never overwrite
// newer ones: (event, created, sequence) must increase.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "features/definitions.h"
#include "features/key.h"
#include "storage/blob.h"
#include "storage/kv.h"
#include "storage/sql.h"

namespace falaj::features {

enum class FeatureStatus : std::uint8_t { kPresent, kNullValue, kNotFound, kOutsideMaxAge };
std::string_view status_name(FeatureStatus status);  // "PRESENT", "NULL_VALUE", …

// A FeatureService made ready for reading; immutable, shared. Feature i of a read is columns[i].
struct OnlinePlan {
  struct View {
    std::string view;
    std::uint32_t slot = 0;              // Internal number of the view's index.
    std::vector<std::size_t> key_names;  // Indices into `keys`, in the entity's order.
    Duration ttl{};
    std::vector<std::uint32_t> fields;  // Feature positions inside the packed row.
  };
  std::vector<table::Field> keys;       // Distinct key columns a request must bring.
  std::vector<table::Field> columns;    // Features in the service's order.
  std::vector<std::string> full_names;  // "view__feature"
  std::vector<View> views;
};

struct OnlineRow {
  std::vector<double> numbers;  // One per column; NaN unless present (texts: hash bucket is not
                                // applied here, a text is NaN).
  std::vector<FeatureStatus> statuses;
  Timestamp oldest_event = Timestamp::max();
};

class Online {
 public:
  // Loads the durable rows of every online view and catches up with committed segments that were
  // not yet published (a crash between commit and publish). A view that cannot be loaded (a corrupt
  // segment, stored types that contradict its declaration) is logged and skipped: the others work,
  // and plan() of a service that takes it fails with the reason.
  static Result<std::unique_ptr<Online>> open(storage::SqlStore& sql, storage::KvStore& kv,
                                              storage::BlobStore& blobs);
  virtual ~Online() = default;

  // FJ-2001 when the service or one of its views is not declared; FJ-3002 or FJ-3004 naming a view
  // whose rows cannot be loaded. Cached until a definition changes; a failure is not cached.
  virtual Result<std::shared_ptr<const OnlinePlan>> plan(const ProjectName& project,
                                                         const std::string& service) = 0;
  // `keys` in the order of plan.keys. Missing rows are statuses, not errors. `out` is reused.
  // Never blocks on disk: safe on an event-loop thread.
  virtual void read(const OnlinePlan& plan, std::span<const KeyPart> keys, Timestamp now,
                    OnlineRow& out) const = 0;

  // Called by Ingest after its commit is durable: rows of `batch` with keys, event, created and
  // sequence; newer ones win. Counts replaced and stale rows. Readers see all of them when it
  // returns. The durable copy is written behind it; a copy that fails is logged, and made with the
  // view's next commit or at the next start. Waits while several copies are under way.
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
  virtual std::uint64_t keys(const ProjectName& project, const std::string& view) const = 0;
  // Forget cached plans; called when a definition was applied or deleted.
  virtual void definitions_changed() = 0;
};

}  // namespace falaj::features
