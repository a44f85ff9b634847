#include "exec/internal/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "exec/internal/processors.h"
#include "exec/internal/sandbox.h"

namespace falaj::exec::internal {
namespace {

// The soft limit of open files before raise_descriptor_limit(); 0 if it was not called.
rlim_t usual_descriptors = 0;

// Everything that the child needs, laid out before the fork: it may not allocate.
struct Launch {
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<std::string> env_texts;
  const char* work_dir = nullptr;
  SandboxPlan sandbox;
  int null_fd = -1;
  int log_fd = -1;
  int channel_source = -1;
  int channel_fd = 3;
  std::vector<std::pair<int, int>> inherited;  // From, to.
  int report_fd = -1;
  std::vector<int> group_fds;  // [0]: the one with the memory.
  bool processes_limited = false;
  bool cpu_limited = false;
  bool cpus_bound = false;
  bool io_limited = false;
  bool has_affinity = false;  // To be bound without a group.
  cpu_set_t affinity{};
  std::int64_t processes_max = 0;
  std::int64_t memory_bytes_max = 0;
  std::int64_t file_bytes_max = 0;
  pid_t parent = -1;
  bool keeps_orphans = false;
};

// ---- The child between fork and exec. System calls only, no allocation, no return. ----

[[noreturn]] void give_up(const Launch& launch, Step step) {
  StepReport(launch.report_fd).add(step, errno == 0 ? EIO : errno);
  ::_exit(127);
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Whether the child is inside every group that was made for it.
bool join_groups(const Launch& launch, StepReport& report) {
  if (launch.group_fds.empty()) return false;
  int error = 0;
  for (const int fd : launch.group_fds) {
    if (::write(fd, "0", 1) != 1 && error == 0) error = errno;
  }
  report.add(Step::kMemoryGroup, error);
  if (launch.processes_limited) report.add(Step::kProcessGroup, error);
  if (launch.cpu_limited) report.add(Step::kCpuGroup, error);
  if (launch.cpus_bound) report.add(Step::kCpuSet, error);
  if (launch.io_limited) report.add(Step::kIoGroup, error);
  return error == 0;
}

// Without a group the user's own count is what there is; it does not bind root.
void limit_processes(const Launch& launch, StepReport& report) {
  if (launch.processes_max <= 0 || launch.processes_limited) return;
  const auto count = static_cast<rlim_t>(launch.processes_max);
  const rlimit limit{count, count};
  const bool limited = ::getuid() != 0 && ::setrlimit(RLIMIT_NPROC, &limit) == 0;
  report.add(Step::kProcessLimit, limited ? 0 : EPERM);
}

void limit_memory(const Launch& launch, StepReport& report) {
  if (join_groups(launch, report)) return;
  if (launch.memory_bytes_max <= 0) return;
  const auto bytes = static_cast<rlim_t>(launch.memory_bytes_max);
  const rlimit limit{bytes, bytes};
  const bool limited = ::setrlimit(RLIMIT_DATA, &limit) == 0;
  report.add(Step::kMemoryLimit, limited ? 0 : errno);
}

// It may be undone by the program, unlike a group's.
void bind_without_group(const Launch& launch, StepReport& report) {
  if (!launch.has_affinity || launch.cpus_bound) return;
  const bool bound = ::sched_setaffinity(0, sizeof launch.affinity, &launch.affinity) == 0;
  report.add(Step::kAffinity, bound ? 0 : errno);
}

void limit_files(const Launch& launch) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  rlimit open_files{};
  if (usual_descriptors > 0 && ::getrlimit(RLIMIT_NOFILE, &open_files) == 0) {
    open_files.rlim_cur = usual_descriptors;
    ::setrlimit(RLIMIT_NOFILE, &open_files);
  }
  if (launch.file_bytes_max <= 0) return;
  const auto bytes = static_cast<rlim_t>(launch.file_bytes_max);
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) give_up(launch, Step::kFileLimit);
}

// The program must not run without what was required of its sandbox.
void insist(const Launch& launch, const StepReport& report) {
  const StepSet missing = launch.sandbox.required & ~report.granted();
  for (unsigned step = 0; step < static_cast<unsigned>(Step::kSetUp); ++step) {
    if ((missing & step_bit(static_cast<Step>(step))) == 0) continue;
    StepReport(launch.report_fd).add(Step::kRequired, static_cast<int>(step));
    ::_exit(127);
  }
}

void arrange_descriptors(const Launch& launch) {
  // All of ours lie above the numbers below (see raised(), raise_sandbox()), so no dup2 overwrites
  // one still needed.
  if (::dup2(launch.null_fd, 0) < 0 || ::dup2(launch.log_fd, 1) < 0 ||
      ::dup2(launch.log_fd, 2) < 0) {
    give_up(launch, Step::kSetUp);
  }
  // Marked, not closed: the report pipe must live until exec.
  if (::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0) give_up(launch, Step::kSetUp);
  if (launch.channel_fd >= 0 && ::dup2(launch.channel_source, launch.channel_fd) < 0) {
    give_up(launch, Step::kSetUp);
  }
  for (const auto& [from, to] : launch.inherited) {
    if (::dup2(from, to) < 0) give_up(launch, Step::kSetUp);
  }
}

[[noreturn]] void run_child(const Launch& launch) {
  reset_signals();
  if (::setsid() < 0) give_up(launch, Step::kSetUp);
  StepReport report(launch.report_fd);
  limit_memory(launch, report);
  limit_processes(launch, report);
  bind_without_group(launch, report);
  arrange_descriptors(launch);
  limit_files(launch);
  const Seen seen = enter_view(launch.sandbox);
  if (seen == Seen::kLost) give_up(launch, Step::kSetUp);
  if (::chdir(launch.work_dir) != 0) give_up(launch, Step::kWorkFolder);
  report.add(Step::kNoNewPrivileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno);
  put_on_sandbox(launch.sandbox, seen, report);
  insist(launch, report);
  if (launch.keeps_orphans) ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  // Last, because a change of credentials clears it; and the parent may be gone already.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != launch.parent) ::_exit(127);
  ::execve(launch.argv[0], launch.argv.data(), launch.envp.data());
  give_up(launch, Step::kExecute);
}

// ---- The parent. ----

Error failed(const std::string& what) {
  return Error(Code::kInternal, what + ": " + std::strerror(errno));
}

int highest_target(const ChildSpec& spec) {
  int highest = std::max(spec.channel_fd, 3);
  for (const Inherited& file : spec.inherited) highest = std::max(highest, file.number);
  return highest;
}

// A copy above those numbers that the child will use, close-on-exec.
Fd raised_copy(int fd, const ChildSpec& spec) {
  return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, highest_target(spec) + 1));
}

Fd raised(const Fd& fd, const ChildSpec& spec) {
  return fd.open() ? raised_copy(fd.get(), spec) : Fd();
}

struct ParentEnds {
  Fd channel;
  Fd report;
  Fd output;
};
struct ChildEnds {
  Fd null, log, channel, report;
  std::vector<Fd> inherited;
  std::vector<Fd> entered;  // Copies of what the sandbox enters.
};

// A file that was named, or a pipe to us.
Status open_log(const ChildSpec& spec, ParentEnds& ours, ChildEnds& theirs) {
  if (spec.log_path.empty()) {
    int output[2];
    if (::pipe2(output, O_CLOEXEC) != 0) return failed("open a pipe for the child's output");
    ours.output = Fd(output[0]);
    ::fcntl(output[0], F_SETFL, O_NONBLOCK);
    theirs.log = raised(Fd(output[1]), spec);
  } else {
    theirs.log = raised(Fd(::open(spec.log_path.c_str(),
                                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640)),
                        spec);
  }
  if (!theirs.log.open()) return failed("open the child's log " + spec.log_path);
  return {};
}

Status open_inherited(const ChildSpec& spec, ChildEnds& theirs) {
  for (const Inherited& file : spec.inherited) {
    if (file.number < 3 || file.number == spec.channel_fd || file.file == nullptr) {
      return Error(Code::kInvalidArgument,
                   "a child cannot get a file as its descriptor " + std::to_string(file.number));
    }
    theirs.inherited.push_back(raised_copy(file.file->get(), spec));
    if (!theirs.inherited.back().open()) return failed("duplicate a descriptor for the child");
  }
  return {};
}

Status open_channel(const ChildSpec& spec, ParentEnds& ours, ChildEnds& theirs) {
  if (spec.channel_fd < 0) return {};
  int channel[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) {
    return failed("open a channel to the child");
  }
  ours.channel = Fd(channel[0]);
  theirs.channel = raised(Fd(channel[1]), spec);
  if (!theirs.channel.open()) return failed("duplicate a descriptor");
  return {};
}

Status open_ends(const ChildSpec& spec, ParentEnds& ours, ChildEnds& theirs) {
  FALAJ_TRY(open_channel(spec, ours, theirs));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return failed("open a pipe to the child");
  ours.report = Fd(report[0]);
  theirs.report = raised(Fd(report[1]), spec);
  theirs.null = raised(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)), spec);
  if (!theirs.null.open()) return failed("open /dev/null");
  FALAJ_TRY(open_log(spec, ours, theirs));
  FALAJ_TRY(open_inherited(spec, theirs));
  if (!theirs.report.open()) return failed("duplicate a descriptor");
  return {};
}

Launch lay_out(const ChildSpec& spec, const ControlGroup* group, const ChildEnds& ends) {
  Launch launch;
  for (const std::string& argument : spec.argv) {
    launch.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  launch.argv.push_back(nullptr);
  for (const auto& [name, value] : spec.env) launch.env_texts.push_back(name + "=" + value);
  for (std::string& text : launch.env_texts) launch.envp.push_back(text.data());
  launch.envp.push_back(nullptr);
  launch.work_dir = spec.work_dir.empty() ? "/" : spec.work_dir.c_str();
  launch.sandbox = plan_sandbox(spec.sandbox, spec.argv.front());
  launch.null_fd = ends.null.get();
  launch.log_fd = ends.log.get();
  launch.channel_source = ends.channel.get();
  launch.channel_fd = spec.channel_fd;
  launch.report_fd = ends.report.get();
  if (group != nullptr) {
    launch.group_fds = group->procs_fds();
    launch.processes_limited = group->limits(Controller::kProcesses);
    launch.cpu_limited = group->limits(Controller::kCpu);
    launch.cpus_bound = group->limits(Controller::kCpuSet);
    launch.io_limited = group->limits(Controller::kIo);
  }
  for (const int each : parse_cpu_list(spec.limits.processors)) {
    if (each < CPU_SETSIZE) CPU_SET(each, &launch.affinity);
    launch.has_affinity = true;
  }
  launch.processes_max = spec.limits.processes_max;
  launch.memory_bytes_max = spec.limits.memory_bytes_max;
  launch.file_bytes_max = spec.limits.file_bytes_max;
  for (std::size_t i = 0; i < spec.inherited.size(); ++i) {
    launch.inherited.emplace_back(ends.inherited[i].get(), spec.inherited[i].number);
  }
  launch.parent = ::getpid();
  return launch;
}

// The child uses these after its own descriptors have their numbers: one that lay there would be
// another file by then, and a protection be refused or a wrong place be entered.
Status raise_sandbox(const ChildSpec& spec, SandboxPlan& plan, ChildEnds& theirs) {
  const int highest = highest_target(spec);
  for (Fd* ruleset : {&plan.landlock_files, &plan.landlock_network}) {
    if (!ruleset->open() || ruleset->get() > highest) continue;
    *ruleset = raised(*ruleset, spec);
    if (!ruleset->open()) return failed("duplicate a descriptor for the sandbox");
  }
  for (int* fd : {&plan.network_fd, &plan.view_mounts, &plan.view_root}) {
    if (*fd < 0 || *fd > highest) continue;
    theirs.entered.push_back(raised_copy(*fd, spec));
    if (!theirs.entered.back().open()) return failed("duplicate a descriptor for the sandbox");
    *fd = theirs.entered.back().get();
  }
  return {};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FALAJ_MEMORY_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FALAJ_MEMORY_WATCHED 1
#endif
#endif

// Whether the child may use our memory until it is the program, as posix_spawn does: a copy of a
// large process costs more than all the rest of a start. It may not where it has to become dumpable
// to enter a namespace of users, since our memory would with it, nor under a sanitizer.
bool may_share_memory(const Launch& launch) {
#ifdef FALAJ_MEMORY_WATCHED
  (void)launch;
  return false;
#else
  return !launch.sandbox.enabled || launch.sandbox.privileged;
#endif
}

int run_shared(void* launch) { run_child(*static_cast<const Launch*>(launch)); }

// This thread sleeps until the child is the program or has ended; the others go on.
pid_t clone_child(const Launch& launch) {
  constexpr std::size_t kStackBytes = 256 * 1024;
  thread_local std::unique_ptr<char[]> stack;
  if (!stack) stack.reset(new char[kStackBytes]);
  return ::clone(&run_shared, stack.get() + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD,
                 const_cast<Launch*>(&launch));
}

pid_t fork_child(const Launch& launch) {
  // A handler of the server must never run in the half-made child.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = -1;
  if (may_share_memory(launch)) {
    pid = clone_child(launch);
  } else {
    pid = ::fork();
    if (pid == 0) run_child(launch);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

Error not_granted(const ChildSpec& spec, const std::string& name, const Spawned& out) {
  std::string reason = "it is not in use here";
  for (const std::string& refused : out.protections_refused) {
    if (refused.starts_with(name + ": ")) reason = refused.substr(name.size() + 2);
  }
  return Error(Code::kFailedPrecondition,
               "start " + spec.argv.front() + ": this machine does not grant the protection '" +
                   name + "' (" + reason +
                   "), which the sandbox requires; run 'falaj doctor', or set "
                   "jobs.sandbox=best_effort to run without it");
}

Error start_failure(const ChildSpec& spec, const StepRecord& record, const Spawned& out) {
  if (record.step == Step::kRequired) {
    return not_granted(spec, std::string(step_name(static_cast<Step>(record.error))), out);
  }
  const bool missing =
      record.step == Step::kExecute && (record.error == ENOENT || record.error == ENOTDIR);
  const std::string& subject = record.step == Step::kWorkFolder ? spec.work_dir : spec.argv.front();
  return Error(missing ? Code::kNotFound : Code::kInternal,
               "start " + spec.argv.front() + ": cannot " + std::string(step_name(record.step)) +
                   " '" + subject + "': " + std::strerror(record.error));
}

// Reads records until the pipe closes, which it does when the program begins.
Result<Beginning> read_report(const ChildSpec& spec, Spawned& out) {
  StepRecord record{};
  while (true) {
    const ssize_t got = ::read(out.report.get(), &record, sizeof record);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Beginning::kNotYet;
    if (got != static_cast<ssize_t>(sizeof record)) return Beginning::kBegun;
    if (record.step >= Step::kSetUp) return start_failure(spec, record, out);
    std::string name(step_name(record.step));
    if (record.error == 0) {
      if (record.step == Step::kMemoryGroup) out.in_memory_group = true;
      out.protections.push_back(std::move(name));
    } else {
      out.protections_refused.push_back(name + ": " + std::strerror(record.error));
    }
  }
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

void raise_descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  usual_descriptors = files.rlim_cur;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

Result<Spawned> spawn(const ChildSpec& spec, const SpawnOptions& options) {
  if (spec.argv.empty() || !spec.argv.front().starts_with('/')) {
    return Error(Code::kInvalidArgument, "a child's program must be an absolute path");
  }
  const StepSet required = FALAJ_TRY(steps_named(spec.sandbox.required));
  ParentEnds ours;
  Spawned out;
  {
    ChildEnds theirs;
    FALAJ_TRY(open_ends(spec, ours, theirs));
    Launch launch = lay_out(spec, options.group, theirs);
    launch.sandbox.required = required;
    launch.keeps_orphans = options.orphans == Orphans::kItsOwn;
    if (!spec.sandbox.network) launch.sandbox.network_fd = options.network;
    if (options.view != nullptr) {
      launch.sandbox.view_mounts = options.view->mounts.get();
      launch.sandbox.view_root = options.view->root.get();
    }
    FALAJ_TRY(raise_sandbox(spec, launch.sandbox, theirs));
    out.pid = fork_child(launch);
    if (out.pid < 0) return failed("fork");
  }
  // The process is ours and not reaped, so its number cannot be anyone else's yet.
  out.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, out.pid, 0)));
  if (!out.pidfd.open()) {
    const Error error = failed("open a pidfd");
    ::kill(out.pid, SIGKILL);
    reap(out.pid);
    return error;
  }
  out.channel = std::move(ours.channel);
  out.output = std::move(ours.output);
  out.report = std::move(ours.report);
  ::fcntl(out.report.get(), F_SETFL, O_NONBLOCK);
  return out;
}

Result<Beginning> take_report(const ChildSpec& spec, Spawned& child) {
  auto beginning = read_report(spec, child);
  if (!beginning.ok()) {
    ::kill(child.pid, SIGKILL);
    reap(child.pid);
  }
  if (!beginning.ok() || *beginning == Beginning::kBegun) child.report.reset();
  return beginning;
}

}  // namespace falaj::exec::internal
