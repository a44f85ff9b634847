// features/parity.h — what was read online, asked again of the offline join.
//
// One of so many online replies is kept as a sample. A tick asks the point-in-time join the same:
// the same key, at the same time, known at the commit that the reply named. What it finds must be
// what was answered, bit by bit. A sample that differs is asked a second time at the next tick: an
// erasure under way takes rows from one side before the other. What still differs is counted, noted
// in the audit log and logged, by view, feature and commit: never with a key or a value.
//
// Not compared: rows whose event is ahead of the server's clock, which are online at once and in
// the join when their time comes; windows that would have to know events that were let go
// (events_max); views that were declared anew or erased from meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "features/online.h"
#include "security/audit.h"
#include "storage/blob.h"
#include "storage/sql.h"
#include "telemetry/metrics.h"

namespace falaj::features {

// One row of a reply.
struct ParitySample {
  OnlinePlan plan;  // Without computed features: what was read, not what was made of it.
  std::vector<KeyPart> keys;
  OnlineAsk ask;
  std::uint64_t commit = 0;
  std::vector<FeatureStatus> statuses;  // Of each column, like the next three.
  std::vector<std::uint64_t> words;
  std::vector<std::string> texts;
  std::vector<bool> skipped;  // Not to be compared.
  int asked = 0;              // How often the join was asked.
};

// Samples that wait for the tick; in memory only. Thread-safe.
class ParitySamples {
 public:
  // Past so many, new ones are left out.
  static constexpr std::size_t kMax = 256;

  // One reply of `every` of each thread; 0: none.
  explicit ParitySamples(std::int64_t every) : every_(every) {}

  // Whether this reply is one. A few nanoseconds.
  bool due() const;
  // Row `row` of the answer to `keys`.
  void take(const OnlinePlan& plan, std::span<const KeyPart> keys, const OnlineAsk& ask,
            const OnlineAnswer& answer, std::size_t row);
  // Forgets what was taken of a view: some of its rows are being erased.
  void forget(const std::string& project, const std::string& view);

  // All of them, and how often something was forgotten until now.
  std::pair<std::vector<ParitySample>, std::uint64_t> all();
  // Again at the next tick; left out when something was forgotten since.
  void put_back(ParitySample sample, std::uint64_t forgotten);

 private:
  const std::int64_t every_;
  Mutex mutex_;
  std::vector<ParitySample> waiting_ FALAJ_GUARDED_BY(mutex_);
  std::uint64_t forgotten_ FALAJ_GUARDED_BY(mutex_) = 0;
};

struct ParityServices {
  storage::SqlStore& sql;
  const storage::BlobStore& blobs;
  security::Audit& audit;
  telemetry::Metrics& metrics;
  const Clock& clock;
};

// One thread.
class Parity {
 public:
  // An alarm of a view is not repeated within this time.
  static constexpr Duration kQuiet = Duration::hours(1);

  // `samples` outlives it.
  Parity(const ParityServices& services, ParitySamples& samples);
  // Asks for every sample that waits. Cost: opens the segments of their views.
  Status tick();

 private:
  struct Compared;
  Status check(ParitySample sample, std::uint64_t forgotten);
  Result<Compared> compare(const ParitySample& sample);
  Status raise(const std::string& project, const Compared& compared, std::uint64_t commit);
  Result<JoinView> view_of(const ParitySample& sample, const OnlinePlan::View& view,
                           std::size_t column);

  ParityServices services_;
  ParitySamples& samples_;
  // By project, view and blob, in one tick.
  std::map<std::string, std::shared_ptr<const SegmentFile>> opened_;
  std::map<std::pair<std::string, std::string>, Timestamp> raised_;
};

}  // namespace falaj::features
