// app/secret_file.h — passphrases, PINs and passwords that settings name by a file.
#pragma once

#include <string>

#include "base/result.h"
#include "crypto/secret.h"

namespace falaj::app {

// The first line of a file that only its owner may read. `id` with the setting's name, and what to
// do, when it is missing, empty, too long or readable by others.
Result<crypto::SecretBytes> read_secret(const std::string& setting, const std::string& path,
                                        ErrorId id);

}  // namespace falaj::app
