// cli/code_capture.h — what the code of a command is, where it lies: for jobs/capture.h.
#pragma once

#include <string>

#include "base/value.h"

namespace falaj::cli {

enum class OutsideGit : std::uint8_t {
  kNothing,  // Only a folder that git knows is looked at.
  kFiles,    // Otherwise its files are hashed, at most 1000 and 1 GiB of them.
};

// {code{commit, files, diff, diff_sha256}, lock{file, sha256}} of a folder, as far as there are
// such. `files` has the hashes of what git says was changed or added since the commit. Null when
// there is nothing to say. Runs git, three times.
Value capture_folder(const std::string& folder, OutsideGit outside);

}  // namespace falaj::cli
