// The data folder belongs to one process, and its format to a known version of the program.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <string>

#include "storage/internal/posix_file.h"
#include "storage/open.h"

namespace falaj::storage {
namespace {

constexpr int kFormatVersion = 1;  // Raised when an older program could not read the folder.
constexpr std::string_view kVersionPrefix = "falaj-data ";

class HeldFolder final : public FolderLock {
 public:
  explicit HeldFolder(Fd file) : file_(std::move(file)) {}

 private:
  Fd file_;
};

Error version_unreadable(const std::string& path) {
  return {ErrorId::kDatabaseCorrupt,
          path +
              " does not say \"falaj-data N\"; this is no Falaj data folder or it is damaged: "
              "choose another folder or restore a backup"};
}

// -1 for a folder without a version file (a fresh one).
Result<int> read_version(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return -1;
    return file_error(errno, "open", path);
  }
  const std::string content = FALAJ_TRY(read_all(file.get(), path));
  std::string_view text = content;
  if (!text.starts_with(kVersionPrefix)) return version_unreadable(path);
  text.remove_prefix(kVersionPrefix.size());
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || version < 1 || std::string_view(end, 1) != "\n") {
    return version_unreadable(path);
  }
  return version;
}

Status check_version(const std::string& folder) {
  const std::string path = folder + "/version";
  const int version = FALAJ_TRY(read_version(path));
  if (version < 0) {
    return replace_file(path, std::string(kVersionPrefix) + std::to_string(kFormatVersion) + "\n",
                        Durability::kSync);
  }
  if (version > kFormatVersion) {
    return Error(ErrorId::kDataFolderNewer,
                 folder + " has format " + std::to_string(version) + ", this program reads up to " +
                     std::to_string(kFormatVersion) +
                     "; start the newer program or choose another folder");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FolderLock>> FolderLock::acquire(const std::string& folder) {
  FALAJ_TRY(make_folder(folder, Durability::kSync));
  const std::string path = folder + "/falaj.lock";
  Fd file = FALAJ_TRY(lock_file(path));
  FALAJ_TRY(check_version(folder));
  // The pid only helps a person; the lock itself is what counts, so no fsync.
  if (::ftruncate(file.get(), 0) != 0) return file_error(errno, "truncate", path);
  FALAJ_TRY(write_all(file.get(), std::to_string(::getpid()) + "\n", path));
  return std::unique_ptr<FolderLock>(std::make_unique<HeldFolder>(std::move(file)));
}

}  // namespace falaj::storage
