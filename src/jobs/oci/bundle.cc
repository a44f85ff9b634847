#include "jobs/oci/bundle.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/json.h"

namespace falaj::jobs::oci {
namespace {

namespace fs = std::filesystem;

// As exec/sandbox.cc refuses them to any other command.
constexpr const char* kRefusedCalls[] = {"ptrace",
                                         "process_vm_readv",
                                         "process_vm_writev",
                                         "mount",
                                         "umount2",
                                         "pivot_root",
                                         "chroot",
                                         "swapon",
                                         "swapoff",
                                         "reboot",
                                         "init_module",
                                         "finit_module",
                                         "delete_module",
                                         "kexec_load",
                                         "bpf",
                                         "perf_event_open",
                                         "userfaultfd",
                                         "keyctl",
                                         "add_key",
                                         "request_key",
                                         "setns",
                                         "unshare",
                                         "open_by_handle_at",
                                         "acct",
                                         "settimeofday",
                                         "clock_settime",
                                         "sethostname",
                                         "setdomainname",
                                         "io_uring_setup",
                                         "fsopen",
                                         "move_mount",
                                         "open_tree",
                                         "pidfd_getfd",
                                         "quotactl",
                                         "syslog",
                                         "kcmp"};
constexpr const char* kMasked[] = {"/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
                                   "/proc/timer_list", "/proc/sched_debug", "/proc/scsi",
                                   "/proc/acpi",       "/proc/kallsyms"};
constexpr const char* kReadOnly[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                     "/proc/sysrq-trigger"};

Value list(std::initializer_list<const char*> texts) {
  Value out = Value::array();
  for (const char* text : texts) out.push(text);
  return out;
}

Value mount_of(const std::string& at, const char* type, const std::string& source, Value options) {
  Value out;
  out["destination"] = at;
  out["type"] = type;
  out["source"] = source;
  out["options"] = std::move(options);
  return out;
}

// How: "rw", or "rro": read-only with all that is mounted below it.
Value bound(const std::string& path, const char* how) {
  return mount_of(path, "bind", path, list({"rbind", "nosuid", how}));
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// The image's PATH counts, unless the job has one of its own.
Value env_list(const Work& work, const BundleSpec& spec) {
  Value out = Value::array();
  const auto image_has = [&](const std::string& name) {
    return std::any_of(spec.env.begin(), spec.env.end(),
                       [&](const std::string& each) { return name_of(each) == name; });
  };
  const auto work_has = [&](const std::string& name) {
    return std::any_of(work.env.begin(), work.env.end(),
                       [&](const auto& each) { return each.first == name; });
  };
  for (const std::string& each : spec.env) {
    if (!work_has(name_of(each)) || name_of(each) == "PATH") out.push(each);
  }
  for (const auto& [name, value] : work.env) {
    if (name != "PATH" || !image_has("PATH")) out.push(name + "=" + value);
  }
  return out;
}

Value mounts(const Work& work) {
  Value out = Value::array();
  out.push(mount_of("/proc", "proc", "proc", list({"nosuid", "noexec", "nodev"})));
  out.push(mount_of("/dev", "tmpfs", "tmpfs", list({"nosuid", "strictatime", "mode=755"})));
  out.push(mount_of("/dev/shm", "tmpfs", "shm", list({"nosuid", "noexec", "nodev", "mode=1777"})));
  out.push(mount_of("/tmp", "tmpfs", "tmp", list({"nosuid", "nodev", "mode=1777"})));
  for (const char* path : {"/sys/devices/system/cpu", "/sys/devices/system/node"}) {
    std::error_code absent;
    if (fs::exists(path, absent)) out.push(bound(path, "rro"));
  }
  for (const std::string& path : work.sandbox.read_only) {
    std::error_code absent;
    if (fs::exists(path, absent)) out.push(bound(path, "rro"));
  }
  for (const std::string& path : work.sandbox.read_write) {
    std::error_code absent;
    if (fs::exists(path, absent)) out.push(bound(path, "rw"));
  }
  return out;
}

Value refusal(const char* call, int error) {
  Value rule;
  rule["names"].push(call);
  rule["action"] = "SCMP_ACT_ERRNO";
  rule["errnoRet"] = error;
  return rule;
}

// Refuses the call when its first argument compares so with the value.
Value refusal(const char* call, int error, const char* comparison, std::int64_t value) {
  Value argument;
  argument["index"] = 0;
  argument["value"] = value;
  argument["valueTwo"] = value;  // Of masked comparisons: which bits, and what they must be.
  argument["op"] = comparison;
  Value rule = refusal(call, error);
  rule["args"].push(std::move(argument));
  return rule;
}

Value seccomp() {
  Value calls = Value::array();
  for (const char* name : kRefusedCalls) calls.push(refusal(name, EPERM));
  for (const std::int64_t space : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                   CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    calls.push(refusal("clone", EPERM, "SCMP_CMP_MASKED_EQ", space));
  }
  calls.push(refusal("clone3", ENOSYS));  // Its flags lie in memory; libraries then use clone.
  // No sockets but those of the Internet, which the network namespace holds.
  calls.push(refusal("socket", EAFNOSUPPORT, "SCMP_CMP_LT", AF_INET));
  calls.push(refusal("socket", EAFNOSUPPORT, "SCMP_CMP_GT", AF_INET6));
  for (std::int64_t family = AF_INET + 1; family < AF_INET6; ++family) {
    calls.push(refusal("socket", EAFNOSUPPORT, "SCMP_CMP_EQ", family));
  }
  Value out;
  out["defaultAction"] = "SCMP_ACT_ALLOW";
  out["syscalls"] = std::move(calls);
  return out;
}

Value linux_part() {
  Value out;
  for (const char* type : {"pid", "ipc", "uts", "mount", "user", "network"}) {
    Value space;
    space["type"] = type;
    out["namespaces"].push(std::move(space));
  }
  const auto mapping = [](std::int64_t host) {
    Value each;
    each["containerID"] = 0;
    each["hostID"] = host;
    each["size"] = 1;
    Value all = Value::array();
    all.push(std::move(each));
    return all;
  };
  out["uidMappings"] = mapping(::geteuid());
  out["gidMappings"] = mapping(::getegid());
  out["maskedPaths"] = Value::array();
  for (const char* path : kMasked) out["maskedPaths"].push(path);
  out["readonlyPaths"] = Value::array();
  for (const char* path : kReadOnly) out["readonlyPaths"].push(path);
  out["seccomp"] = seccomp();
  return out;
}

Error failed(const std::string& what) {
  return Error(ErrorId::kImageRefused, "cannot " + what + ": " + std::strerror(errno));
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return {};
  return Error(ErrorId::kDataFolderFull, "cannot write " + path + ": make room on its disk");
}

// ---- The process that becomes the runtime. ----

// A namespace in which control groups cannot be written: then the runtime leaves its container in
// the one that it is in itself.
Status enter_own_mounts() {
  const bool root = ::geteuid() == 0;
  const std::string ids[] = {std::to_string(::geteuid()), std::to_string(::getegid())};
  if (::unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0) return failed("have own mounts");
  if (!root) {
    FALAJ_TRY(write_text("/proc/self/setgroups", "deny"));
    FALAJ_TRY(write_text("/proc/self/uid_map", ids[0] + " " + ids[0] + " 1"));
    FALAJ_TRY(write_text("/proc/self/gid_map", ids[1] + " " + ids[1] + " 1"));
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return failed("part mounts");
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  if (::syscall(SYS_mount_setattr, AT_FDCWD, "/sys/fs/cgroup", AT_RECURSIVE, &read_only,
                sizeof read_only) != 0 &&
      errno != ENOENT) {
    return failed("make control groups read-only");
  }
  return {};
}

Status become_runtime(const std::string& folder) {
  std::ifstream file(folder + "/order.json");
  std::stringstream text;
  text << file.rdbuf();
  const Value order = FALAJ_TRY(parse_json(text.str()));
  FALAJ_TRY(enter_own_mounts());
  const std::string layers = "lowerdir=" + order.text("rootfs") + ",upperdir=" + folder +
                             "/upper,workdir=" + folder + "/work";
  if (::mount("overlay", (folder + "/root").c_str(), "overlay", 0, layers.c_str()) != 0) {
    return failed("lay the job's files over the image's (overlayfs)");
  }
  const std::string runtime = order.text("runtime");
  const std::string state = folder + "/state";
  const std::string id = fs::path(folder).stem().string();
  const char* argv[] = {runtime.c_str(), "--rootless=true", "--root",   state.c_str(), "run",
                        "--bundle",      folder.c_str(),    id.c_str(), nullptr};
  // It looks for its helpers in PATH and for a place for its files in XDG_RUNTIME_DIR.
  const std::string place = "XDG_RUNTIME_DIR=" + state;
  const char* env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       place.c_str(), nullptr};
  ::execve(argv[0], const_cast<char* const*>(argv), const_cast<char* const*>(env));
  return failed("start " + runtime);
}

}  // namespace

std::string bundle_folder(const std::string& work_dir) { return work_dir + ".oci"; }

Value bundle_config(const Work& work, const BundleSpec& spec) {
  Value out;
  out["ociVersion"] = "1.0.2";
  out["hostname"] = "job";
  out["root"]["path"] = bundle_folder(work.work_dir) + "/root";
  out["root"]["readonly"] = true;
  Value& process = out["process"];
  process["terminal"] = false;
  process["user"]["uid"] = 0;
  process["user"]["gid"] = 0;
  process["args"] = Value::array();
  for (const std::string& word : work.argv) process["args"].push(word);
  process["env"] = env_list(work, spec);
  process["cwd"] = work.work_dir;
  process["noNewPrivileges"] = true;
  process["capabilities"] = Value::object();
  out["mounts"] = mounts(work);
  out["linux"] = linux_part();
  return out;
}

Status prepare_bundle(const std::string& program, const BundleSpec& spec, Work& work) {
  const std::string folder = bundle_folder(work.work_dir);
  std::error_code error;
  for (const char* part : {"/root", "/upper", "/work", "/state"}) {
    fs::create_directories(folder + part, error);
    if (error) {
      return Error(ErrorId::kDataFolderFull, "cannot make " + folder + ": " + error.message());
    }
  }
  fs::permissions(folder, fs::perms::owner_all, error);
  FALAJ_TRY(write_text(folder + "/config.json", to_json(bundle_config(work, spec))));
  Value order;
  order["rootfs"] = spec.rootfs;
  order["runtime"] = spec.runtime;
  FALAJ_TRY(write_text(folder + "/order.json", to_json(order)));
  work.argv = {program, "engine", "image", folder};
  work.env = {};
  // The runtime mounts and makes namespaces, which a sandbox forbids: it is what confines.
  work.sandbox = {};
  return {};
}

int run_bundle(const std::string& folder) {
  const Status status = become_runtime(folder);
  std::fprintf(stderr, "falaj: %s\n", status.error().message.c_str());
  return 125;
}

void remove_bundle(const std::string& folder) {
  std::error_code ignored;
  fs::permissions(fs::path(folder) / "work" / "work", fs::perms::owner_all, ignored);
  fs::remove_all(folder, ignored);
}

std::string find_oci_runtime(const std::string& named) {
  if (!named.empty()) return named;
  for (const char* name : {"runc", "crun"}) {
    for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"}) {
      const std::string path = std::string(folder) + name;
      if (::access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return "";
}

}  // namespace falaj::jobs::oci
