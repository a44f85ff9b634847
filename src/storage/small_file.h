// storage/small_file.h — one small file that is always read and replaced as a whole: key files,
// certificates, tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::storage {

enum class ReadableBy : std::uint8_t { kOwner, kOthers };

struct SmallFile {
  std::string content;
  ReadableBy readable_by = ReadableBy::kOwner;  // Others: group or world may read or write it.
};

// kNotFound when absent; FJ-1015 when it cannot be read, is no regular file or has more than
// `bytes_max`.
Result<SmallFile> read_small_file(const std::string& path, std::size_t bytes_max = 1 << 20);

// Replaces or creates the file with mode 0600: a reader, also after a power loss, sees the old or
// the new content. Errors as open_sqlite; a failed fsync stops the process.
Status write_small_file(const std::string& path, std::string_view content);

// Deletes every trace of deleted rows from the files of the SQLite database at `path`: moves its
// log into the database, whose free space is zeroed, and empties the log. The database may be open
// in this process. kUnavailable when readers do not let go of the log.
Status purge_deleted(const std::string& path);

}  // namespace falaj::storage
