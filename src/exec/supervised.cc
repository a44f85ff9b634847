#include "exec/internal/supervised.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
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

std::unique_ptr<ControlGroup> make_group(const Limits& limits, const SupervisedOptions& options,
                                         std::vector<std::string>& refused) {
  auto group = ControlGroup::create(
      {limits.memory_bytes_max, limits.processes_max, limits.cpus_max}, options.group_tag);
  if (!group.ok()) {
    refused.push_back("cgroup-memory: " + group.error().message);
    return nullptr;
  }
  refused = (*group)->refused();
  return std::move(group).value();
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
      limits.processes_max > 0 || limits.cpus_max > 0) {
    out->group_ = make_group(limits, options, out->refused_);
  }
  out->process_ = FALAJ_TRY(spawn(spec, out->group_.get()));
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
  if (limits.run_time_max.nanos > 0) stop_at_ = started_ + limits.run_time_max.nanos;
  watch_memory_ = limits.memory_bytes_max > 0 && !process_.in_memory_group;
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
}

std::int64_t Supervised::wake_at(std::int64_t now) const {
  const std::int64_t until = std::min(kill_at_, ending_ ? kNever : stop_at_);
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
  kill_tree();
  if (!group_) return true;
  // The process itself, ended and not reaped, may still be listed.
  const std::vector<std::int64_t> left = group_->members();
  return std::all_of(left.begin(), left.end(),
                     [this](std::int64_t pid) { return pid == process_.pid; });
}

ChildExit Supervised::reap() {
  ChildExit end;
  int status = 0;
  rusage usage{};
  while (::wait4(process_.pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  end.protections = std::move(process_.protections);
  end.protections_refused = std::move(refused_);
  const bool signalled = WIFSIGNALED(status);
  end.by_signal = signalled;
  end.code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  end.reason = reason_.value_or(signalled ? ExitReason::kSignalled : ExitReason::kExited);
  // The kernel's kill for want of memory looks like any other SIGKILL but for the counter.
  const bool counted = process_.in_memory_group && group_;
  if (counted && group_->out_of_memory()) end.reason = ExitReason::kOutOfMemory;
  end.cpu_time = Duration{nanos_of(usage.ru_utime) + nanos_of(usage.ru_stime)};
  // ru_maxrss counts this process's own pages from before the exec; the group's peak does not.
  const std::int64_t peak = counted ? group_->peak_bytes() : 0;
  end.memory_peak_bytes = peak > 0 ? peak : std::int64_t{usage.ru_maxrss} * 1024;
  return end;
}

}  // namespace falaj::exec::internal
