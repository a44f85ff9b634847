// security/certificates/internal/files.h — the two small files of the authority.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::security {

// Mode 0700, if it is missing. kUnavailable naming it.
Status make_private_folder(const std::string& folder);
// nullopt when there is no such file; kUnavailable when it cannot be read or is over 64 KiB.
Result<std::optional<std::string>> read_if_there(const std::string& path);
// Write, fsync, rename, fsync of the folder: there as a whole or not at all.
Status write_durably(const std::string& path, std::string_view bytes, mode_t mode);

}  // namespace falaj::security
