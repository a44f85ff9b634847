// storage/internal/posix_file.h — files as the adapters need them: durable or loudly failed.
//
// A failed fsync is never retried: the kernel may already have dropped the dirty pages, so a second
// call would succeed without the data. The process stops instead, before it acknowledges anything.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "storage/open.h"

namespace falaj::storage {

// Owns a file descriptor; closes it when dropped.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor away: somebody else closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// `error` is an errno. Read-only → FJ-8002, full → FJ-8003, EIO → FJ-8005, otherwise kInternal.
Error file_error(int error, std::string_view what, std::string_view path);

// True for the errnos that mean "no room": disk, quota or file size limit.
bool means_full(int error);

// Ends the process: what could not be made durable, and why.
[[noreturn]] void stop_unsynced(std::string_view path, std::string_view reason);

Status write_all(int fd, std::string_view bytes, std::string_view path);
// The whole file from its current offset.
Result<std::string> read_all(int fd, std::string_view path);

// fsync of a file or of an open folder. Stops the process when it fails.
void sync_fd(int fd, std::string_view path, Durability durability);
void sync_folder(const std::string& path, Durability durability);

// Makes the folder and its missing parents, each made durable in its own parent.
Status make_folder(const std::string& path, Durability durability);

// write → fsync → rename → fsync of the folder: a reader sees the old or the new content.
Status replace_file(const std::string& path, std::string_view content, Durability durability);

// Creates `path` if needed and holds it exclusively until the Fd is dropped or the process ends.
// FJ-8001 when another open file holds it, naming the pid found inside: at once when that process
// lives, else after half a second, for children of a killed process let go a moment after it.
Result<Fd> lock_file(const std::string& path);

std::string parent_folder(const std::string& path);

}  // namespace falaj::storage
