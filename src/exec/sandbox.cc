#include "exec/sandbox.h"

#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "base/time.h"
#include "exec/internal/sandbox.h"

namespace falaj::exec {
namespace internal {
namespace {

// Newer than the oldest headers that we build with; the numbers are the kernel's interface.
constexpr std::uint64_t kTruncate = 1ull << 14;       // ABI 3
constexpr std::uint64_t kIoctlDevice = 1ull << 15;    // ABI 5
constexpr std::uint64_t kTcpBindAndConnect = 3;       // ABI 4
constexpr std::uint64_t kScopeSocketsAndSignals = 3;  // ABI 6
constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kReadExecute = kRead | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr std::uint64_t kReadWriteFile =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;
constexpr std::uint64_t kFileRights = LANDLOCK_ACCESS_FS_EXECUTE | kReadWriteFile | kIoctlDevice;

struct RulesetAttributes {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scoped = 0;
};

long landlock_abi() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

std::size_t attributes_size(long abi) { return abi >= 6 ? 24 : abi >= 4 ? 16 : 8; }

std::uint64_t handled_rights(long abi) {
  std::uint64_t rights = (1ull << 13) - 1;
  if (abi >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDevice;
  return rights;
}

// The last library's folders too: what this process could load, its own engine can load.
std::set<std::string> loaded_library_folders() {
  std::set<std::string> folders;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::size_t slash = path.rfind('/');
        if (path.starts_with('/') && slash > 0) {
          static_cast<std::set<std::string>*>(out)->insert(path.substr(0, slash));
        }
        return 0;
      },
      &folders);
  return folders;
}

void allow(int ruleset, std::uint64_t handled, const Fd& place, std::uint64_t rights) {
  if (!place.open()) return;  // What does not exist needs no permission.
  struct stat about {};
  if (::fstat(place.get(), &about) == 0 && !S_ISDIR(about.st_mode)) rights &= kFileRights;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights & handled;
  rule.parent_fd = place.get();
  ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

void allow(int ruleset, std::uint64_t handled, const std::string& path, std::uint64_t rights) {
  allow(ruleset, handled, Fd(::open(path.c_str(), O_PATH | O_CLOEXEC)), rights);
}

// The program itself, when it is a plain file and no link is on the way to it: who may choose the
// path could turn a link to any file or folder while this looks, and back before it is started.
void allow_program(int ruleset, std::uint64_t handled, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const Fd place(
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  struct stat about {};
  if (!place.open() || ::fstat(place.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  allow(ruleset, handled, place, kReadExecute);
}

// A place that every program may use.
struct SystemPlace {
  Fd place;
  std::uint64_t rights = 0;
};
using SystemPlaces = std::vector<SystemPlace>;

// The system as every program needs it: libraries, time zones, user names; no keys and no hashes.
SystemPlaces open_system() {
  SystemPlaces out;
  const auto add = [&](const std::string& path, std::uint64_t rights) {
    Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (place.open()) out.push_back({std::move(place), rights});
  };
  for (const char* path : {"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/alternatives"}) {
    add(path, kReadExecute);
  }
  for (const char* path : {"/etc/ld.so.cache",
                           "/etc/ld.so.conf",
                           "/etc/ld.so.conf.d",
                           "/etc/localtime",
                           "/etc/timezone",
                           "/etc/nsswitch.conf",
                           "/etc/passwd",
                           "/etc/group",
                           "/etc/hosts",
                           "/etc/resolv.conf",
                           "/etc/ssl/certs",
                           "/etc/ssl/openssl.cnf",
                           "/etc/python3",
                           "/etc/python3.11",
                           "/proc",
                           "/sys/devices/system/cpu",
                           "/sys/devices/system/node",
                           "/sys/kernel/mm/transparent_hugepage",
                           "/dev/random",
                           "/dev/urandom"}) {
    add(path, kRead);
  }
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/tty"}) {
    add(path, kReadWriteFile);
  }
  for (const std::string& folder : loaded_library_folders()) add(folder, kReadExecute);
  return out;
}

// Gloo looks among the PCI devices for what stands behind an interface, and fails when it may not:
// which there are, and of which class each is.
SystemPlaces open_pci_classes() {
  SystemPlaces out;
  const std::string devices = "/sys/bus/pci/devices";
  const auto add = [&](const std::string& path) {
    Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (place.open()) out.push_back({std::move(place), kRead});
  };
  add(devices);
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(devices, error)) {
    add(device.path().string() + "/class");
  }
  return out;
}

Mutex system_mutex;

// Looked up at most once a second: a file may be replaced, and many children start in a second.
class FreshPlaces {
 public:
  explicit FreshPlaces(SystemPlaces (*look)()) : look_(look) {}
  std::shared_ptr<const SystemPlaces> get() {
    constexpr std::int64_t kFreshNanos = 1'000'000'000;
    MutexLock lock(system_mutex);
    const std::int64_t now = monotonic_nanos();
    if (!places_ || now - looked_at_ > kFreshNanos) {
      places_ = std::make_shared<const SystemPlaces>(look_());
      looked_at_ = now;
    }
    return places_;
  }

 private:
  SystemPlaces (*look_)();
  std::shared_ptr<const SystemPlaces> places_ FALAJ_GUARDED_BY(system_mutex);
  std::int64_t looked_at_ FALAJ_GUARDED_BY(system_mutex) = 0;
};

void allow_all(int ruleset, std::uint64_t handled, FreshPlaces& places) {
  const auto all = places.get();
  for (const SystemPlace& each : *all) allow(ruleset, handled, each.place, each.rights);
}

void allow_system(int ruleset, std::uint64_t handled) {
  static FreshPlaces places(open_system);
  allow_all(ruleset, handled, places);
}

void allow_pci_classes(int ruleset, std::uint64_t handled) {
  static FreshPlaces places(open_pci_classes);
  allow_all(ruleset, handled, places);
}

Fd create_ruleset(const RulesetAttributes& attributes, long abi) {
  return Fd(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, attributes_size(abi), 0)));
}

void plan_landlock(SandboxPlan& plan, const Sandbox& sandbox, const std::string& program) {
  const long abi = landlock_abi();
  if (abi <= 0) {
    plan.landlock_error = errno;
    return;
  }
  RulesetAttributes attributes;
  attributes.files = handled_rights(abi);
  if (abi >= 6) attributes.scoped = kScopeSocketsAndSignals;
  plan.landlock_files = create_ruleset(attributes, abi);
  if (!plan.landlock_files.open()) {
    plan.landlock_error = errno;
    return;
  }
  const int ruleset = plan.landlock_files.get();
  plan.landlock_read = kRead & attributes.files;
  allow_system(ruleset, attributes.files);
  allow_program(ruleset, attributes.files, program);
  if (sandbox.interfaces) allow_pci_classes(ruleset, attributes.files);
  for (const std::string& path : sandbox.read_only) {
    allow(ruleset, attributes.files, path, kReadExecute);
  }
  for (const std::string& path : sandbox.read_write) {
    const Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
    // A device that is named by itself is to be used; one in a folder is there by accident.
    struct stat about {};
    const bool device = place.open() && ::fstat(place.get(), &about) == 0 && S_ISCHR(about.st_mode);
    allow(ruleset, attributes.files, place,
          device ? kReadWriteFile | kIoctlDevice : attributes.files & ~kIoctlDevice);
  }
  if (!sandbox.network && abi >= 4) {
    RulesetAttributes no_tcp;
    no_tcp.network = kTcpBindAndConnect;
    plan.landlock_network = create_ruleset(no_tcp, abi);
  }
}

// ---- From here on: the child between fork and exec. System calls only, no allocation. ----

bool write_file(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

// Programs that talk to themselves over 127.0.0.1 still may.
void bring_up_loopback() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP;
  ::ioctl(fd, SIOCSIFFLAGS, &request);
  ::close(fd);
}

// In its new user namespace the child is who it was, and nobody else is there.
int map_own_ids(const SandboxPlan& plan) {
  // Of a process that may not be dumped, /proc/self is root's; the program that follows starts
  // dumpable anyway. Root needs nothing for it, and must not: it may share the server's memory
  // (spawn.cc), whose state this is.
  if (!plan.privileged) ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  const bool mapped = write_file("/proc/self/setgroups", "deny") &&
                      write_file("/proc/self/uid_map", plan.uid_map) &&
                      write_file("/proc/self/gid_map", plan.gid_map);
  return mapped ? 0 : errno;
}

int enter_namespaces(const SandboxPlan& plan) {
  int flags = CLONE_NEWIPC | CLONE_NEWUTS;
  const bool entered = plan.network_fd >= 0 && ::setns(plan.network_fd, CLONE_NEWNET) == 0;
  if (!plan.network && !entered) flags |= CLONE_NEWNET;
  if (!plan.privileged) flags |= CLONE_NEWUSER;
  if (::unshare(flags) != 0) return errno;
  const int mapped = plan.privileged ? 0 : map_own_ids(plan);
  if (mapped != 0) return mapped;
  if (!plan.network && !entered) bring_up_loopback();
  return 0;
}

// Root's child leaves root's user namespace last, when it has mounted what only root may: from here
// on the machine's root is a stranger's name, and no capability that a fault of the kernel might
// give back counts outside.
int leave_root(const SandboxPlan& plan) {
  if (::unshare(CLONE_NEWUSER) != 0) return errno;
  return map_own_ids(plan);
}

// A /proc of its own that shows what it may trace, and Landlock grants that of nobody outside:
// other jobs' command lines and environments are not there. Only who may mount can have one, and a
// namespace of users does not make one such.
int hide_processes(const SandboxPlan& plan) {
  if (!plan.privileged) return EPERM;
  if (!plan.landlock_files.open()) return ENOSYS;
  if (::unshare(CLONE_NEWNS) != 0) return errno;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=ptraceable") !=
      0) {
    return errno;
  }
  landlock_path_beneath_attr rule{};
  rule.allowed_access = plan.landlock_read;
  rule.parent_fd = ::open("/proc", O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) return errno;
  const long added = ::syscall(SYS_landlock_add_rule, plan.landlock_files.get(),
                               LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  const int error = added == 0 ? 0 : errno;
  ::close(rule.parent_fd);
  return error;
}

int restrict_with(int ruleset) {
  return ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : errno;
}

int drop_capabilities() {
  for (int capability = 0; capability <= 63; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL) return errno;
    break;  // The kernel's last one was the one before.
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  return ::syscall(SYS_capset, &header, none) == 0 ? 0 : errno;
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Calls that no training program needs and that widen the kernel's surface.
constexpr std::uint32_t kRefusedCalls[] = {SYS_ptrace,
                                           SYS_process_vm_readv,
                                           SYS_process_vm_writev,
                                           SYS_mount,
                                           SYS_umount2,
                                           SYS_pivot_root,
                                           SYS_chroot,
                                           SYS_swapon,
                                           SYS_swapoff,
                                           SYS_reboot,
                                           SYS_init_module,
                                           SYS_finit_module,
                                           SYS_delete_module,
                                           SYS_kexec_load,
                                           SYS_bpf,
                                           SYS_perf_event_open,
                                           SYS_userfaultfd,
                                           SYS_keyctl,
                                           SYS_add_key,
                                           SYS_request_key,
                                           SYS_setns,
                                           SYS_unshare,
                                           SYS_open_by_handle_at,
                                           SYS_acct,
                                           SYS_settimeofday,
                                           SYS_clock_settime,
                                           SYS_sethostname,
                                           SYS_setdomainname,
                                           SYS_io_uring_setup,
                                           SYS_fsopen,
                                           SYS_move_mount,
                                           SYS_open_tree,
                                           SYS_pidfd_getfd,
                                           SYS_quotactl,
                                           SYS_syslog,
                                           SYS_kcmp};

// A new namespace gives back capabilities inside it, and with them much of the kernel's surface.
constexpr std::uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                          CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                          CLONE_NEWNET;

// Families of sockets that a child may open: others (packets, Bluetooth, the kernel's own) are
// doors that no training program needs, and behind those with a path (AF_UNIX) stand the machine's
// own services, which neither Landlock nor a network of its own keeps from it; pairs of them stay.
// Where the machine's network was to be out of reach and no own one was granted, none are left.
constexpr std::uint32_t kFamilies[] = {AF_INET, AF_INET6};
enum class Reach : std::uint8_t { kOwnNetwork, kAndItsInterfaces, kNothing };

int refuse_calls(Reach reach) {
  constexpr std::size_t kCalls = std::size(kRefusedCalls);
  constexpr std::size_t kFamiliesMost = std::size(kFamilies);
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  sock_filter program[kCalls + kFamiliesMost + 22];
  std::size_t n = 0;
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  program[n++] = load(offsetof(seccomp_data, arch));
  program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, kRefuse);
  program[n++] = load(offsetof(seccomp_data, nr));
  // The x32 numbers are a second door to the same calls.
  program[n++] = BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, kRefuse);
  // The flags of clone3 lie in memory, where a filter cannot look: libc falls back to clone.
  program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
  program[n++] = load(offsetof(seccomp_data, args));  // The low half: both machines are so ordered.
  program[n++] = BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNamespaceFlags, 0, 1);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, kRefuse);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const std::size_t families = reach == Reach::kNothing ? 0 : kFamiliesMost;
  const std::size_t to_refusal = families + (reach == Reach::kAndItsInterfaces ? 3 : 0);
  program[n++] =
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, static_cast<std::uint8_t>(to_refusal + 3));
  program[n++] = load(offsetof(seccomp_data, args));
  for (std::size_t i = 0; i < families; ++i) {
    program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kFamilies[i],
                            static_cast<std::uint8_t>(to_refusal - i), 0);
  }
  if (reach == Reach::kAndItsInterfaces) {
    program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 2);
    program[n++] = load(offsetof(seccomp_data, args) + 2 * sizeof(seccomp_data::args[0]));
    program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_ROUTE, 1, 0);
  }
  program[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  for (std::size_t i = 0; i < kCalls; ++i) {
    program[n++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRefusedCalls[i],
                            static_cast<std::uint8_t>(kCalls - i), 0);
  }
  program[n++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[n++] = BPF_STMT(BPF_RET | BPF_K, kRefuse);
  const sock_fprog filter{static_cast<unsigned short>(n), program};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0 ? 0 : errno;
}

}  // namespace

std::string_view step_name(Step step) {
  switch (step) {
    case Step::kNoNewPrivileges:
      return "no_new_privs";
    case Step::kMemoryGroup:
      return "cgroup-memory";
    case Step::kProcessGroup:
      return "cgroup-pids";
    case Step::kCpuGroup:
      return "cgroup-cpu";
    case Step::kCpuSet:
      return "cgroup-cpuset";
    case Step::kIoGroup:
      return "cgroup-io";
    case Step::kAffinity:
      return "affinity";
    case Step::kProcessLimit:
      return "rlimit-processes";
    case Step::kMemoryLimit:
      return "rlimit-memory";
    case Step::kNamespaces:
      return "netns";
    case Step::kProcesses:
      return "hidden-processes";
    case Step::kUsers:
      return "userns";
    case Step::kLandlockFiles:
      return "landlock";
    case Step::kLandlockNetwork:
      return "landlock-network";
    case Step::kCapabilities:
      return "no-capabilities";
    case Step::kSystemCalls:
      return "seccomp";
    case Step::kSetUp:
      return "set up descriptors";
    case Step::kFileLimit:
      return "limit the size of files of";
    case Step::kWorkFolder:
      return "enter the work folder";
    case Step::kRequired:
      return "put on a required protection";
    case Step::kExecute:
      return "execute the program";
  }
  return "unknown";
}

SandboxPlan plan_sandbox(const Sandbox& sandbox, const std::string& program) {
  SandboxPlan plan;
  plan.enabled = sandbox.enabled;
  plan.network = sandbox.network;
  plan.interfaces = sandbox.interfaces;
  if (!sandbox.enabled) return plan;
  plan.privileged = ::geteuid() == 0;
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  plan.uid_map = uid + " " + uid + " 1";
  plan.gid_map = gid + " " + gid + " 1";
  plan_landlock(plan, sandbox, program);
  return plan;
}

Result<StepSet> steps_named(const std::vector<std::string>& names) {
  StepSet steps = 0;
  for (const std::string& name : names) {
    StepSet found = 0;
    for (unsigned i = 0; i < static_cast<unsigned>(Step::kSetUp); ++i) {
      if (step_name(static_cast<Step>(i)) == name) found = step_bit(static_cast<Step>(i));
    }
    if (found == 0) {
      return Error(Code::kInvalidArgument,
                   "a sandbox cannot require '" + name + "': there is no protection of that name");
    }
    steps |= found;
  }
  return steps;
}

void StepReport::add(Step step, int error) {
  if (error == 0) granted_ |= step_bit(step);
  const StepRecord record{step, error};
  // Below PIPE_BUF a write is whole; a parent that is gone leaves nobody to tell.
  [[maybe_unused]] const ssize_t written = ::write(pipe_, &record, sizeof record);
}

void put_on_sandbox(const SandboxPlan& plan, StepReport& report) {
  if (!plan.enabled) return;
  const int namespaces = enter_namespaces(plan);
  // Who was given the machine's network did not ask for one of its own.
  if (!plan.network || namespaces != 0) report.add(Step::kNamespaces, namespaces);
  report.add(Step::kProcesses, hide_processes(plan));
  report.add(Step::kUsers, plan.privileged ? leave_root(plan) : namespaces);
  report.add(Step::kLandlockFiles, plan.landlock_files.open()
                                       ? restrict_with(plan.landlock_files.get())
                                       : plan.landlock_error);
  // Without its own network the child gets none: no TCP by Landlock, no such socket by the filter.
  const bool exposed = namespaces != 0 && !plan.network;
  if (exposed) {
    report.add(Step::kLandlockNetwork,
               plan.landlock_network.open() ? restrict_with(plan.landlock_network.get()) : ENOSYS);
  }
  report.add(Step::kCapabilities, drop_capabilities());
  const Reach reach = plan.interfaces ? Reach::kAndItsInterfaces : Reach::kOwnNetwork;
  report.add(Step::kSystemCalls, refuse_calls(exposed ? Reach::kNothing : reach));
}

}  // namespace internal

std::vector<std::string> full_confinement() {
  return {"no_new_privs", "netns", "landlock", "seccomp"};
}

std::vector<std::string> parser_confinement() {
  std::vector<std::string> names = full_confinement();
  names.emplace_back("userns");
  return names;
}

Result<SandboxReport> probe_sandbox(const ProbeOptions& options) {
  ChildSpec spec;
  spec.argv = {"/bin/true"};
  spec.work_dir = options.folder;
  spec.log_path = "/dev/null";
  spec.limits.io_bytes_max = options.io_bytes_max;
  spec.sandbox.enabled = true;
  spec.limits.memory_bytes_max = std::int64_t{64} << 20;
  spec.limits.processes_max = 8;
  spec.limits.cpus_max = 1;
  spec.limits.run_time_max = Duration::seconds(10);
  std::unique_ptr<Child> child = FALAJ_TRY(Child::start(std::move(spec)));
  ChildExit end = child->wait();
  if (end.reason != ExitReason::kExited || end.code != 0) {
    return Error(Code::kInternal, "a sandboxed /bin/true did not end well (" +
                                      std::to_string(end.code) + "): run it by hand");
  }
  return SandboxReport{std::move(end.protections), std::move(end.protections_refused)};
}

}  // namespace falaj::exec
