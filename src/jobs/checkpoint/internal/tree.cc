#include "jobs/checkpoint/internal/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/hash.h"
#include "crypto/stream.h"
#include "jobs/checkpoint/sealing.h"

namespace falaj::jobs::checkpoint {
namespace {

constexpr std::size_t kChunk = 1u << 20;

Error refused(const std::string& path, std::string_view why) {
  return {Code::kInvalidArgument, path + " " + std::string(why)};
}

// One pass over a tree. With a folder to write to it copies; else it hashes or measures.
class Pass {
 public:
  enum class Work : std::uint8_t { kMeasure, kRead };
  Pass(Work work, const TreeOptions& options) : work_(work), options_(options) {}

  Result<Tree> run(int parent, const std::string& name, int to) {
    Tree tree;
    struct stat info {};
    if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return disk_error(errno, "look at", name);
    }
    if (S_ISDIR(info.st_mode)) {
      const Descriptor folder = FALAJ_TRY(enter(parent, name, name));
      FALAJ_TRY(walk(folder.get(), to, "", 0));
    } else {
      tree.form = Form::kFile;
      const bool renamed = sealing(to) && !options_.sealed.rename_file.empty();
      FALAJ_TRY(file(parent, name, to, renamed ? options_.sealed.rename_file : name));
      if (to >= 0) FALAJ_TRY(sync(to, name, options_.durability));
    }
    std::sort(files_.begin(), files_.end(),
              [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    tree.files = std::move(files_);
    return tree;
  }

 private:
  static Result<Descriptor> enter(int parent, const std::string& name, const std::string& path) {
    Descriptor folder(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.valid()) return disk_error(errno, "open", path);
    return folder;
  }

  Status walk(int from, int to, const std::string& prefix, std::size_t depth) {
    if (depth > kDepthMax) return refused(prefix, "is too many folders deep");
    const std::vector<std::string> names = FALAJ_TRY(names_in(from, prefix));
    for (const std::string& name : names) {
      const std::string path = prefix + name;
      struct stat info {};
      if (::fstatat(from, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return disk_error(errno, "look at", path);
      }
      if (S_ISDIR(info.st_mode)) {
        FALAJ_TRY(subfolder(from, name, to, path, depth));
      } else {
        FALAJ_TRY(file(from, name, to, path));
      }
    }
    return to < 0 ? Status{} : sync(to, prefix, options_.durability);
  }

  Status subfolder(int from, const std::string& name, int to, const std::string& path,
                   std::size_t depth) {
    if (++folders_ > kFilesMax) return refused(path, "is one folder too many");
    const Descriptor inner = FALAJ_TRY(enter(from, name, path));
    Descriptor made;
    if (sealing(to)) return walk(inner.get(), to, path + "/", depth + 1);
    if (to >= 0) {
      if (::mkdirat(to, name.c_str(), 0700) != 0) return disk_error(errno, "create", path);
      made = FALAJ_TRY(enter(to, name, path));
    }
    return walk(inner.get(), made.get(), path + "/", depth + 1);
  }

  Status file(int from, const std::string& name, int to, const std::string& path) {
    FALAJ_TRY(check_path(path));
    if (files_.size() >= kFilesMax) return refused(path, "is one file too many");
    // Non-blocking: a named pipe must not hold us up before it is refused.
    const Descriptor in(
        ::openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!in.valid() && (errno == ELOOP || errno == ENXIO)) return refused(path, "is no file");
    if (!in.valid()) return disk_error(errno, "open", path);
    struct stat info {};
    if (::fstat(in.get(), &info) != 0) return disk_error(errno, "look at", path);
    if (!S_ISREG(info.st_mode)) return refused(path, "is neither a file nor a folder");
    files_.push_back({path, 0, ""});
    if (work_ == Work::kMeasure) return count(info.st_size);
    Descriptor out;
    if (to >= 0) {
      const std::string own = sealing(to) ? sealed_name(*options_.sealed.key, path) : name;
      out = Descriptor(
          ::openat(to, own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!out.valid()) return disk_error(errno, "create", path);
    }
    return stream(in.get(), out.get(), path);
  }

  Status stream(int in, int out, const std::string& path) {
    Sha256Hasher hasher;
    std::unique_ptr<crypto::StreamSealer> sealer;
    if (sealing(out)) {
      sealer = std::make_unique<crypto::StreamSealer>(*options_.sealed.key,
                                                      sealed_about(options_.sealed.number, path));
    }
    std::string sealed;
    if (buffer_ == nullptr) buffer_ = std::make_unique<char[]>(kChunk);
    while (true) {
      if (options_.on_chunk) FALAJ_TRY(options_.on_chunk());
      const ssize_t got = ::read(in, buffer_.get(), kChunk);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return disk_error(errno, "read", path);
      if (got == 0) break;
      const std::string_view bytes(buffer_.get(), static_cast<std::size_t>(got));
      FALAJ_TRY(count(got));
      hasher.update(bytes);
      sealed.clear();
      if (sealer) FALAJ_TRY(sealer->append(bytes, sealed));
      if (out >= 0) FALAJ_TRY(write_all(out, sealer ? sealed : bytes, path));
    }
    sealed.clear();
    if (sealer) sealer->finish(sealed);
    if (sealer) FALAJ_TRY(write_all(out, sealed, path));
    files_.back().sha256 = hasher.finish().hex();
    return out < 0 ? Status{} : sync(out, path, options_.durability);
  }

  bool sealing(int to) const { return to >= 0 && options_.sealed.key != nullptr; }

  Status count(std::int64_t bytes) {
    if (bytes > options_.bytes_max - total_) {
      return refused(files_.back().path,
                     "makes it larger than the " + std::to_string(options_.bytes_max) +
                         " bytes that are allowed; save less or raise the limit");
    }
    total_ += bytes;
    files_.back().bytes += bytes;
    return {};
  }

  const Work work_;
  const TreeOptions& options_;
  std::vector<FileEntry> files_;
  std::size_t folders_ = 0;
  std::int64_t total_ = 0;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace

Result<Tree> measure_tree(int parent, const std::string& name, const TreeOptions& options) {
  return Pass(Pass::Work::kMeasure, options).run(parent, name, -1);
}

Result<Tree> hash_tree(int parent, const std::string& name, const TreeOptions& options) {
  return Pass(Pass::Work::kRead, options).run(parent, name, -1);
}

Result<Tree> copy_tree(int parent, const std::string& name, int to, const TreeOptions& options) {
  return Pass(Pass::Work::kRead, options).run(parent, name, to);
}

Result<Descriptor> open_folder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) return folder;
  if (errno == ENOENT || errno == ENOTDIR) {
    return Error{Code::kNotFound, path + " is not a folder"};
  }
  return disk_error(errno, "open", path);
}

Status sync(int file, const std::string& path, storage::Durability durability) {
  if (durability == storage::Durability::kNoSync || ::fsync(file) == 0) return {};
  return disk_error(errno, "make durable", path);
}

Status write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error(errno, "write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Error disk_error(int error, std::string_view what, const std::string& path) {
  const std::string text = std::string(what) + " " + path + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return {ErrorId::kDataFolderFull, text + "; free some space"};
  }
  return {Code::kUnavailable, text};
}

Result<std::vector<std::string>> names_in(int folder, const std::string& path) {
  Descriptor own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.valid()) return disk_error(errno, "list", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(own.get()), ::closedir);
  if (entries == nullptr) return disk_error(errno, "list", path);
  own.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    if (names.size() > 2 * kFilesMax) return refused(path, "holds too many names");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace falaj::jobs::checkpoint
