#include "cli/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/json.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Error file_error(const std::string& what, const std::string& path) {
  return {Code::kFailedPrecondition, what + " '" + path + "': " + std::strerror(errno)};
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Servers by address; an empty object when there is no file.
Result<Value> read_all(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Value::object();
    return file_error("cannot open", path);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error("cannot look at", path);
  if ((info.st_mode & 077) != 0) {
    return Error{Code::kPermissionDenied,
                 "'" + path +
                     "' holds tokens and others may read it; run chmod 600 on it, and "
                     "revoke what was in it (falaj tokens)"};
  }
  std::string text;
  std::string buffer(16 << 10, '\0');
  for (ssize_t count = 1; count > 0 && text.size() <= kFileBytesMax;) {
    count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0) return file_error("cannot read", path);
    text.append(buffer, 0, static_cast<std::size_t>(count));
  }
  Value all = FALAJ_TRY(parse_json(text, {.bytes_max = kFileBytesMax}));
  if (!all.is_object()) return Error{ErrorId::kMalformedJson, "'" + path + "' is no JSON object"};
  return all;
}

Status make_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  for (std::size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    const std::string part = folder.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return file_error("cannot make the folder", part);
    }
    if (at == std::string::npos) return {};
  }
}

Status write_all(const std::string& path, const Value& all) {
  FALAJ_TRY(make_folder(path));
  const std::string fresh = path + "." + std::to_string(::getpid());
  const File file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) return file_error("cannot write", fresh);
  const std::string text = to_pretty_json(all) + "\n";
  const bool written =
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
  if (written) return {};
  const Error failed = file_error("cannot write", path);
  ::unlink(fresh.c_str());
  return failed;
}

}  // namespace

std::string credentials_path() {
  const std::string config = variable("XDG_CONFIG_HOME");
  if (config.starts_with('/')) return config + "/falaj/credentials.json";
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.config/falaj/credentials.json" : "";
}

Result<StoredLogin> find_login(const std::string& path, const std::string& server) {
  if (path.empty()) return StoredLogin{};
  const Value all = FALAJ_TRY(read_all(path));
  const Value& one = all[server];
  return StoredLogin{one.text("token"), one.text("ca")};
}

Status keep_login(const std::string& path, const std::string& server, const StoredLogin& login) {
  if (path.empty()) {
    return Error{
        Code::kFailedPrecondition,
        "there is no place for the token: set HOME or XDG_CONFIG_HOME, or use FALAJ_TOKEN"};
  }
  Value all = FALAJ_TRY(read_all(path));
  if (login.token.empty()) {
    all.as_object().erase(server);
  } else {
    Value one;
    one["token"] = login.token;
    if (!login.authority.empty()) one["ca"] = login.authority;
    all[server] = std::move(one);
  }
  return write_all(path, all);
}

}  // namespace falaj::cli
