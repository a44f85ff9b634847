#include "jobs/oci/unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/descriptor.h"
#include "jobs/oci/layer_stream.h"

namespace falaj::jobs::oci {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr int kDepthMax = 256;

Error refused(const std::string& what) { return Error(ErrorId::kImageRefused, what); }

Error failed(const std::string& what, const std::string& name) {
  return refused("cannot " + what + " '" + name + "' of the image: " + std::strerror(errno));
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Inside `root`, whatever links are on the way.
Descriptor open_in(int root, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return Descriptor(static_cast<int>(
      ::syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof how)));
}

// "./usr//bin/" as {"usr", "bin"}.
Result<std::vector<std::string>> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    std::string part = name.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != std::string::npos || part.size() > 255) {
      return refused("the image holds the name '" + name.substr(0, 200) +
                     "', which leads out of it or is none");
    }
    parts.push_back(std::move(part));
    if (parts.size() > kDepthMax) return refused("the image holds a path that is too deep");
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : "/") + parts[i];
  return out;
}

// Removes it with all that is in it. `keep` holds paths that stay, with the folders they are in.
bool remove_tree(int parent, const std::string& name, const std::string& path,
                 const std::unordered_set<std::string>& keep, int depth) {
  if (keep.contains(path)) return false;
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const int inside =
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (inside < 0 || depth > kDepthMax) return false;
  const std::unique_ptr<DIR, CloseFolder> listing(::fdopendir(inside));
  bool all = listing != nullptr;
  std::vector<std::string> names;
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string_view each = entry->d_name;
    if (each != "." && each != "..") names.emplace_back(each);
  }
  for (const std::string& each : names) {
    all = remove_tree(inside, each, path + "/" + each, keep, depth + 1) && all;
  }
  return all && ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
}

class Layer {
 public:
  Layer(const std::string& folder, const UnpackLimits& limits, Unpacked& sum)
      : root_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        limits_(limits),
        sum_(sum) {}

  Status apply(TarReader& layer) {
    if (!root_.valid()) return failed("open", "the folder");
    while (true) {
      const std::optional<TarEntry> entry = FALAJ_TRY(layer.next());
      if (!entry) return {};
      if (++sum_.entries > limits_.entries_max) {
        return refused("the image holds more than " + std::to_string(limits_.entries_max) +
                       " files");
      }
      FALAJ_TRY(put(layer, *entry));
    }
  }

 private:
  Status put(TarReader& layer, const TarEntry& entry) {
    const std::vector<std::string> parts = FALAJ_TRY(parts_of(entry.name));
    if (parts.empty()) return {};  // The root itself.
    const std::string& name = parts.back();
    const std::string above = joined(parts, parts.size() - 1);
    const std::string path = joined(parts, parts.size());
    if (name == kOpaque) return clear(above);
    const Descriptor parent = FALAJ_TRY(folder_at(parts, parts.size() - 1));
    if (name.starts_with(kWhiteout)) {
      const std::string hidden = name.substr(kWhiteout.size());
      if (hidden.empty() || hidden == "." || hidden == "..") {
        return refused("the image takes away '" + entry.name + "', which is no name");
      }
      const std::string gone = (above.empty() ? "" : above + "/") + hidden;
      (void)remove_tree(parent.get(), hidden, gone, made_, 0);
      return {};
    }
    remember(parts);
    if (entry.kind == TarKind::kFolder) return make_folder(parent.get(), name, entry);
    if (entry.kind == TarKind::kOther) {
      return refused("the image holds a device or a pipe, '" + entry.name + "'");
    }
    static const std::unordered_set<std::string> none;
    if (!remove_tree(parent.get(), name, path, none, 0)) return failed("replace", entry.name);
    if (entry.kind == TarKind::kSymlink) {
      const bool made =
          !entry.link.empty() && ::symlinkat(entry.link.c_str(), parent.get(), name.c_str()) == 0;
      return made ? Status() : failed("link", entry.name);
    }
    if (entry.kind == TarKind::kHardLink) return link(parent.get(), name, entry);
    return write_file(layer, parent.get(), name, entry);
  }

  // What this layer put there does not fall to its own whiteouts.
  void remember(const std::vector<std::string>& parts) {
    for (std::size_t count = parts.size(); count > 0; --count) {
      if (!made_.insert(joined(parts, count)).second) return;
    }
  }

  Status clear(const std::string& path) {
    const Descriptor folder = open_in(root_.get(), path, O_RDONLY | O_DIRECTORY);
    if (!folder.valid()) return {};  // Nothing below.
    const int copy = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, CloseFolder> listing(copy < 0 ? nullptr : ::fdopendir(copy));
    std::vector<std::string> names;
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
      const std::string_view each = entry->d_name;
      if (each != "." && each != "..") names.emplace_back(each);
    }
    for (const std::string& each : names) {
      const std::string inside = (path.empty() ? "" : path + "/") + each;
      (void)remove_tree(folder.get(), each, inside, made_, 0);
    }
    return {};
  }

  // The folder of the first `count` parts, made where it is absent.
  Result<Descriptor> folder_at(const std::vector<std::string>& parts, std::size_t count) {
    const std::string path = joined(parts, count);
    Descriptor folder = open_in(root_.get(), path, O_RDONLY | O_DIRECTORY);
    if (folder.valid()) return folder;
    if (count == 0) return failed("open", "/");
    const Descriptor above = FALAJ_TRY(folder_at(parts, count - 1));
    if (::mkdirat(above.get(), parts[count - 1].c_str(), 0755) != 0) return failed("make", path);
    folder = open_in(root_.get(), path, O_RDONLY | O_DIRECTORY);
    if (!folder.valid()) return failed("open", path);
    return folder;
  }

  Status make_folder(int parent, const std::string& name, const TarEntry& entry) {
    struct stat about {};
    const bool there = ::fstatat(parent, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(about.st_mode) && ::unlinkat(parent, name.c_str(), 0) != 0) {
      return failed("replace", entry.name);
    }
    if ((!there || !S_ISDIR(about.st_mode)) && ::mkdirat(parent, name.c_str(), 0700) != 0) {
      return failed("make", entry.name);
    }
    const Descriptor folder(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    const bool set = folder.valid() && ::fchmod(folder.get(), (entry.mode & 0777) | 0700) == 0;
    return set ? Status() : failed("open", entry.name);
  }

  Status link(int parent, const std::string& name, const TarEntry& entry) {
    const std::vector<std::string> parts = FALAJ_TRY(parts_of(entry.link));
    if (parts.empty()) return refused("the image links '" + entry.name + "' to nothing");
    const Descriptor from =
        open_in(root_.get(), joined(parts, parts.size() - 1), O_RDONLY | O_DIRECTORY);
    const bool made =
        from.valid() && ::linkat(from.get(), parts.back().c_str(), parent, name.c_str(), 0) == 0;
    return made ? Status() : failed("link", entry.name);
  }

  Status write_file(TarReader& layer, int parent, const std::string& name, const TarEntry& entry) {
    sum_.bytes += entry.size;
    if (sum_.bytes > limits_.bytes_max) {
      return refused("the image is larger than " + std::to_string(limits_.bytes_max) + " bytes");
    }
    const Descriptor file(
        ::openat(parent, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return failed("make", entry.name);
    std::array<char, 64 * 1024> bytes;
    while (true) {
      const std::size_t got = FALAJ_TRY(layer.read(bytes.data(), bytes.size()));
      if (got == 0) break;
      for (std::size_t done = 0; done < got;) {
        const ssize_t wrote = ::write(file.get(), bytes.data() + done, got - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return failed("write", entry.name);
        done += static_cast<std::size_t>(wrote);
      }
    }
    return ::fchmod(file.get(), entry.mode & 0777) == 0 ? Status() : failed("write", entry.name);
  }

  const Descriptor root_;
  const UnpackLimits& limits_;
  Unpacked& sum_;
  std::unordered_set<std::string> made_;
};

}  // namespace

Status unpack_layer(TarReader& layer, const std::string& folder, const UnpackLimits& limits,
                    Unpacked& sum) {
  return Layer(folder, limits, sum).apply(layer);
}

Result<Unpacked> unpack_image(const std::string& layout, const Image& image,
                              const std::string& folder, const UnpackLimits& limits) {
  Unpacked sum;
  for (std::size_t i = 0; i < image.layers.size(); ++i) {
    auto stream = FALAJ_TRY(LayerStream::open(blob_path(layout, image.layers[i].digest)));
    TarReader reader([&](char* to, std::size_t count) { return stream->read(to, count); });
    FALAJ_TRY(unpack_layer(reader, folder, limits, sum));
    FALAJ_TRY(stream->finish(image.layers[i], image.config.diff_ids[i]));
  }
  return sum;
}

}  // namespace falaj::jobs::oci
