// features/profiles.h — what the rows of each ingest looked like.
//
// While a file is read, each feature is counted: values and nulls, least, most and mean, quantiles,
// how many different values, the most frequent ones. The profile is a blob of the view, sealed and
// destroyed with it, and belongs to the commit that brought the rows. Rows that are pushed are in
// none. A view keeps at most kProfilesKept: the newest one by one, older ones of the same
// declaration and zone merged with their neighbours.
//
// Values are data: of keys a profile has counts only; of personal features (`sensitivity` of a
// feature or a view, or an Entity with subject_keys) it has neither extremes nor frequent values,
// and quantiles only from the 5th to the 95th, of 100 values or more. Erasing a person destroys the
// profiles that the person's rows went into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/value.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::features {

inline constexpr std::size_t kProfilesKept = 64;

extern const storage::Migration kProfilesMigration;  // After kErasureMigration.

struct ProfileQuery {
  std::optional<std::uint64_t> commit{};  // The one that has this commit's rows.
  std::size_t most = 1;                   // Newest first.
};

// {view, profiles: [{commits: {first, last}, ingests, generation, at, rows, looked_at, event_time,
// keys, features}]}; docs/reference/profiles.md describes them. FJ-2001 for an unknown view,
// FJ-0004 when no profile has the commit. Cost: reads and decodes a blob for each.
Result<Value> read_profiles(storage::SqlStore& sql, const storage::BlobStore& blobs,
                            const ProjectName& project, const std::string& view,
                            const ProfileQuery& query);

}  // namespace falaj::features
