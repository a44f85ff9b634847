#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "security/certificates/internal/files.h"

namespace falaj::security {
namespace {

constexpr std::size_t kBytesMax = 64 << 10;

Error failed(std::string_view what, const std::string& path) {
  return Error(Code::kUnavailable,
               "cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Status make_private_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return failed("make the folder", folder);
}

Result<std::optional<std::string>> read_if_there(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0 && errno == ENOENT) return std::optional<std::string>();
  if (file.get() < 0) return failed("read", path);
  std::string text(kBytesMax, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read", path);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size == text.size()) {
    return Error(Code::kUnavailable, "'" + path + "' is over 64 KiB: it is not what we wrote");
  }
  text.resize(size);
  return std::optional<std::string>(std::move(text));
}

Status write_durably(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string temporary = path + ".new";
  ::unlink(temporary.c_str());  // What a killed process may have left.
  {
    const Descriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (file.get() < 0 || !write_all(file.get(), bytes) || ::fsync(file.get()) != 0) {
      return failed("write", temporary);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failed("write", path);
  const std::string folder = path.substr(0, path.rfind('/'));
  const Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0 || ::fsync(at.get()) != 0) return failed("make durable", path);
  return {};
}

}  // namespace falaj::security
