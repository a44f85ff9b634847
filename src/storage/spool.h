// storage/spool.h — room for large bodies while they come in.
#pragma once

#include <memory>
#include <string>

#include "base/byte_stream.h"

namespace falaj::storage {

// A file without a name in `folder` (made if missing): when the process ends, however it ends,
// nothing remains. The bytes lie as they come: see security/sealed for spools that seal. FJ-8003
// when there is no room. Thread-safe.
Result<std::unique_ptr<Spool>> make_file_spool(const std::string& folder);

}  // namespace falaj::storage
