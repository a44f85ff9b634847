// features/internal/file_errors.h — failures of files, told to callers who did not name them.
#pragma once

#include <string_view>

#include "base/result.h"

namespace falaj::features {

// The same failure with "the file" wherever it says `path`: uploads and blobs have paths of the
// server's own, which say nothing to a caller and are none of his business.
Error without_path(Error error, std::string_view path);

}  // namespace falaj::features
