#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <utility>

#include "storage/internal/posix_file.h"
#include "storage/spool.h"

namespace falaj::storage {
namespace {

class FileSpool final : public Spool {
 public:
  FileSpool(Descriptor file, std::string folder)
      : file_(std::move(file)), folder_(std::move(folder)) {}

  Status append(std::string_view bytes) override { return write_all(file_.get(), bytes, folder_); }
  Result<std::shared_ptr<const ByteReader>> finish() override {
    std::unique_ptr<ByteReader> reader = FALAJ_TRY(open_descriptor(std::move(file_)));
    return std::shared_ptr<const ByteReader>(std::move(reader));
  }

 private:
  Descriptor file_;
  const std::string folder_;
};

// For file systems that cannot make a file without a name: named for a moment only.
Descriptor unlinked_file(const std::string& folder) {
  std::string path = folder + "/spool-XXXXXX";
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.valid()) ::unlink(path.c_str());
  return file;
}

}  // namespace

Result<std::unique_ptr<Spool>> make_file_spool(const std::string& folder) {
  FALAJ_TRY(make_folder(folder, Durability::kNoSync));
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) file = unlinked_file(folder);
  if (!file.valid()) return file_error(errno, "make a file in", folder);
  return std::unique_ptr<Spool>(std::make_unique<FileSpool>(std::move(file), folder));
}

}  // namespace falaj::storage
