#include "cli/batch/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

namespace falaj::cli::batch {
namespace {

constexpr std::array<int, 3> kEnds{SIGINT, SIGTERM, SIGHUP};

// What the handler removes: plain memory, since it may run at any point of the program.
char g_part[PATH_MAX] = {};
std::array<struct sigaction, kEnds.size()> g_before{};

extern "C" void remove_part(int number) {
  ::unlink(g_part);
  // Once more, and as if nobody had looked: whoever started us sees how we ended.
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(number, &plain, nullptr);
  ::raise(number);
}

void watch(const std::string& part) {
  std::memcpy(g_part, part.c_str(), part.size() + 1);
  struct sigaction action {};
  action.sa_handler = remove_part;
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    ::sigaction(kEnds[i], nullptr, &g_before[i]);
    // Who started us without it (nohup) means that.
    if (g_before[i].sa_handler != SIG_IGN) ::sigaction(kEnds[i], &action, nullptr);
  }
}

void unwatch() {
  for (std::size_t i = 0; i < kEnds.size(); ++i) ::sigaction(kEnds[i], &g_before[i], nullptr);
}

Error cannot_write(const std::string& path, int error) {
  return Error{ErrorId::kFileUnreadable,
               "cannot write '" + path + "': " + std::generic_category().message(error)};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string part, Descriptor file)
    : path_(std::move(path)), part_(std::move(part)), file_(std::move(file)) {}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string& path) {
  struct stat found {};
  if (path.empty() || path.back() == '/' ||
      (::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode))) {
    return cannot_write(path, EISDIR);
  }
  const std::string folder = folder_of(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  std::string part = folder + "." + name + "." + std::to_string(::getpid()) + ".part";
  if (part.size() >= sizeof g_part) return cannot_write(path, ENAMETOOLONG);
  ::unlink(part.c_str());  // Of an older process of this number, which was killed.
  watch(part);
  Descriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) {
    const int error = errno;
    unwatch();
    return cannot_write(path, error);
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(part), std::move(file)));
}

OutputFile::~OutputFile() {
  if (!part_.empty()) ::unlink(part_.c_str());
  unwatch();
}

Status OutputFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return cannot_write(path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Status OutputFile::keep() {
  if (::fsync(file_.get()) != 0) return cannot_write(path_, errno);
  if (::rename(part_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  part_.clear();
  const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || ::fsync(folder.get()) != 0) return cannot_write(path_, errno);
  return {};
}

}  // namespace falaj::cli::batch
