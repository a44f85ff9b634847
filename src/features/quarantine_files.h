// features/quarantine_files.h — reading back what an ingest refused.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "storage/blob.h"
#include "storage/sql.h"

namespace falaj::features {

// The quarantine `id` of an ingest of `project`, as CSV: line, reason, raw. FJ-0004 unless an
// ingest of that very project recorded it: no other content of the store can be read this way.
// Cost: the file, in memory.
Result<std::string> read_quarantine(storage::SqlStore& sql, const storage::BlobStore& blobs,
                                    const ProjectName& project, const BlobId& id);

// The FeatureView whose ingest made that quarantine; fails as read_quarantine() does.
Result<std::string> view_of_quarantine(storage::SqlStore& sql, const ProjectName& project,
                                       const BlobId& id);

}  // namespace falaj::features
