// features/internal/erasing.h — takes a subject's rows out of one view. The caller holds the view's
// turn, so that no ingest runs beside it.
#pragma once

#include "features/erasure.h"
#include "features/internal/segments.h"
#include "features/online.h"

namespace falaj::features {

struct ErasingStores {
  storage::SqlStore& sql;
  storage::BlobStore& blobs;
  Online& online;
  security::Audit& audit;
};

// New segments durable → gone online → one transaction: the view's segments, its quarantines, the
// audit entry and the list of old blobs → old blobs destroyed.
Result<ErasedView> erase_from_view(const ErasingStores& stores,
                                   const security::RequestContext& context,
                                   const ViewDefinition& definition, const Subject& subject);

// All of a view whose keys were destroyed: its rows in memory and online, its segments and
// quarantines. Needs neither keys nor definition; safe to repeat.
Status forget_view(const ErasingStores& stores, const std::string& project, const std::string& view,
                   const Zone& zone);

}  // namespace falaj::features
