// Blobs as files: blobs/ab/cdef… under one folder, staging/ beside them.
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

namespace falaj::storage {
namespace {

constexpr std::size_t kHashDigits = 64;
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

// "ab/cdef…"
std::string blob_name(const BlobId& id) { return id.str().substr(0, 2) + "/" + id.str().substr(2); }

Error not_found(const BlobId& id) { return {Code::kNotFound, "there is no blob " + id.str()}; }

Error corrupt(const BlobId& id) {
  return {ErrorId::kBlobCorrupt, "the content of blob " + id.str() +
                                     " does not match its hash; restore it from a backup or make "
                                     "it again"};
}

Result<Sha256> hash_file(int fd, std::string_view path) {
  Sha256Hasher hasher;
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  while (true) {
    const ssize_t got = ::read(fd, buffer->data(), buffer->size());
    if (got == 0) return hasher.finish();
    if (got < 0) {
      if (errno == EINTR) continue;
      return file_error(errno, "read", path);
    }
    hasher.update(std::string_view(buffer->data(), static_cast<std::size_t>(got)));
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

  Result<std::unique_ptr<BlobWriter>> create() override;
  Result<BlobId> put(std::string_view bytes) override {
    auto writer = FALAJ_TRY(create());
    FALAJ_TRY(writer->append(bytes));
    return writer->commit();
  }
  Result<BlobId> adopt(const std::string& path) override;
  Result<std::string> staging_path() override { return staging_folder() + "/" + fresh_name(); }
  Result<std::string> get(const BlobId& id) const override;
  Result<std::string> path(const BlobId& id) const override;
  Result<std::int64_t> size(const BlobId& id) const override;
  Status remove(const BlobId& id) override;
  Result<std::vector<BlobId>> list() const override;

 private:
  friend class FileBlobWriter;

  std::string staging_folder() const { return folder_ + "/staging"; }
  std::string blob_path(const BlobId& id) const { return folder_ + "/blobs/" + blob_name(id); }
  std::string fresh_name() { return "w" + std::to_string(next_.fetch_add(1)); }
  Result<Fd> open_blob(const BlobId& id) const;
  // Gives the finished, fsynced file in staging its final name.
  Result<BlobId> publish(const std::string& staged, const Sha256& hash);
  void mark_checked(const BlobId& id, const FileState& state) const {
    const MutexLock lock(mutex_);
    checked_[id] = state;
  }

  const std::string folder_;
  const Durability durability_;
  const Folders folders_;
  std::atomic<std::uint64_t> next_{0};  // Staging is emptied at open: names need no more than this.
  mutable Mutex mutex_;
  // The files whose hash was seen since start, as they were then.
  mutable std::unordered_map<BlobId, FileState> checked_ FALAJ_GUARDED_BY(mutex_);
};

class FileBlobWriter final : public BlobWriter {
 public:
  FileBlobWriter(FileBlobStore& store, std::string name, Fd file)
      : store_(store), name_(std::move(name)), file_(std::move(file)) {}
  ~FileBlobWriter() override {
    if (!committed_) ::unlinkat(store_.folders_.staging.get(), name_.c_str(), 0);
  }

  Status append(std::string_view bytes) override {
    FALAJ_TRY(write_all(file_.get(), bytes, store_.staging_folder() + "/" + name_));
    hasher_.update(bytes);
    return {};
  }

  Result<BlobId> commit() override {
    if (committed_) return Error(Code::kInternal, "a blob writer commits once");
    sync_fd(file_.get(), name_, store_.durability_);
    BlobId id = FALAJ_TRY(store_.publish(name_, hasher_.finish()));
    committed_ = true;
    return id;
  }

 private:
  FileBlobStore& store_;
  const std::string name_;
  const Fd file_;
  Sha256Hasher hasher_;
  bool committed_ = false;
};

Result<std::unique_ptr<BlobWriter>> FileBlobStore::create() {
  std::string name = fresh_name();
  Fd file = open_beneath(folders_.staging.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0400);
  if (!file.valid()) return file_error(errno, "create", staging_folder() + "/" + name);
  return std::unique_ptr<BlobWriter>(
      std::make_unique<FileBlobWriter>(*this, std::move(name), std::move(file)));
}

Result<BlobId> FileBlobStore::publish(const std::string& staged, const Sha256& hash) {
  BlobId id(hash.hex());
  const std::string shelf = id.str().substr(0, 2);
  const int blobs = folders_.blobs.get();
  if (::mkdirat(blobs, shelf.c_str(), 0700) != 0 && errno != EEXIST) {
    return file_error(errno, "create folder", folder_ + "/blobs/" + shelf);
  }
  const Fd shelf_fd = open_beneath(blobs, shelf, O_RDONLY | O_DIRECTORY);
  if (!shelf_fd.valid()) return file_error(errno, "open folder", folder_ + "/blobs/" + shelf);
  // Replaces an equal blob: the same bytes, and a damaged copy is healed.
  if (::renameat(folders_.staging.get(), staged.c_str(), shelf_fd.get(),
                 id.str().substr(2).c_str()) != 0) {
    return file_error(errno, "rename", staging_folder() + "/" + staged);
  }
  // The shelf's own name too, even if it was there: its maker may not have synced it yet.
  sync_fd(shelf_fd.get(), folder_ + "/blobs/" + shelf, durability_);
  sync_fd(blobs, folder_ + "/blobs", durability_);
  // After the rename, which counts as a change. Without a state the first reader hashes it.
  struct stat info {};
  if (::fstatat(shelf_fd.get(), id.str().substr(2).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    mark_checked(id, state_of(info));
  }
  return id;
}

Result<BlobId> FileBlobStore::adopt(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (path != staging_folder() + "/" + name || name.empty() || name == "." || name == "..") {
    return Error(Code::kInvalidArgument,
                 path + " is not in the staging folder; ask staging_path() for a name");
  }
  const Fd file = open_beneath(folders_.staging.get(), name, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) {
    if (errno == ENOENT) return Error(Code::kNotFound, "there is no file " + path);
    return file_error(errno, "open", path);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalidArgument, path + " is no regular file");
  const Sha256 hash = FALAJ_TRY(hash_file(file.get(), path));
  ::fchmod(file.get(), 0400);
  sync_fd(file.get(), path, durability_);
  return publish(name, hash);
}

Result<Fd> FileBlobStore::open_blob(const BlobId& id) const {
  FALAJ_TRY(check_id(id));
  Fd file = open_beneath(folders_.blobs.get(), blob_name(id), O_RDONLY);
  if (file.valid()) return file;
  if (errno == ENOENT) return not_found(id);
  if (errno == ELOOP || errno == EXDEV) return corrupt(id);  // A link where a file belongs.
  return file_error(errno, "open", blob_path(id));
}

Result<std::string> FileBlobStore::get(const BlobId& id) const {
  const Fd file = FALAJ_TRY(open_blob(id));
  std::string content = FALAJ_TRY(read_all(file.get(), blob_path(id)));
  if (sha256_hex(content) != id.str()) return corrupt(id);
  return content;
}

Result<std::string> FileBlobStore::path(const BlobId& id) const {
  const Fd file = FALAJ_TRY(open_blob(id));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(errno, "stat", blob_path(id));
  const FileState state = state_of(info);  // Before the hash: a write during it is seen next time.
  {
    const MutexLock lock(mutex_);
    const auto seen = checked_.find(id);
    if (seen != checked_.end() && seen->second == state) return blob_path(id);
  }
  const Sha256 hash = FALAJ_TRY(hash_file(file.get(), blob_path(id)));
  if (hash.hex() != id.str()) return corrupt(id);
  mark_checked(id, state);
  return blob_path(id);
}

Result<std::int64_t> FileBlobStore::size(const BlobId& id) const {
  const Fd file = FALAJ_TRY(open_blob(id));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return file_error(errno, "stat", blob_path(id));
  return std::int64_t{info.st_size};
}

Status FileBlobStore::remove(const BlobId& id) {
  FALAJ_TRY(check_id(id));
  const Fd shelf =
      open_beneath(folders_.blobs.get(), id.str().substr(0, 2), O_RDONLY | O_DIRECTORY);
  if (!shelf.valid()) {
    if (errno == ENOENT) return not_found(id);
    return file_error(errno, "open folder of", blob_path(id));
  }
  if (::unlinkat(shelf.get(), id.str().substr(2).c_str(), 0) != 0) {
    if (errno == ENOENT) return not_found(id);
    return file_error(errno, "remove", blob_path(id));
  }
  sync_fd(shelf.get(), blob_path(id), durability_);
  const MutexLock lock(mutex_);
  checked_.erase(id);
  return {};
}

Result<std::vector<BlobId>> FileBlobStore::list() const {
  const std::string path = folder_ + "/blobs";
  std::vector<BlobId> ids;
  for (const std::string& shelf : FALAJ_TRY(names_in(folders_.blobs.get(), path))) {
    if (shelf.size() != 2 || !is_hex(shelf)) continue;
    const Fd fd = open_beneath(folders_.blobs.get(), shelf, O_RDONLY | O_DIRECTORY);
    if (!fd.valid()) return file_error(errno, "open folder", path + "/" + shelf);
    for (const std::string& rest : FALAJ_TRY(names_in(fd.get(), path + "/" + shelf))) {
      if (rest.size() + 2 == kHashDigits && is_hex(rest)) ids.emplace_back(shelf + rest);
    }
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
