#include "cli/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/byte_stream.h"
#include "base/descriptor.h"
#include "crypto/random.h"

namespace falaj::cli {
namespace {

// Closes what it opened; standard input is lent.
class ReadHandle {
 public:
  explicit ReadHandle(const std::string& path)
      : fd_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~ReadHandle() {
    if (fd_ > STDIN_FILENO) close(fd_);
  }
  ReadHandle(const ReadHandle&) = delete;
  ReadHandle& operator=(const ReadHandle&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error unreadable(const std::string& path, int error) {
  return Error{ErrorId::kFileUnreadable,
               "cannot read '" + path + "': " + std::generic_category().message(error)};
}

Status check_open(const std::string& path, const ReadHandle& file) {
  if (file.fd() < 0) return unreadable(path, errno);
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return unreadable(path, errno);
  if (S_ISDIR(info.st_mode)) return unreadable(path, EISDIR);
  return {};
}

constexpr std::int64_t kKeyFileMax = 4096;

Error cannot_write(const std::string& path) {
  return Error{Code::kInvalidArgument, path + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::size_t bytes_max) {
  const ReadHandle file(path);
  FALAJ_TRY(check_open(path, file));
  std::string text;
  char buffer[65'536];
  for (;;) {
    const ssize_t got = read(file.fd(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > bytes_max) {
      return Error{ErrorId::kBodyTooLarge,
                   "'" + path + "' is over " + std::to_string(bytes_max >> 20) + " MiB; split it"};
    }
  }
}

Status write_private(const std::string& path, std::string_view text) {
  const auto unwritable = [&path](int error) {
    return Error{ErrorId::kFileUnreadable,
                 "cannot write '" + path + "': " + std::generic_category().message(error)};
  };
  const std::string temporary = path + ".new";
  unlink(temporary.c_str());  // What a killed command may have left.
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return unwritable(errno);
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
    if (put <= 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  unlink(temporary.c_str());
  return unwritable(error);
}

Status check_readable(const std::string& path) { return check_open(path, ReadHandle(path)); }

Status write_new(const std::string& path, std::string_view bytes) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return cannot_write(path);
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return cannot_write(path);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<std::string> take_key(const std::string& path) {
  const auto file = open_local_file(path);
  if (!file.ok() && file.error().code == Code::kNotFound) {
    std::string key = crypto::system_random().hex_id(crypto::kKeyBytes);
    FALAJ_TRY(write_new(path, key + "\n"));
    return key;
  }
  if (!file.ok()) return file.error();
  const std::string text = FALAJ_TRY(read_whole(**file, kKeyFileMax));
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace falaj::cli
