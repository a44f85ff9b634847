// security/quota/quotas.h — every project's quota in memory, and how much each has stored.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "base/published.h"
#include "security/quota/quota.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::security {

extern const storage::Migration kQuotaMigration;

// Thread-safe. of() and room() never block; the others do.
class Quotas {
 public:
  explicit Quotas(storage::SqlStore& sql) : sql_(sql) {}

  // Reads what was stored up to the last flush(). Call once, before anything is stored.
  Status load();
  // Reads the declared quotas. Call at start and after each change of declared objects; an error
  // leaves those before in force.
  Status refresh();
  // No limit for a project that is not known.
  Quota of(std::string_view project) const;

  // FJ-7017 when `more` bytes would not fit beside what the project has stored.
  Status room(const std::string& project, std::int64_t more) const;
  void stored(const std::string& project, std::int64_t bytes);  // Negative: removed.
  std::int64_t stored_bytes(const std::string& project) const;
  // Writes the counts down. Call about once a second and at the end: a crash forgets what was
  // counted since. Cost: one transaction, when something changed.
  Status flush();

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using ByProject = std::unordered_map<std::string, Quota, TextHash, std::equal_to<>>;

  storage::SqlStore& sql_;
  Mutex refreshing_;  // One at a time, so that an older reading never replaces a newer one.
  Published<ByProject> published_;
  mutable Mutex mutex_;
  std::map<std::string, std::int64_t> stored_ FALAJ_GUARDED_BY(mutex_);
  std::set<std::string> unwritten_ FALAJ_GUARDED_BY(mutex_);
};

// The blob store's door: what does not fit is refused before it is durable, and nothing of it
// remains. What is removed is given back. `quotas` outlives the store.
std::unique_ptr<storage::BlobStore> count_blobs(std::unique_ptr<storage::BlobStore> inner,
                                                Quotas& quotas);

}  // namespace falaj::security
