// What jobs print, while they run and after.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptor.h"
#include "jobs/exit_error.h"
#include "jobs/internal/local_queue.h"
#include "jobs/internal/log_file.h"

namespace falaj::jobs::internal {
namespace {

constexpr std::int64_t kShown = 64 * 1024;

std::int64_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::int64_t{info.st_size} : 0;
}

// From `offset` of what was kept, or all of it; what came before is gone.
void take_stored(const JobStore::Log& log, LogPart& part) {
  const auto kept = static_cast<std::int64_t>(log.text.size());
  const std::int64_t from = std::clamp<std::int64_t>(part.offset - log.offset, 0, kept);
  part.text = log.text.substr(static_cast<std::size_t>(from));
  part.offset = log.offset + from;
  part.next = log.offset + kept;
}

// Whole lines, as long as more may come.
void take_running(std::string bytes, LogPart& part) {
  const std::size_t line = bytes.rfind('\n');
  const bool long_line = line == std::string::npos && bytes.size() >= std::size_t{kShown};
  if (!long_line) bytes.resize(line == std::string::npos ? 0 : line + 1);
  part.next = part.offset + static_cast<std::int64_t>(bytes.size());
  part.text = last_bytes(bytes, bytes.size() + 1);
}

}  // namespace

std::string log_bytes(const std::string& path, std::int64_t offset) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string out;
  if (!file.valid()) return out;
  out.resize(std::size_t{kShown});
  std::size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = ::pread(file.get(), out.data() + filled, out.size() - filled,
                                offset + static_cast<std::int64_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  out.resize(filled);
  return out;
}

JobStore::Log log_end(const std::string& path) {
  const std::int64_t size = size_of(path);
  const std::string bytes = log_bytes(path, std::max<std::int64_t>(0, size - kShown));
  JobStore::Log log;
  log.text = size > kShown ? last_bytes(bytes, bytes.size()) : last_bytes(bytes, bytes.size() + 1);
  log.offset = size - static_cast<std::int64_t>(log.text.size());
  return log;
}

Result<LogPart> LocalQueue::log_from(const JobId& id, int attempt, std::int64_t offset) const {
  const Job job = FALAJ_TRY(store_.get(id));
  LogPart part;
  part.attempt = job.epoch;
  part.status = job.status;
  const bool tail = offset < 0;
  part.offset = attempt == job.epoch && !tail ? offset : 0;
  if (job.status == JobStatus::kRunning && job.spec.type == kCommandType) {
    const std::string path = attempt_files(options_.work_folder, {id, job.epoch}).log;
    if (tail) {
      const JobStore::Log log = log_end(path);
      part.offset = std::max<std::int64_t>(0, log.offset);
      part.text = log.text;
      part.next = part.offset + static_cast<std::int64_t>(log.text.size());
      return part;
    }
    take_running(log_bytes(path, part.offset), part);
    return part;
  }
  {
    MutexLock lock(mutex_);
    const auto running = running_.find(id);
    if (running != running_.end() && running->second.child != nullptr) {
      const std::string printed = running->second.child->output();
      if (tail) {
        part.text = last_bytes(printed, std::size_t{kShown});
        return part;
      }
      // Where its beginning was dropped already, places are not known: all follows at the end.
      if (printed.size() < std::size_t{kShown} &&
          static_cast<std::int64_t>(printed.size()) > part.offset) {
        take_running(printed.substr(static_cast<std::size_t>(part.offset)), part);
      } else {
        part.next = part.offset;
      }
      return part;
    }
  }
  const JobStore::Log log = FALAJ_TRY(store_.log(id));
  if (job.status == JobStatus::kQueued && !tail) {
    part.next = part.offset;
    return part;  // What an earlier attempt printed is no part of the next one's log.
  }
  take_stored(log, part);
  return part;
}

}  // namespace falaj::jobs::internal
