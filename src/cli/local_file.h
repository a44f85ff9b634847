// cli/local_file.h — files named on the command line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::cli {

// The whole text of a file, or of standard input for "-". FJ-1015 when it is missing, a folder or
// not readable; FJ-1009 when it is over `bytes_max`.
inline constexpr std::size_t kTextBytesMax = 8u << 20;
Result<std::string> read_text(const std::string& path, std::size_t bytes_max = kTextBytesMax);

// FJ-1015 unless `path` is a file that can be opened for reading; for files that are streamed.
Status check_readable(const std::string& path);

// Replaces the file as a whole, durably, readable by its owner only. FJ-1015 when it cannot.
Status write_private(const std::string& path, std::string_view text);

// A new file for its owner only; kInvalidArgument when it is there already or cannot be made.
Status write_new(const std::string& path, std::string_view bytes);

// The key in the file's first line (64 hexadecimal digits), which is made with a fresh one, for its
// owner only, when it is missing.
Result<std::string> take_key(const std::string& path);

}  // namespace falaj::cli
