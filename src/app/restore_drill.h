// app/restore_drill.h — does a copy of this server's data folder come back whole? Tried, not
// assumed.
#pragma once

#include <string>

#include "app/wiring.h"

namespace falaj::app {

// Copies every store as it lies on disk into a folder of its own beside them, opens the copy there
// as a start would, and looks at all of it: the vault and the key tree; the metadata, whose audit
// log is recomputed and held against the live one and against the last head that the copied signer
// signed; every online row; every blob, by its hash and through its key; the newest version of
// every model, by its signature. Blobs and online rows are copied by links, the rest by bytes; of
// the blobs as many are read as fit into one GiB, in the order of their hashes, and the report says
// how many. The copy is removed again. Returns a JSON report; an error when something differs or
// does not open. Writers of metadata wait while its two files are copied.
Result<std::string> restore_drill(const Options& options, Storage& storage,
                                  const crypto::NoteKey& log_key, const Clock& clock);

}  // namespace falaj::app
