// serving/rollout/recordings.h — a sample of a deployment's requests, kept to be asked again before
// a candidate meets anybody (replay.h).
//
// What people asked is about people: it lies sealed under the keys of Deployment/<name> in the
// project and the zone of what answered, for a bounded time and in a bounded number. Who was erased
// cannot be told from tensors, so an erasure in the project takes all of its recordings.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "exec/queue.h"
#include "serving/rollout/split.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::serving::rollout {

struct Recorded {
  Timestamp at{};
  Asked asked;
};

// record: {share: 1%, requests: 1000, age: 7d} of a Deployment.
struct RecordRule {
  double share = 0;              // Of requests; 0: none is recorded.
  std::int64_t requests = 1000;  // The newest so many are kept, and up to 63 more.
  Duration age = Duration::days(7);
  bool operator==(const RecordRule&) const = default;
};
inline constexpr std::int64_t kRecordedMax = 10'000;
// Of a deployment, on disk: the oldest go first.
inline constexpr std::int64_t kRecordedBytesMax = std::int64_t{64} << 20;

// Takes the sample of one deployment. Thread-safe; costs a request that is not drawn one counter.
class Recorder {
 public:
  struct Whose {
    std::string project;
    std::string deployment;
    std::string zone;  // Of the model that answers.
    auto operator<=>(const Whose&) const = default;
  };
  Recorder(Whose whose, const RecordRule& rule, const Clock& clock);

  // Copies the request if it is drawn, small enough to be mirrored (split.h) and the queue has
  // room. Never blocks on disk.
  void offer(std::span<const EntityKeys> entities);
  void offer(std::span<const Tensor> inputs);

  const Whose& whose() const { return whose_; }
  const RecordRule& rule() const { return rule_; }

 private:
  friend class Recordings;
  bool is_drawn();

  const Whose whose_;
  const RecordRule rule_;
  const Clock& clock_;
  std::atomic<std::uint64_t> asked_{0};
  Timestamp kept_at_;  // Of Recordings alone, under its lock: when it looked last.
  exec::BoundedQueue<Recorded> waiting_{1024};
};

extern const storage::Migration kRecordingsMigration;

// All that is recorded. Thread-safe; but for recorder(), calls block on disk.
class Recordings {
 public:
  // They outlive this.
  Recordings(storage::SqlStore& sql, storage::BlobStore& blobs, const Clock& clock);

  // Null when the rule says none; the same one while nothing changes. Versions of other zones have
  // one of their own.
  std::shared_ptr<Recorder> recorder(const Recorder::Whose& whose, const RecordRule& rule);

  // Keeps what was drawn, and removes what is too old, too many, or of a deployment that records no
  // more. Call every second.
  Status tick();
  // Oldest first; what waits is kept first.
  Result<std::vector<Recorded>> read(const std::string& project, const std::string& deployment);
  // How many are kept.
  Result<std::int64_t> count(const std::string& project, const std::string& deployment) const;
  // Everything of the project, and what waits; gone from the store when it returns.
  Status erase(const ProjectName& project);
  // How often erase() was called: who holds what read() gave looks whether it still may.
  std::uint64_t erasures() const { return erasures_.load(); }

 private:
  using Key = std::pair<std::string, std::string>;  // Project, deployment.
  struct Segment;

  Status keep_waiting(Recorder& recorder) FALAJ_REQUIRES(keeping_);
  Status keep_due(Recorder& recorder) FALAJ_REQUIRES(keeping_);
  Status drop_strays(const Recorder::Whose& whose) FALAJ_REQUIRES(keeping_);
  Status drop_surplus(const Key& key, const RecordRule& rule) FALAJ_REQUIRES(keeping_);
  Status drop(const Segment& segment) FALAJ_REQUIRES(keeping_);
  Result<std::vector<Segment>> segments(const Key& key) const;
  std::vector<std::shared_ptr<Recorder>> recorders(const Key& key) const;
  // Whose recordings of the project there may be.
  Result<std::vector<Recorder::Whose>> owners(const std::string& project) const;

  storage::SqlStore& sql_;
  storage::BlobStore& blobs_;
  const Clock& clock_;
  std::atomic<std::uint64_t> erasures_{0};
  Mutex keeping_;  // One writer at a time: what is erased is not written meanwhile.
  std::set<Recorder::Whose> cleaned_ FALAJ_GUARDED_BY(keeping_);
  mutable Mutex mutex_;  // Held for a look only.
  std::map<Recorder::Whose, std::shared_ptr<Recorder>> recorders_ FALAJ_GUARDED_BY(mutex_);
};

// As it lies in a segment. decode: FJ-8006 for what encode did not write.
std::string encode_recorded(const std::vector<Recorded>& requests);
Result<std::vector<Recorded>> decode_recorded(std::string_view bytes);

}  // namespace falaj::serving::rollout
