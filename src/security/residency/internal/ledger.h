// security/residency/internal/ledger.h — what passed since the last write, in memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "security/context.h"
#include "security/residency/residency.h"

namespace falaj::security::residency {

struct LedgerKey {
  std::int64_t day = 0;  // Since 1970.
  Exit exit = Exit::kWrite;
  std::string project;
  std::string from;
  std::string to;
  std::string transfer;
  auto operator<=>(const LedgerKey&) const = default;
};

struct FlowCounts {
  std::int64_t flows = 0;
  std::int64_t bytes = 0;
  std::int64_t refused = 0;
  bool operator==(const FlowCounts&) const = default;
};

// The sums of one row since they were last taken. Thread-safe; adding takes no lock.
class FlowCell {
 public:
  void add(const FlowCounts& more) {
    if (more.flows != 0) flows_.fetch_add(more.flows, std::memory_order_relaxed);
    if (more.bytes != 0) bytes_.fetch_add(more.bytes, std::memory_order_relaxed);
    if (more.refused != 0) refused_.fetch_add(more.refused, std::memory_order_relaxed);
  }
  FlowCounts take() {
    return {.flows = flows_.exchange(0, std::memory_order_relaxed),
            .bytes = bytes_.exchange(0, std::memory_order_relaxed),
            .refused = refused_.exchange(0, std::memory_order_relaxed)};
  }
  FlowCounts look() const {
    return {.flows = flows_.load(std::memory_order_relaxed),
            .bytes = bytes_.load(std::memory_order_relaxed),
            .refused = refused_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::int64_t> flows_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> refused_{0};
};

// Flows that are alike, waiting for their one audit entry.
struct Note {
  RequestContext context;  // Of the first of them.
  Flow flow;
  Decision decision;
  FlowCounts counts;
};

// Thread-safe; a few shards, so that prediction threads rarely meet.
class Ledger {
 public:
  // Where flows of this key are counted. It is kept for as long as somebody holds it.
  std::shared_ptr<FlowCell> cell(const LedgerKey& key);
  // Alike means the same caller, exit, zones, object and rule. Past 4096 different ones those of a
  // new kind are kept by project, exit, zones and transfer alone: a flood of refusals grows neither
  // memory nor log, and no use of a transfer is lost in it.
  void note(const RequestContext& context, const Flow& flow, const Decision& decision,
            const FlowCounts& counts);

  struct Taken {
    std::map<LedgerKey, FlowCounts> rows;
    std::vector<Note> notes;
  };
  Taken take();
  void put_back(Taken taken);
  std::map<LedgerKey, FlowCounts> waiting() const;

 private:
  static constexpr std::size_t kShards = 8;
  static constexpr std::size_t kNotesMax = 4096;
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::map<LedgerKey, std::shared_ptr<FlowCell>> rows FALAJ_GUARDED_BY(mutex);
  };

  std::array<Shard, kShards> shards_;
  Mutex notes_mutex_;
  std::map<std::string, Note> notes_ FALAJ_GUARDED_BY(notes_mutex_);
};

// One use of a transfer, on its way: tells the ledger when the last who holds it lets go, and one
// that lasts once a minute. Thread-safe.
class Crossing {
 public:
  // `use` counts what has no entry yet.
  Crossing(std::shared_ptr<Ledger> ledger, Note use, Timestamp now);
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;
  void add(std::int64_t bytes, Timestamp now);

 private:
  void tell() FALAJ_REQUIRES(mutex_);

  const std::shared_ptr<Ledger> ledger_;
  Mutex mutex_;
  Note use_ FALAJ_GUARDED_BY(mutex_);
  Timestamp told_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security::residency
