// Blobs as files: blobs/<owner>/<id> under one folder, staging/ beside them. The owner's shelf is
// named by a hash, so that a listing of the folder tells no names.
//
// Every name is resolved by openat2 beneath the store's folder without following links, so neither
// a planted link nor a damaged name leads outside. A blob appears by write → fsync → rename → fsync
// of its folder: whoever sees the name sees the whole content.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/mutex.h"
#include "storage/internal/posix_file.h"
#include "storage/open.h"
#include "storage/paired_writer.h"

namespace falaj::storage {
namespace {

constexpr std::size_t kHashDigits = 64;
constexpr std::size_t kShelfDigits = 32;
constexpr std::size_t kReadBytes = 256u << 10;

// The descriptor, or -1 with errno, as open(2). `mode` only counts with O_CREAT.
Fd open_beneath(int folder, const std::string& name, int flags, mode_t mode = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return Fd(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof(how))));
}

bool is_hex(std::string_view text) {
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

Status check_id(const BlobId& id) {
  if (id.str().size() == kHashDigits && is_hex(id.str())) return {};
  return Error(Code::kInvalidArgument, "\"" + id.str().substr(0, 80) +
                                           "\" is no blob id: 64 lower-case hexadecimal digits");
}

std::string shelf_of(const Owner& owner) { return hash_of(owner).hex().substr(0, kShelfDigits); }

std::string blob_name(const Owner& owner, const BlobId& id) {
  return shelf_of(owner) + "/" + id.str();
}

Error not_found(const BlobId& id) { return {Code::kNotFound, "there is no blob " + id.str()}; }

Error corrupt(const BlobId& id) {
  return {ErrorId::kBlobCorrupt, "the content of blob " + id.str() +
                                     " does not match its hash; restore it from a backup or make "
                                     "it again"};
}

Result<Sha256> hash_file(int fd, std::string_view path) {
  Sha256Hasher hasher;
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  for (std::int64_t offset = 0;;) {
    const ssize_t got = ::pread(fd, buffer->data(), buffer->size(), offset);
    if (got == 0) return hasher.finish();
    if (got < 0) {
      if (errno == EINTR) continue;
      return file_error(errno, "read", path);
    }
    hasher.update(std::string_view(buffer->data(), static_cast<std::size_t>(got)));
    offset += got;
  }
}

// The state of a file whose hash was seen. A later write changes it, whoever wrote.
struct FileState {
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::array<std::int64_t, 4> times{};  // Modification and change: seconds, nanoseconds.
  bool operator==(const FileState&) const = default;
};

FileState state_of(const struct stat& info) {
  return {info.st_ino,
          info.st_size,
          {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec}};
}

// The names in an open folder, without "." and "..".
Result<std::vector<std::string>> names_in(int folder, std::string_view path) {
  Fd copy = open_beneath(folder, ".", O_RDONLY | O_DIRECTORY);
  if (!copy.valid()) return file_error(errno, "open folder", path);
  DIR* raw = ::fdopendir(copy.get());
  if (raw == nullptr) return file_error(errno, "read folder", path);
  copy.release();  // The stream owns it now.
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(raw, &::closedir);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return file_error(errno, "read folder", path);
  return names;
}

class FileBlobStore final : public BlobStore {
 public:
  struct Folders {
    Fd blobs;
    Fd staging;
    Fd lock;
  };

  FileBlobStore(std::string folder, Durability durability, Folders folders)
      : folder_(std::move(folder)), durability_(durability), folders_(std::move(folders)) {}

  Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) override;
  Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const override;
  Result<BlobGrant> grant(const Owner& owner, const BlobId& id) const override;
  Status remove(const Owner& owner, const BlobId& id) override;
  Result<std::vector<BlobId>> list(const Owner& owner) const override;

 private:
  friend class FileBlobWriter;

  std::string staging_folder() const { return folder_ + "/staging"; }
  std::string shown(const Owner& owner, const BlobId& id) const {
    return folder_ + "/blobs/" + blob_name(owner, id);
  }
  std::string fresh_name() { return "w" + std::to_string(next_.fetch_add(1)); }
  // Whose content was checked since it last changed.
  Result<Fd> open_checked(const Owner& owner, const BlobId& id) const;
  // Gives the finished, fsynced file in staging its final name.
  Status publish(const Owner& owner, const std::string& staged, const BlobId& id);
  void mark_checked(const std::string& name, const FileState& state) const {
    const MutexLock lock(mutex_);
    checked_[name] = state;
  }

  const std::string folder_;
  const Durability durability_;
  const Folders folders_;
  std::atomic<std::uint64_t> next_{0};  // Staging is emptied at open: names need no more than this.
  mutable Mutex mutex_;
  // The files whose hash was seen since start, as they were then.
  mutable std::unordered_map<std::string, FileState> checked_ FALAJ_GUARDED_BY(mutex_);
};

class FileBlobWriter final : public PairedBlobWriter {
 public:
  FileBlobWriter(FileBlobStore& store, Owner owner, std::string name, Fd file)
      : store_(store), owner_(std::move(owner)), name_(std::move(name)), file_(std::move(file)) {}
  ~FileBlobWriter() override {
    if (!committed_) ::unlinkat(store_.folders_.staging.get(), name_.c_str(), 0);
  }

  Status append(std::string_view bytes) override {
    FALAJ_TRY(write(bytes));
    hasher_.update(bytes);
    return {};
  }

  Status append_beside(std::string_view bytes, PairedHasher::Fed beside) override {
    FALAJ_TRY(write(bytes));
    PairedHasher::update_both({hasher_, bytes}, beside);
    return {};
  }

  Result<StoredBlob> commit() override {
    if (committed_) return Error(Code::kInternal, "a blob writer commits once");
    sync_fd(file_.get(), name_, store_.durability_);
    const std::string hash = hasher_.finish().hex();
    FALAJ_TRY(store_.publish(owner_, name_, BlobId(hash)));
    committed_ = true;
    return StoredBlob{BlobId(hash), hash, bytes_};
  }

 private:
  Status write(std::string_view bytes) {
    FALAJ_TRY(write_all(file_.get(), bytes, store_.staging_folder() + "/" + name_));
    bytes_ += static_cast<std::int64_t>(bytes.size());
    return {};
  }

  FileBlobStore& store_;
  const Owner owner_;
  const std::string name_;
  const Fd file_;
  PairedHasher hasher_;
  std::int64_t bytes_ = 0;
  bool committed_ = false;
};

Result<std::unique_ptr<BlobWriter>> FileBlobStore::create(const Owner& owner) {
  std::string name = fresh_name();
  Fd file = open_beneath(folders_.staging.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0400);
  if (!file.valid()) return file_error(errno, "create", staging_folder() + "/" + name);
  return std::unique_ptr<BlobWriter>(
      std::make_unique<FileBlobWriter>(*this, owner, std::move(name), std::move(file)));
}

Status FileBlobStore::publish(const Owner& owner, const std::string& staged, const BlobId& id) {
  const std::string shelf = shelf_of(owner);
  const int blobs = folders_.blobs.get();
  if (::mkdirat(blobs, shelf.c_str(), 0700) != 0 && errno != EEXIST) {
    return file_error(errno, "create folder", folder_ + "/blobs/" + shelf);
  }
  const Fd shelf_fd = open_beneath(blobs, shelf, O_RDONLY | O_DIRECTORY);
  if (!shelf_fd.valid()) return file_error(errno, "open folder", folder_ + "/blobs/" + shelf);
  // Replaces an equal blob: the same bytes, and a damaged copy is healed.
  if (::renameat(folders_.staging.get(), staged.c_str(), shelf_fd.get(), id.str().c_str()) != 0) {
    return file_error(errno, "rename", staging_folder() + "/" + staged);
  }
  // The shelf's own name too, even if it was there: its maker may not have synced it yet.
  sync_fd(shelf_fd.get(), folder_ + "/blobs/" + shelf, durability_);
  sync_fd(blobs, folder_ + "/blobs", durability_);
  // After the rename, which counts as a change. Without a state the first reader hashes it.
  struct stat info {};
  if (::fstatat(shelf_fd.get(), id.str().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    mark_checked(blob_name(owner, id), state_of(info));
  }
  return {};
}

Result<Fd> FileBlobStore::open_checked(const Owner& owner, const BlobId& id) const {
  FALAJ_TRY(check_id(id));
  const std::string name = blob_name(owner, id);
  Fd file = open_beneath(folders_.blobs.get(), name, O_RDONLY);
  if (!file.valid()) {
    if (errno == ENOENT) return not_found(id);
    if (errno == ELOOP || errno == EXDEV) return corrupt(id);  // A link where a file belongs.
    return file_error(errno, "open", shown(owner, id));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(errno, "stat", shown(owner, id));
  const FileState state = state_of(info);  // Before the hash: a write during it is seen next time.
  {
    const MutexLock lock(mutex_);
    const auto seen = checked_.find(name);
    if (seen != checked_.end() && seen->second == state) return file;
  }
  const Sha256 hash = FALAJ_TRY(hash_file(file.get(), shown(owner, id)));
  if (hash.hex() != id.str()) return corrupt(id);
  mark_checked(name, state);
  return file;
}

Result<std::unique_ptr<ByteReader>> FileBlobStore::open(const Owner& owner,
                                                        const BlobId& id) const {
  Fd file = FALAJ_TRY(open_checked(owner, id));
  return open_descriptor(Descriptor(file.release()));
}

Result<BlobGrant> FileBlobStore::grant(const Owner& owner, const BlobId& id) const {
  Fd file = FALAJ_TRY(open_checked(owner, id));
  return BlobGrant{Descriptor(file.release()), ""};
}

Status FileBlobStore::remove(const Owner& owner, const BlobId& id) {
  FALAJ_TRY(check_id(id));
  const Fd shelf = open_beneath(folders_.blobs.get(), shelf_of(owner), O_RDONLY | O_DIRECTORY);
  if (!shelf.valid()) {
    if (errno == ENOENT) return not_found(id);
    return file_error(errno, "open folder of", shown(owner, id));
  }
  if (::unlinkat(shelf.get(), id.str().c_str(), 0) != 0) {
    if (errno == ENOENT) return not_found(id);
    return file_error(errno, "remove", shown(owner, id));
  }
  sync_fd(shelf.get(), shown(owner, id), durability_);
  const MutexLock lock(mutex_);
  checked_.erase(blob_name(owner, id));
  return {};
}

Result<std::vector<BlobId>> FileBlobStore::list(const Owner& owner) const {
  const std::string shelf = shelf_of(owner);
  const Fd fd = open_beneath(folders_.blobs.get(), shelf, O_RDONLY | O_DIRECTORY);
  if (!fd.valid()) {
    if (errno == ENOENT) return std::vector<BlobId>();
    return file_error(errno, "open folder", folder_ + "/blobs/" + shelf);
  }
  std::vector<BlobId> ids;
  for (const std::string& name : FALAJ_TRY(names_in(fd.get(), folder_ + "/blobs/" + shelf))) {
    if (name.size() == kHashDigits && is_hex(name)) ids.emplace_back(name);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

// What a crash left half-written. Nothing there was ever acknowledged.
Status empty_staging(int staging, const std::string& path) {
  for (const std::string& name : FALAJ_TRY(names_in(staging, path))) {
    if (::unlinkat(staging, name.c_str(), 0) != 0) return file_error(errno, "remove", path);
  }
  return {};
}

Result<Fd> open_folder(const std::string& path, Durability durability) {
  FALAJ_TRY(make_folder(path, durability));
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.valid()) return file_error(errno, "open folder", path);
  return folder;
}

}  // namespace

Result<std::unique_ptr<BlobStore>> open_files(const std::string& folder, Durability durability) {
  FALAJ_TRY(make_folder(folder, durability));
  FileBlobStore::Folders folders;
  folders.lock = FALAJ_TRY(lock_file(folder + "/blobs.lock"));
  folders.blobs = FALAJ_TRY(open_folder(folder + "/blobs", durability));
  folders.staging = FALAJ_TRY(open_folder(folder + "/staging", durability));
  if (!open_beneath(folders.blobs.get(), ".", O_RDONLY | O_DIRECTORY).valid()) {
    return file_error(errno, "openat2 (Linux 5.6 or newer) of", folder + "/blobs");
  }
  FALAJ_TRY(empty_staging(folders.staging.get(), folder + "/staging"));
  return std::unique_ptr<BlobStore>(
      std::make_unique<FileBlobStore>(folder, durability, std::move(folders)));
}

}  // namespace falaj::storage
