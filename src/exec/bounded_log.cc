#include "exec/bounded_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace falaj::exec {
namespace {

constexpr std::int64_t kBytesLeast = 4096;

std::string tail_path(const std::string& path) { return path + ".tail"; }
std::string old_path(const std::string& path) { return path + ".tail.old"; }

Descriptor open_append(const std::string& path, int flags = 0) {
  return Descriptor(
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | flags, 0640));
}

std::int64_t size_of(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? std::int64_t{info.st_size} : 0;
}

// How many of the bytes the disk took.
std::int64_t append(int file, std::string_view bytes) {
  std::size_t done = 0;
  while (file >= 0 && done < bytes.size()) {
    const ssize_t wrote = ::write(file, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  return static_cast<std::int64_t>(done);
}

// Appends that file's bytes and removes it. How many could not be appended.
std::int64_t move_behind(int to, const std::string& from) {
  const Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::int64_t lost = 0;
  char bytes[64 * 1024];
  while (file.valid()) {
    const ssize_t got = ::read(file.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    lost += got - append(to, {bytes, static_cast<std::size_t>(got)});
  }
  ::unlink(from.c_str());
  return lost;
}

}  // namespace

Result<BoundedLog> BoundedLog::open(const std::string& path, std::int64_t bytes_max) {
  BoundedLog log;
  log.path_ = path;
  const std::string folder = path.substr(0, path.rfind('/'));
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0;
  if (there) log.head_ = open_append(path);
  if (there ? !log.head_.valid() : ::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Error(Code::kUnavailable, "open the log " + path + ": " + std::strerror(errno));
  }
  const std::int64_t max = std::max(bytes_max, kBytesLeast);
  log.head_left_ = std::max<std::int64_t>(max / 2 - size_of(log.head_.get()), 0);
  log.tail_max_ = max / 4;
  return log;
}

void BoundedLog::write(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!head_.valid()) head_ = open_append(path_);
  if (head_left_ > 0) {
    const auto taken =
        static_cast<std::size_t>(std::min(head_left_, static_cast<std::int64_t>(bytes.size())));
    dropped_ += static_cast<std::int64_t>(taken) - append(head_.get(), bytes.substr(0, taken));
    head_left_ -= static_cast<std::int64_t>(taken);
    bytes.remove_prefix(taken);
  }
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, static_cast<std::size_t>(tail_max_ - tail_bytes_));
    write_tail(part);
    bytes.remove_prefix(part.size());
  }
}

void BoundedLog::write_tail(std::string_view bytes) {
  if (!tail_.valid()) tail_ = open_append(tail_path(path_), O_TRUNC);
  const std::int64_t taken = append(tail_.get(), bytes);
  dropped_ += static_cast<std::int64_t>(bytes.size()) - taken;
  // Bytes that were refused count too: a full disk must not keep the older file for ever.
  tail_bytes_ += static_cast<std::int64_t>(bytes.size());
  if (tail_bytes_ < tail_max_) return;
  const std::int64_t kept = tail_.valid() ? size_of(tail_.get()) : 0;
  dropped_ += old_bytes_;
  old_bytes_ = kept;
  tail_bytes_ = 0;
  tail_.reset();
  ::rename(tail_path(path_).c_str(), old_path(path_).c_str());
}

std::int64_t BoundedLog::bytes_cut() const { return dropped_; }

std::int64_t BoundedLog::finish() {
  tail_.reset();
  if (!head_.valid() && dropped_ == 0) return 0;  // Nothing was printed.
  if (dropped_ > 0) {
    append(head_.get(), "\n[" + std::to_string(dropped_) + " bytes of this log were left out]\n");
  }
  dropped_ += move_behind(head_.get(), old_path(path_));
  dropped_ += move_behind(head_.get(), tail_path(path_));
  head_.reset();
  return dropped_;
}

void finish_abandoned_log(const std::string& path) {
  struct stat info {};
  if (::lstat(tail_path(path).c_str(), &info) != 0 && ::lstat(old_path(path).c_str(), &info) != 0) {
    return;
  }
  const Descriptor head = open_append(path);
  if (!head.valid()) return;
  append(head.get(), "\n[an unknown number of bytes of this log may have been left out]\n");
  move_behind(head.get(), old_path(path));
  move_behind(head.get(), tail_path(path));
}

}  // namespace falaj::exec
