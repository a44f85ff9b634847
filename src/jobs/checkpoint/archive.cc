#include "jobs/checkpoint/archive.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "jobs/checkpoint/internal/tree.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifestEnd = ".json";
constexpr const char* kLockName = "keeper.lock";

Status make_folder(const std::string& folder, storage::Durability durability) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  if (!fs::create_directories(folder, error) && error) {
    return disk_error(error.value(), "create", folder);
  }
  const std::string parent = fs::absolute(folder).parent_path().string();
  const Descriptor opened = FALAJ_TRY(open_folder(parent));
  return sync(opened.get(), parent, durability);
}

Result<Descriptor> lock(const std::string& folder) {
  const std::string path = folder + "/" + kLockName;
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return disk_error(errno, "open", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return disk_error(errno, "lock", path);
  return Error{ErrorId::kDataFolderLocked,
               folder + " is written to by another process; stop that one or name another folder"};
}

// The rest is a manifest's name, a half-made thing, or none of ours.
bool is_half_made(const std::string& name) {
  return name.starts_with(".staged-") || (name.ends_with(".json.new") && number_of(name));
}

Result<std::string> read_bounded(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return disk_error(errno, "open", path);
  std::string text;
  char chunk[65'536];
  while (true) {
    const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return disk_error(errno, "read", path);
    if (got == 0) return text;
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kManifestBytesMax) return Error{Code::kDataLoss, path + " is too large"};
  }
}

Result<Manifest> read_manifest(const std::string& folder, const std::string& name,
                               const ArchiveKey& key, bool& sealed) {
  const std::string text = FALAJ_TRY(read_bounded(folder + "/" + name + std::string(kManifestEnd)));
  sealed = is_sealed(text);
  Manifest manifest = FALAJ_TRY(open_manifest(key, text));
  if (stored_folder(sealed ? key : nullptr, manifest) != name) {
    return Error{Code::kDataLoss, "the manifest is damaged: it is that of another checkpoint"};
  }
  return manifest;
}

std::string describe_difference(const std::vector<FileEntry>& want,
                                const std::vector<FileEntry>& found) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto at = std::find_if(found.begin(), found.end(),
                                 [&](const FileEntry& each) { return each.path == want[i].path; });
    if (at == found.end()) return want[i].path + " is missing";
    if (at->bytes != want[i].bytes) {
      return want[i].path + " has " + std::to_string(at->bytes) + " bytes instead of " +
             std::to_string(want[i].bytes);
    }
    if (at->sha256 != want[i].sha256) return want[i].path + " was changed";
  }
  return "there are files that were not saved";
}

Status compare(const std::string& name, const std::vector<FileEntry>& want,
               const std::vector<FileEntry>& found) {
  if (want == found) return {};
  return Error{Code::kDataLoss, name + ": " + describe_difference(want, found)};
}

}  // namespace

Result<std::unique_ptr<Archive>> Archive::open(const std::string& folder, Options options) {
  FALAJ_TRY(check_key(folder, options.key));
  FALAJ_TRY(make_folder(folder, options.durability));
  Descriptor held = FALAJ_TRY(lock(folder));
  Descriptor opened = FALAJ_TRY(open_folder(folder));
  std::unique_ptr<Archive> archive(
      new Archive(folder, std::move(options), std::move(held), std::move(opened)));
  FALAJ_TRY(archive->look());
  return archive;
}

Status Archive::look() {
  const std::vector<std::string> names = FALAJ_TRY(names_in(opened_.get(), folder_));
  for (const std::string& name : names) {
    const auto number = number_of(name);
    if (number) next_number_ = std::max(next_number_, *number + 1);
    std::error_code error;
    const bool is_folder = fs::is_directory(fs::symlink_status(path(name), error));
    const bool orphan = number && is_folder && !fs::exists(path(name + ".json"), error);
    if (is_half_made(name) || orphan) fs::remove_all(path(name), error);
    if (error) return disk_error(error.value(), "clean up", path(name));
  }
  const std::vector<Listed> listed = FALAJ_TRY(list_checkpoints(folder_, options_.key));
  for (const Listed& each : listed) {
    if (each.manifest.ok()) manifests_.push_back(*each.manifest);
  }
  return {};
}

Result<Manifest> Archive::write(const Source& source) {
  const std::string staged = ".staged-" + std::to_string(source.about.number);
  std::error_code ignored;
  fs::remove_all(path(staged), ignored);
  Result<Manifest> written = write_staged(source, staged);
  const Status done = written.ok() ? commit(*written, staged) : Status{written.error()};
  if (!done.ok()) {
    fs::remove_all(path(staged), ignored);
    return done.error();
  }
  next_number_ = std::max(next_number_, source.about.number + 1);
  manifests_.push_back(*written);
  std::sort(manifests_.begin(), manifests_.end(),
            [](const Manifest& a, const Manifest& b) { return a.number < b.number; });
  return written;
}

Result<Manifest> Archive::write_staged(const Source& source, const std::string& staged) {
  if (::mkdirat(opened_.get(), staged.c_str(), 0700) != 0) {
    return disk_error(errno, "create", path(staged));
  }
  const Descriptor to = FALAJ_TRY(open_folder(path(staged)));
  TreeOptions options{options_.bytes_max, options_.durability, options_.on_chunk};
  options.sealed = {options_.key.get(), source.about.number, source.rename_file};
  Tree tree = FALAJ_TRY(copy_tree(source.parent, source.entry, to.get(), options));
  Manifest manifest = source.about;
  manifest.form = tree.form;
  manifest.files = std::move(tree.files);
  if (manifest.form == Form::kFile && !source.rename_file.empty() && options_.key == nullptr) {
    manifest.files.front().path = source.rename_file;
    if (::renameat(to.get(), source.entry.c_str(), to.get(), source.rename_file.c_str()) != 0) {
      return disk_error(errno, "rename", path(staged));
    }
    FALAJ_TRY(sync(to.get(), staged, options_.durability));
  }
  return manifest;
}

Status Archive::commit(const Manifest& manifest, const std::string& staged) {
  const std::string name = stored_folder(options_.key, manifest);
  std::error_code ignored;
  fs::remove_all(path(name), ignored);  // Of a try that failed after its rename.
  if (::renameat(opened_.get(), staged.c_str(), opened_.get(), name.c_str()) != 0) {
    return disk_error(errno, "rename", path(staged));
  }
  Status done = sync(opened_.get(), folder_, options_.durability);
  if (done.ok()) done = put_manifest(manifest);
  if (done.ok()) return done;
  ::unlinkat(opened_.get(), (name + ".json").c_str(), 0);
  ::unlinkat(opened_.get(), (name + ".json.new").c_str(), 0);
  fs::remove_all(path(name), ignored);
  return done;
}

Status Archive::put_manifest(const Manifest& manifest) {
  const std::string name = stored_folder(options_.key, manifest) + std::string(kManifestEnd);
  const std::string staged = name + ".new";
  const Descriptor file(
      ::openat(opened_.get(), staged.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return disk_error(errno, "create", path(staged));
  const std::string text =
      options_.key == nullptr ? encode_manifest(manifest) : seal_manifest(*options_.key, manifest);
  FALAJ_TRY(write_all(file.get(), text, path(staged)));
  FALAJ_TRY(sync(file.get(), path(staged), options_.durability));
  if (::renameat(opened_.get(), staged.c_str(), opened_.get(), name.c_str()) != 0) {
    return disk_error(errno, "rename", path(staged));
  }
  return sync(opened_.get(), folder_, options_.durability);
}

std::string Archive::lies_as(const Manifest& manifest) const {
  std::string sealed = stored_folder(options_.key, manifest);
  std::error_code ignored;
  if (fs::exists(path(sealed + std::string(kManifestEnd)), ignored)) return sealed;
  return stored_folder(nullptr, manifest);
}

Status Archive::remove(std::int64_t number) {
  const auto at = std::find_if(manifests_.begin(), manifests_.end(),
                               [&](const Manifest& each) { return each.number == number; });
  if (at == manifests_.end()) {
    return Error{Code::kNotFound, "no checkpoint " + std::to_string(number) + " in " + folder_};
  }
  const std::string name = lies_as(*at);
  if (::unlinkat(opened_.get(), (name + ".json").c_str(), 0) != 0 && errno != ENOENT) {
    return disk_error(errno, "remove", path(name));
  }
  FALAJ_TRY(sync(opened_.get(), folder_, options_.durability));
  std::error_code error;
  fs::remove_all(path(name), error);
  manifests_.erase(at);
  if (error) return disk_error(error.value(), "remove", path(name));
  return {};
}

Result<std::vector<Listed>> list_checkpoints(const std::string& folder, const ArchiveKey& key) {
  const Descriptor opened = FALAJ_TRY(open_folder(folder));
  const std::vector<std::string> names = FALAJ_TRY(names_in(opened.get(), folder));
  std::vector<Listed> listed;
  for (const std::string& name : names) {
    struct stat info {};
    if (!name.ends_with(kManifestEnd) || !number_of(name)) continue;
    if (::fstatat(opened.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;  // The folder of a checkpoint that is called so.
    const std::string own = name.substr(0, name.size() - kManifestEnd.size());
    bool sealed = false;
    auto manifest = read_manifest(folder, own, key, sealed);
    listed.push_back({own, std::move(manifest), sealed});
  }
  std::stable_sort(listed.begin(), listed.end(), [](const Listed& a, const Listed& b) {
    return number_of(a.folder) < number_of(b.folder);
  });
  return listed;
}

Timestamp newest_kept(const std::string& folder) {
  Timestamp newest{};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(kManifestEnd) || !number_of(name)) continue;
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    newest =
        std::max(newest, Timestamp{info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
  }
  return newest;
}

Status verify_checkpoint(const std::string& folder, const Manifest& manifest) {
  const std::string name = folder_name(manifest.number, manifest.name);
  const Descriptor opened = FALAJ_TRY(open_folder(folder));
  const Result<Tree> tree = hash_tree(opened.get(), name, {});
  if (!tree.ok()) return Error{Code::kDataLoss, name + ": " + tree.error().message};
  return compare(name, manifest.files, tree->files);
}

Result<Restored> restore(const std::string& folder, const ArchiveKey& key,
                         const std::string& opened) {
  std::vector<Listed> listed = FALAJ_TRY(list_checkpoints(folder, key));
  std::error_code ignored;
  if (!opened.empty()) fs::remove_all(opened, ignored);
  std::vector<std::string> skipped;
  for (auto each = listed.rbegin(); each != listed.rend(); ++each) {
    std::string path = (each->sealed ? opened : folder) + "/" + each->folder;
    Status whole;
    if (!each->manifest.ok()) {
      whole = each->manifest.error().within(each->folder);
    } else if (each->sealed) {
      whole = unseal_checkpoint(folder + "/" + each->folder, *each->manifest, *key, path);
    } else {
      whole = verify_checkpoint(folder, *each->manifest);
    }
    if (!whole.ok()) {
      skipped.push_back(whole.error().message);
      continue;
    }
    if (each->manifest->form == Form::kFile) path += "/" + each->manifest->files.front().path;
    return Restored{std::move(*each->manifest), std::move(path), std::move(skipped)};
  }
  if (skipped.empty()) return Error{Code::kNotFound, "no checkpoint in " + folder};
  return Error{Code::kDataLoss,
               "every checkpoint in " + folder + " is damaged; the newest: " + skipped.front()};
}

Status copy_out(const Restored& restored, const std::string& to) {
  if (::mkdir(to.c_str(), 0700) != 0) {
    if (errno == EEXIST) return Error{Code::kConflict, to + " exists; name a new folder"};
    return disk_error(errno, "create", to);
  }
  const std::string parent = fs::path(restored.path).parent_path().string();
  const Descriptor from = FALAJ_TRY(open_folder(parent));
  const Descriptor target = FALAJ_TRY(open_folder(to));
  const Result<Tree> copied =
      copy_tree(from.get(), fs::path(restored.path).filename().string(), target.get(), {});
  const Status done = copied.ok()
                          ? compare(restored.manifest.name, restored.manifest.files, copied->files)
                          : Status{copied.error()};
  std::error_code ignored;
  if (!done.ok()) fs::remove_all(to, ignored);
  return done;
}

}  // namespace falaj::jobs::checkpoint
