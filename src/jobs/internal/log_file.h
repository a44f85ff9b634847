// jobs/internal/log_file.h — reading the log of an attempt while it grows.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/internal/job_store.h"

namespace falaj::jobs::internal {

// At most 64 KiB from `offset`, as they are; "" when there is no such file, or nothing more.
std::string log_bytes(const std::string& path, std::int64_t offset);
// The last 64 KiB, whole lines, as valid UTF-8.
JobStore::Log log_end(const std::string& path);

}  // namespace falaj::jobs::internal
