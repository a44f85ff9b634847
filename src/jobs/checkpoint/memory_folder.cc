#include "jobs/checkpoint/memory_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "base/json.h"
#include "jobs/checkpoint/internal/tree.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShared = "/dev/shm";
constexpr std::string_view kMetricEnd = ".metric.json";
constexpr std::size_t kMetricBytesMax = 65'536;

bool may_be_complete(std::string_view name) {
  return !name.ends_with(".tmp") && !name.ends_with(kMetricEnd) && !name.starts_with(".");
}

Status make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return disk_error(errno, "create", path);
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return disk_error(errno, "look at", path);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 022) == 0) return {};
  return Error{Code::kFailedPrecondition,
               path + " is no folder of this user alone; remove it or name another"};
}

Result<double> parse_metric(const std::string& text) {
  const Value value = FALAJ_TRY(parse_json(text, {.bytes_max = kMetricBytesMax, .depth_max = 8}));
  const Value& metric = value["metric"];
  if (!metric.is_number() || !std::isfinite(metric.as_double())) {
    return Error{Code::kInvalidArgument, "it has no number called metric"};
  }
  return metric.as_double();
}

Result<std::string> name_for(std::string_view use, const std::string& folder) {
  struct statfs info {};
  if (::statfs(kShared, &info) != 0 || info.f_type != TMPFS_MAGIC) {
    return Error{Code::kFailedPrecondition,
                 std::string(kShared) + " is not in memory here; name a folder that is"};
  }
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(folder, error), error);
  return std::string(kShared) + "/falaj-" + std::string(use) + "-" + std::to_string(::geteuid()) +
         "-" + sha256_hex(whole.string()).substr(0, 16);
}

}  // namespace

Result<std::string> MemoryFolder::root_for(const std::string& archive) {
  return name_for("checkpoints", archive);
}

Result<std::string> MemoryFolder::private_root(std::string_view use, const std::string& folder,
                                               std::string_view end) {
  std::string root = FALAJ_TRY(name_for(use, folder)) + std::string(end);
  FALAJ_TRY(make_private(root));
  return root;
}

Result<MemoryFolder> MemoryFolder::open(const std::string& root) {
  MemoryFolder folder;
  folder.root_ = root;
  FALAJ_TRY(make_private(root));
  FALAJ_TRY(make_private(folder.saves_path()));
  FALAJ_TRY(make_private(root + "/taken"));
  folder.saves_ = FALAJ_TRY(open_folder(folder.saves_path()));
  folder.taken_ = FALAJ_TRY(open_folder(root + "/taken"));
  folder.watch_ = Descriptor(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!folder.watch_.valid() ||
      ::inotify_add_watch(folder.watch_.get(), folder.saves_path().c_str(), IN_MOVED_TO) < 0) {
    return disk_error(errno, "watch", folder.saves_path());
  }
  return folder;
}

Result<std::vector<Taken>> MemoryFolder::left_over() {
  const std::vector<std::string> names = FALAJ_TRY(names_in(taken_.get(), root_));
  std::vector<Taken> found;
  for (const std::string& entry : names) {
    const auto number = number_of(entry);
    if (!number) continue;
    const std::string name = entry.substr(entry.find('-') + 1);
    if (name.ends_with(kMetricEnd)) {
      // Moved just before its checkpoint was to follow: it belongs to what is still in `saves`.
      const std::string whole = entry.substr(0, entry.size() - kMetricEnd.size());
      if (std::binary_search(names.begin(), names.end(), whole)) continue;
      ::renameat(taken_.get(), entry.c_str(), saves_.get(), name.c_str());
      continue;
    }
    Result<Taken> taken = describe(*number, name, INT64_MAX);
    if (!taken.ok()) remove_entry(entry);
    if (taken.ok()) found.push_back(std::move(*taken));
  }
  std::sort(found.begin(), found.end(),
            [](const Taken& a, const Taken& b) { return a.number < b.number; });
  return found;
}

Result<std::vector<std::string>> MemoryFolder::complete_now() const {
  std::vector<std::string> names = FALAJ_TRY(names_in(saves_.get(), saves_path()));
  std::vector<std::pair<std::int64_t, std::string>> by_time;
  for (std::string& name : names) {
    struct stat info {};
    if (!may_be_complete(name)) continue;
    if (::fstatat(saves_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    // The change time of an entry is that of its rename.
    by_time.emplace_back(info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec,
                         std::move(name));
  }
  // Times are as coarse as the kernel's tick: of equal ones "step9" is before "step10".
  std::sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first
                              : ::strverscmp(a.second.c_str(), b.second.c_str()) < 0;
  });
  std::vector<std::string> ordered;
  for (auto& [time, name] : by_time) ordered.push_back(std::move(name));
  return ordered;
}

Result<std::vector<std::string>> MemoryFolder::completed() {
  std::vector<std::string> names;
  alignas(inotify_event) char buffer[16'384];
  while (true) {
    const ssize_t got = ::read(watch_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return names;
    if (got <= 0) return disk_error(errno, "watch", saves_path());
    for (const char* at = buffer; at < buffer + got;) {
      inotify_event event{};
      std::memcpy(&event, at, sizeof event);
      const std::string name = event.len > 0 ? at + sizeof event : "";
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) return Error{Code::kDataLoss, "events were lost"};
      if (!name.empty() && may_be_complete(name)) names.push_back(name);
    }
  }
}

Result<std::optional<Taken>> MemoryFolder::take(const std::string& name, std::int64_t number,
                                                std::int64_t bytes_max) {
  const Status good = check_checkpoint_name(name);
  if (!good.ok()) {
    std::error_code ignored;
    fs::remove_all(saves_path() + "/" + name, ignored);
    return good.error().within("'" + name + "'");
  }
  const std::string entry = folder_name(number, name);
  const std::string metric = name + std::string(kMetricEnd);
  const std::string kept_metric = entry + std::string(kMetricEnd);
  // The metric first: a kill in between leaves a metric to be put back, never a lost one.
  ::renameat(saves_.get(), metric.c_str(), taken_.get(), kept_metric.c_str());
  if (::renameat(saves_.get(), name.c_str(), taken_.get(), entry.c_str()) != 0) {
    const int why = errno;
    ::renameat(taken_.get(), kept_metric.c_str(), saves_.get(), metric.c_str());
    if (why == ENOENT) return std::optional<Taken>{};
    return disk_error(why, "take", name);
  }
  Result<Taken> taken = describe(number, name, bytes_max);
  if (taken.ok()) return std::optional<Taken>(std::move(*taken));
  remove_entry(entry);
  return taken.error().within("'" + name + "'");
}

Result<Taken> MemoryFolder::describe(std::int64_t number, const std::string& name,
                                     std::int64_t bytes_max) {
  Taken taken;
  taken.number = number;
  taken.name = name;
  taken.entry = folder_name(number, name);
  TreeOptions options;
  options.bytes_max = bytes_max;
  const Tree tree = FALAJ_TRY(measure_tree(taken_.get(), taken.entry, options));
  for (const FileEntry& file : tree.files) taken.bytes += file.bytes;
  read_metric(taken);
  return taken;
}

void MemoryFolder::read_metric(Taken& taken) const {
  const std::string path = taken.entry + std::string(kMetricEnd);
  const Descriptor file(
      ::openat(taken_.get(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return;
  std::string text(kMetricBytesMax + 1, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  const Result<double> metric = parse_metric(text);
  if (metric.ok()) taken.metric = *metric;
  if (!metric.ok()) taken.metric_refused = taken.name + ".metric.json: " + metric.error().message;
}

void MemoryFolder::remove_entry(const std::string& entry) {
  std::error_code ignored;
  const std::string path = root_ + "/taken/" + entry;
  fs::remove_all(path, ignored);
  fs::remove_all(path + std::string(kMetricEnd), ignored);
}

void MemoryFolder::drop_incomplete() {
  const auto names = names_in(saves_.get(), saves_path());
  if (!names.ok()) return;
  std::error_code ignored;
  for (const std::string& name : *names) {
    if (name.ends_with(".tmp")) fs::remove_all(saves_path() + "/" + name, ignored);
  }
}

void MemoryFolder::remove_all() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

}  // namespace falaj::jobs::checkpoint
