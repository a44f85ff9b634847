// cli/code_capture.h — what the code of a command is, where it lies: for jobs/capture.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/value.h"

namespace falaj::cli {

enum class OutsideGit : std::uint8_t {
  kNothing,  // Only a folder that git knows is looked at.
  kFiles,    // Otherwise its files are hashed, at most 1000 and 1 GiB of them.
};

// {code{commit, files, diff, diff_sha256}, lock{file, sha256}} of a folder (a relative one begins
// here), as far as there are such. `files` has the hashes of what git says was changed or added
// since the commit. Null when there is nothing to say. Runs git, three times.
Value capture_folder(const std::string& folder, OutsideGit outside);

// What is kept with a job or a run, as it is asked for.
struct CaptureChoice {
  std::string code;         // Folder whose state is kept; "": this one, if git knows it.
  bool no_capture = false;  // Nothing of the code.
  std::optional<std::int64_t> seed;
  std::string data;  // TrainingSet whose fingerprint is kept.
};
// `capture` of a submission; null when there is nothing to say.
Value capture_of(const CaptureChoice& choice);

}  // namespace falaj::cli
