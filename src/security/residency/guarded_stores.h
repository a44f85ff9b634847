// security/residency/guarded_stores.h — the exits at the stores' own doors.
//
// Whatever a module does, its bytes pass here: written (write), handed to another process
// (schedule), read into this one (replicate: a model, a reference, the online index). The owner
// says whose they are and which zone they carry; the ledger counts them as they lie before sealing.
#pragma once

#include <memory>

#include "security/residency/exits.h"
#include "storage/blob.h"
#include "storage/kv.h"

namespace falaj::security::residency {

// `exits` outlives the store. FJ-7030, 7031 and 7032 beside the inner store's own errors; a refused
// call has not touched the inner store.
std::unique_ptr<storage::BlobStore> guard_blobs(std::unique_ptr<storage::BlobStore> inner,
                                                Exits& exits);
// `place`: where the rows lie; unlabelled for this machine. Rows that lie elsewhere pass the write
// exit on their way there, and the replicate exit when they are read into this machine.
std::unique_ptr<storage::KvStore> guard_kv(std::unique_ptr<storage::KvStore> inner, Exits& exits,
                                           Zone place = Zone());

}  // namespace falaj::security::residency
