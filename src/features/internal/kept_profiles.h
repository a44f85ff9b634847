// features/internal/kept_profiles.h — which profiles of a view are kept, and which go together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "features/internal/segments.h"
#include "features/profiles.h"

namespace falaj::features {

// One profile, of the ingests among the commits first to last.
struct KeptProfile {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::int64_t generation = 0;  // Of the view's declaration.
  Zone zone;
  std::uint64_t ingests = 1;
  std::uint64_t rows = 0;
  BlobId blob;
  Timestamp at{};  // Of the last.
};

// In the transaction of the commit that brought its rows.
Status keep_profile(storage::SqlTransaction& tx, const ViewName& view, const KeptProfile& profile);
// Oldest first.
Result<std::vector<KeptProfile>> list_profiles(storage::SqlTransaction& tx, const ViewName& view);

// Which of `kept` (oldest first) is to be merged with the one after it: neighbours of one
// declaration and zone, not among the newest half, with the fewest ingests together, so that the
// past gets coarser the older it is. None when no two fit: then the oldest has to go.
std::optional<std::size_t> next_to_merge(const std::vector<KeptProfile>& kept);
// Merges until at most kProfilesKept are left. Nothing is lost when it is cut short. The caller
// holds the view's intake.
Status thin_profiles(storage::SqlStore& sql, storage::BlobStore& blobs, const ViewName& view);

// Those that have the commit's rows, or all of that zone, are gone once finish_erasures() ran
// (features/erasure.h). How many there were.
Result<std::uint64_t> forget_profiles_of(storage::SqlTransaction& tx, const ViewName& view,
                                         std::uint64_t commit);
Result<std::uint64_t> forget_profiles_in(storage::SqlTransaction& tx, const ViewName& view,
                                         const Zone& zone);

}  // namespace falaj::features
