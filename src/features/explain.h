// features/explain.h — where one value comes from: which row of which commit, and who brought it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/value.h"
#include "features/online.h"
#include "features/reach.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::features {

// The row that answers, and what is known about it.
struct Explanation {
  std::string view;
  std::int64_t generation = 0;  // Of the view's declaration when the row came.
  Timestamp at{};
  std::uint64_t candidates = 0;  // Rows of that key that arrived, whatever their time.
  FeatureStatus status = FeatureStatus::kNotFound;  // kPresent: a row answers.
  // The rest is of the row; nothing when the status is kNotFound.
  Value features;  // Name → value, as stored.
  Timestamp event{};
  std::optional<Timestamp> created;
  // Until it is too old; below 0 when it is, by 292 years at most. None: no ttl.
  std::optional<Duration> ttl_margin;
  std::uint64_t commit = 0;
  std::uint64_t row = 0;  // From 0, among the accepted rows of its commit.
  Reach reach = Reach::kBoth;
  BlobId segment;
  Timestamp committed_at{};
  // Of the audit entry that the commit left; 0 when there is none any more.
  std::int64_t audit_sequence = 0;
  std::string action;  // "features.ingest", "features.push"
  std::string actor;
  std::string file;  // What the sender called the file; "" for pushes and where nobody said.
  // The row in it, from 1, headers not counted. None where rows of the file were refused: how many
  // of them stood before this one is not kept.
  std::optional<std::uint64_t> file_row;
};
Value to_value(const Explanation& explanation);

// Neither: what is read online now. `at` alone: what a training row of that time gets, the
// point-in-time join's rule. Both: what was read online at that time, by a reply of that commit,
// which may be a row whose event was still to come.
struct ExplainAsk {
  std::optional<Timestamp> at;
  std::optional<std::uint64_t> commit;
};

class Explainer {
 public:
  Explainer(storage::SqlStore& sql, storage::BlobStore& blobs, const security::Audit& audit,
            const Clock& clock)
      : sql_(sql), blobs_(blobs), audit_(audit), clock_(clock) {}

  // FJ-2001 unknown view, FJ-3007 and FJ-1005 for the key.
  // Cost: opens every segment of the view, reads the blocks that hold the key, and the view's audit
  // entries back to that of the commit. Blocks.
  Result<Explanation> explain(const ProjectName& project, const std::string& view,
                              const EntityKeys& entity, const ExplainAsk& ask) const;

 private:
  storage::SqlStore& sql_;
  storage::BlobStore& blobs_;
  const security::Audit& audit_;
  const Clock& clock_;
};

}  // namespace falaj::features
