// features/export_set.h — a frozen training set on its way out of the server.
#pragma once

#include <string>

#include "features/training_sets.h"
#include "security/audit.h"
#include "security/context.h"
#include "storage/blob.h"

namespace falaj::features {

struct ExportRequest {
  std::string name;
  std::string id;   // Of the manifest; "" takes the newest.
  std::string key;  // 16, 24 or 32 bytes; never kept.
};
struct ExportedSet {
  Manifest manifest;
  std::string parquet;  // Encrypted with the key; its AAD prefix is the manifest's id.
};

// Parquet with modular encryption (table/encrypted_parquet.h). Audited before anything is handed
// out ("data.export"). FJ-2001 when it was never frozen, FJ-1005 for a key of another length. Cost:
// the set in memory, twice.
Result<ExportedSet> export_set(const TrainingSets& sets, const storage::BlobStore& blobs,
                               security::Audit& audit, const security::RequestContext& context,
                               const ExportRequest& request);

}  // namespace falaj::features
