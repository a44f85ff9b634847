// app/restore_drill.h — does a copy of this server's metadata come back whole? Tried, not assumed.
#pragma once

#include <string>

#include "app/wiring.h"

namespace falaj::app {

// Copies the metadata store's files as they lie on disk, while nothing is written, into a folder of
// its own, opens the copy there with the same keys, recomputes its audit log and counts its rows,
// and compares with the live store at the moment of the copy. The copy is removed again. Returns a
// JSON report; an error when the copy differs or does not open. Writers wait for the copy.
Result<std::string> restore_drill(const std::string& data_folder, Storage& storage,
                                  const Clock& clock);

}  // namespace falaj::app
