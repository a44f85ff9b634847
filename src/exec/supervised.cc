#include "exec/internal/supervised.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/log.h"

namespace falaj::exec::internal {
namespace {

// How often memory is looked at when there is no control group to watch it.
constexpr std::int64_t kWatchNanos = 20'000'000;
// How often the work folder is measured, if that takes no more than a tenth of the time; and how
// many of its names in one go, about a millisecond's worth, also at the end.
constexpr std::int64_t kDiskNanos = 1'000'000'000;
constexpr int kDiskNames = 500;
constexpr int kDiskNamesLast = 20'000;

// The start of a small file of the kernel's; "" if there is none.
std::string proc_text(std::int64_t pid, const char* name) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%lld/%s", static_cast<long long>(pid), name);
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file.open() ? ::read(file.get(), text, sizeof text) : 0;
  return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
}

std::int64_t number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Field n of /proc/PID/stat, counted from 1 as in proc(5); only those behind the program's name.
std::int64_t stat_field(const std::string& stat, int n) {
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < n && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : number_at(std::string_view(stat).substr(at));
}

std::int64_t resident_bytes(std::int64_t pid) {
  const std::string text = proc_text(pid, "statm");
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return 0;
  return number_at(std::string_view(text).substr(blank)) * ::sysconf(_SC_PAGESIZE);
}

std::int64_t after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string::npos ? 0 : number_at(std::string_view(text).substr(at + key.size()));
}

// With what its children used that it has waited for.
void add_process(std::int64_t pid, TreeUsage& sum) {
  const std::string stat = proc_text(pid, "stat");
  std::int64_t ticks = 0;
  for (int field = 14; field <= 17; ++field) ticks += stat_field(stat, field);
  sum.cpu_time.nanos += ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  const std::string io = proc_text(pid, "io");
  sum.read_bytes += after(io, "\nread_bytes: ");
  sum.written_bytes += after(io, "\nwrite_bytes: ");
}

std::int64_t nanos_of(const timeval& t) {
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_usec * 1'000;
}

std::vector<std::string> measured(const ChildSpec& spec) {
  std::vector<std::string> folders = spec.limits.disk_folders;
  folders.push_back(spec.work_dir);
  return folders;
}

// "254:0", the whole disk below a folder; "" when there is none.
std::string disk_of(const std::string& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0 || ::major(about.st_dev) == 0) return "";
  const auto name = [](unsigned a, unsigned b) {
    return std::to_string(a) + ":" + std::to_string(b);
  };
  const std::string own = name(::major(about.st_dev), ::minor(about.st_dev));
  const std::string device = "/sys/dev/block/" + own;
  // Of a part of a disk the folder above is the disk's.
  if (::access((device + "/partition").c_str(), F_OK) != 0) return own;
  const Fd file(::open((device + "/../dev").c_str(), O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t got = file.open() ? ::read(file.get(), text, sizeof text) : 0;
  std::string disk(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  disk.resize(std::min(disk.find('\n'), disk.size()));
  return disk;
}

std::unique_ptr<ControlGroup> make_group(const Limits& limits, const std::string& work_dir,
                                         const SupervisedOptions& options,
                                         std::vector<std::string>& refused) {
  GroupLimits wanted{limits.memory_bytes_max,
                     limits.processes_max,
                     limits.cpus_max,
                     limits.processors,
                     limits.memory_nodes,
                     limits.io_bytes_max,
                     {}};
  if (wanted.io_bytes_max > 0) wanted.io_device = disk_of(work_dir);
  if (options.groups != nullptr) {
    if (auto spare = options.groups->take(wanted)) return spare;
  }
  auto group = ControlGroup::create(wanted, options.group_tag);
  if (!group.ok()) {
    refused.push_back("cgroup-memory: " + group.error().message);
    return nullptr;
  }
  refused = (*group)->refused();
  return std::move(group).value();
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The view that a child has made. Null while it is still in ours, as a copy of us is that has not
// come that far: whoever entered that later would see every process.
ViewPtr own_view_of(int pid) {
  ViewPtr view = view_of(pid);
  struct stat its {};
  struct stat ours {};
  if (!view || ::fstat(view->mounts.get(), &its) != 0 || ::stat("/proc/self/ns/mnt", &ours) != 0) {
    return nullptr;
  }
  const bool same = its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
  return same ? nullptr : view;
}

// Those that wards without a group left behind: each kept its own until it ended, so whoever is a
// child of the main thread, which starts nothing itself, is nobody's any more. False while there
// are some. Call it on the main thread.
bool end_orphans() {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", ::getpid());
  bool none = true;
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t got = file.open() ? ::read(file.get(), text, sizeof text) : 0;
  std::string_view rest(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (rest.find_first_of("0123456789") != std::string_view::npos) {
    const auto pid = static_cast<pid_t>(number_at(rest));
    rest.remove_prefix(std::min(rest.find(' '), rest.size() - 1) + 1);
    ::kill(pid, SIGKILL);
    if (::waitpid(pid, nullptr, WNOHANG | __WALL) != pid) none = false;
  }
  return none;
}

}  // namespace

std::int64_t birth_of(std::int64_t pid) { return stat_field(proc_text(pid, "stat"), 22); }

Result<std::unique_ptr<Supervised>> Supervised::start(const ChildSpec& spec,
                                                      const SupervisedOptions& options) {
  std::unique_ptr<Supervised> out = FALAJ_TRY(begin(spec, options));
  while (!FALAJ_TRY(out->has_begun())) {
    pollfd waited{out->process_.report.get(), POLLIN, 0};
    ::poll(&waited, 1, -1);
  }
  return out;
}

Result<std::unique_ptr<Supervised>> Supervised::begin(const ChildSpec& spec,
                                                      const SupervisedOptions& options) {
  std::unique_ptr<Supervised> out(new Supervised);
  const Limits& limits = spec.limits;
  out->spec_ = spec;
  if (options.group == GroupUse::kAlways || spec.sandbox.enabled || limits.memory_bytes_max > 0 ||
      limits.processes_max > 0 || limits.cpus_max > 0 || !limits.processors.empty() ||
      limits.io_bytes_max > 0) {
    out->group_ = make_group(limits, spec.work_dir, options, out->refused_);
  }
  const bool own_network = options.networks != nullptr && spec.sandbox.enabled &&
                           !spec.sandbox.network && ::geteuid() == 0;
  if (own_network) out->network_ = options.networks->take();
  ViewPtr view;
  if (spec.sandbox.enabled && ::geteuid() == 0) out->views_ = options.views;
  if (out->views_ != nullptr) view = out->views_->take(monotonic_nanos());
  // Without a group nothing else tells whose a process is that has left its session.
  const bool alone = options.group == GroupUse::kAlways && !out->group_;
  out->keeps_orphans_ = alone;
  if (alone) ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  out->process_ = FALAJ_TRY(spawn(spec, {out->group_.get(), out->network_.get(), view.get(),
                                         alone ? Orphans::kItsOwn : Orphans::kOfTheMachine}));
  // It made its own, then: looked at now, since a short one is gone in a moment.
  if (own_network && !out->network_.open()) out->network_ = network_of(out->process_.pid);
  if (out->views_ != nullptr && !view) out->made_view_ = own_view_of(out->process_.pid);
  return out;
}

Result<bool> Supervised::has_begun() {
  if (FALAJ_TRY(take_report(spec_, process_)) == Beginning::kNotYet) return false;
  const Limits& limits = spec_.limits;
  for (const std::string& name : process_.protections_refused) {
    log::warn("sandbox protection refused", {{"protection", name}, {"pid", process_.pid}});
    refused_.push_back(name);
  }
  started_ = monotonic_nanos();
  if (made_view_ && has(process_.protections, "hidden-processes")) {
    views_->keep(std::exchange(made_view_, nullptr), started_);
  }
  if (limits.run_time_max.nanos > 0) stop_at_ = started_ + limits.run_time_max.nanos;
  watch_memory_ = limits.memory_bytes_max > 0 && !process_.in_memory_group;
  if (limits.disk_bytes_max > 0) {
    disk_.emplace(measured(spec_), limits.disk_bytes_max);
    disk_at_ = started_ + kDiskNanos;
  }
  return true;
}

// Its leader is not reaped yet, so the number is still its own.
void Supervised::signal_group(int signal) const { ::kill(-process_.pid, signal); }

void Supervised::ask_to_end(ExitReason reason, std::int64_t now) {
  if (ending_) return;
  ending_ = true;
  reason_ = reason;
  signal_group(SIGTERM);
  kill_at_ = now + std::max<std::int64_t>(spec_.limits.grace.nanos, 0);
}

void Supervised::kill_now(ExitReason reason) {
  if (!ending_) reason_ = reason;
  ending_ = true;
  kill_at_ = kNever;
  kill_tree();
}

void Supervised::kill_tree() const {
  if (group_) group_->kill_all();
  signal_group(SIGKILL);
  ::kill(process_.pid, SIGKILL);  // It may not lead its group yet.
}

void Supervised::keep_deadlines(std::int64_t now) {
  if (now >= stop_at_) ask_to_end(ExitReason::kTimedOut, now);
  if (now >= kill_at_) kill_now(reason_.value_or(ExitReason::kStopped));
  if (watch_memory_ && resident_bytes(process_.pid) > spec_.limits.memory_bytes_max / 10 * 9) {
    watch_memory_ = false;
    kill_now(ExitReason::kOutOfMemory);
  }
  if (now >= disk_at_) look_at_disk();
}

void Supervised::look_at_disk() {
  const std::int64_t before = monotonic_nanos();
  const FolderMeter::Found found = disk_->look(kDiskNames);
  const std::int64_t after = monotonic_nanos();
  disk_spent_ += after - before;
  if (found == FolderMeter::Found::kNotYet) {
    disk_at_ = after;
    return;
  }
  disk_at_ = after + std::max(kDiskNanos, 10 * disk_spent_);
  disk_spent_ = 0;
  if (found != FolderMeter::Found::kTooMuch) return;
  disk_at_ = kNever;
  kill_now(ExitReason::kOutOfDisk);
}

std::int64_t Supervised::wake_at(std::int64_t now) const {
  const std::int64_t until = std::min({kill_at_, disk_at_, ending_ ? kNever : stop_at_});
  return watch_memory_ ? std::min(until, now + kWatchNanos) : until;
}

TreeUsage Supervised::usage() const {
  TreeUsage sum;
  std::vector<std::int64_t> members{process_.pid};
  if (group_ && process_.in_memory_group) members = group_->members();
  for (const std::int64_t pid : members) add_process(pid, sum);
  sum.memory_bytes = group_ && process_.in_memory_group ? group_->resident_bytes() : 0;
  if (sum.memory_bytes == 0) {
    for (const std::int64_t pid : members) sum.memory_bytes += resident_bytes(pid);
  }
  return sum;
}

bool Supervised::tree_has_ended() const {
  if (!group_ || !process_.in_memory_group) {
    kill_tree();
    return !keeps_orphans_ || end_orphans();
  }
  // The process itself, ended and not reaped, may still be listed.
  const auto alone = [this] {
    const std::vector<std::int64_t> left = group_->members();
    return std::all_of(left.begin(), left.end(),
                       [this](std::int64_t pid) { return pid == process_.pid; });
  };
  if (alone()) return true;
  kill_tree();
  return alone();
}

// At the end: who filled it between two looks, or met the greatest size of one file.
bool Supervised::fills_too_much() const {
  FolderMeter meter(measured(spec_), spec_.limits.disk_bytes_max);
  return meter.look(kDiskNamesLast) == FolderMeter::Found::kTooMuch;
}

Fd Supervised::take_network() { return network_clean_ ? std::move(network_) : Fd(); }

ChildExit Supervised::reap() {
  ChildExit end;
  int status = 0;
  rusage usage{};
  while (::wait4(process_.pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  // In a network that was the machine's, or that it could change, nobody else is to be put.
  network_clean_ = group_ && process_.in_memory_group && has(process_.protections, "netns") &&
                   has(process_.protections, "landlock");
  end.protections = std::move(process_.protections);
  end.protections_refused = std::move(refused_);
  const bool signalled = WIFSIGNALED(status);
  end.by_signal = signalled;
  end.code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  end.reason = reason_.value_or(signalled ? ExitReason::kSignalled : ExitReason::kExited);
  // The kernel's kill for want of memory looks like any other SIGKILL but for the counter.
  const bool counted = process_.in_memory_group && group_;
  if (counted && group_->out_of_memory()) {
    end.reason = ExitReason::kOutOfMemory;
  } else if (disk_ && !reason_ && fills_too_much()) {
    end.reason = ExitReason::kOutOfDisk;
  }
  end.cpu_time = Duration{nanos_of(usage.ru_utime) + nanos_of(usage.ru_stime)};
  // ru_maxrss counts this process's own pages from before the exec; the group's peak does not.
  const std::int64_t peak = counted ? group_->peak_bytes() : 0;
  end.memory_peak_bytes = peak > 0 ? peak : std::int64_t{usage.ru_maxrss} * 1024;
  return end;
}

}  // namespace falaj::exec::internal
