#include "storage/internal/posix_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/check.h"
#include "base/log.h"

namespace falaj::storage {
namespace {

constexpr int kGraceMilliseconds = 500;

// The pid that a holder wrote into its lock file; 0 if there is none.
pid_t holder_of(int fd) {
  std::array<char, 64> buffer{};
  const ssize_t length = ::pread(fd, buffer.data(), buffer.size(), 0);
  pid_t pid = 0;
  if (length > 0) std::from_chars(buffer.data(), buffer.data() + length, pid);
  return pid;
}

bool is_alive(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno != ESRCH); }

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

bool means_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

Error file_error(int error, std::string_view what, std::string_view path) {
  std::string message = std::string(what) + " " + std::string(path) + ": " + ::strerror(error);
  if (means_full(error)) {
    return {ErrorId::kDataFolderFull, message + "; free some space and try again"};
  }
  if (error == EROFS || error == EACCES || error == EPERM) {
    return {ErrorId::kDataFolderReadOnly, message + "; make it writable for this user"};
  }
  if (error == EIO) {
    return {ErrorId::kDatabaseCorrupt, message + "; check the disk and restore from a backup"};
  }
  return {Code::kInternal, message};
}

void stop_unsynced(std::string_view path, std::string_view reason) {
  const std::string message = "cannot make " + std::string(path) + " durable (" +
                              std::string(reason) + "); stopping before anything is acknowledged";
  log::error("storage not durable", {{"path", path}, {"reason", reason}});
  check_failed(message.c_str(), __FILE__, __LINE__);
}

Status write_all(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return file_error(errno, "write", path);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::string> read_all(int fd, std::string_view path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return file_error(errno, "stat", path);
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (true) {
    if (filled == content.size()) content.resize(filled + 4096);  // It may have grown.
    const ssize_t got = ::read(fd, content.data() + filled, content.size() - filled);
    if (got < 0) {
      if (errno == EINTR) continue;
      return file_error(errno, "read", path);
    }
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

void sync_fd(int fd, std::string_view path, Durability durability) {
  if (durability == Durability::kNoSync) return;
  if (::fsync(fd) != 0) stop_unsynced(path, ::strerror(errno));
}

void sync_folder(const std::string& path, Durability durability) {
  if (durability == Durability::kNoSync) return;
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) stop_unsynced(path, ::strerror(errno));
  sync_fd(folder.get(), path, durability);
}

std::string parent_folder(const std::string& path) {
  std::string_view text = path;
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(text.substr(0, slash));
}

Status make_folder(const std::string& path, Durability durability) {
  if (path.empty()) return Error(Code::kInvalidArgument, "the name of a folder is empty");
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return {};
    return Error(Code::kFailedPrecondition, path + " is not a folder; choose another path");
  }
  if (errno != ENOENT) return file_error(errno, "stat", path);
  const std::string parent = parent_folder(path);
  FALAJ_TRY(make_folder(parent, durability));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return file_error(errno, "create folder", path);
  }
  sync_folder(parent, durability);
  return {};
}

Status replace_file(const std::string& path, std::string_view content, Durability durability) {
  const std::string staged = path + ".new";
  const Fd file(::open(staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return file_error(errno, "create", staged);
  FALAJ_TRY(write_all(file.get(), content, staged));
  sync_fd(file.get(), staged, durability);
  if (::rename(staged.c_str(), path.c_str()) != 0) return file_error(errno, "rename", staged);
  sync_folder(parent_folder(path), durability);
  return {};
}

Result<Fd> lock_file(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return file_error(errno, "open lock", path);
  for (int waited = 0; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return file_error(errno, "lock", path);
    const pid_t holder = holder_of(file.get());
    if (is_alive(holder) || waited >= kGraceMilliseconds) {
      const std::string name = holder > 0 ? " (process " + std::to_string(holder) + ")" : "";
      return Error(ErrorId::kDataFolderLocked, path + " is held by another process" + name +
                                                   "; stop that one or use another data folder");
    }
    // A server killed while it forked leaves a half-made child with its locks for a moment.
    ::poll(nullptr, 0, 5);
    waited += 5;
  }
  return file;
}

}  // namespace falaj::storage
