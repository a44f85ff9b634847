// usage: fault_probe read-only|tiny PORT FOLDER
//
// Meets a bad disk in a process of its own and says by its exit code whether the store behaved: 0
// as promised, 77 not possible on this machine, anything else a fault (printed).
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "workload.h"

namespace falaj::faults {
namespace {

using storage::Durability;

constexpr int kNotPermitted = 77;
constexpr unsigned kNobody = 65534;

int fault(const std::string& text) {
  ::fprintf(stderr, "%s\n", text.c_str());
  return 1;
}

// 0 if the error is the expected one.
template <class T>
int expect_error(const Result<T>& result, ErrorId expected, const std::string& what) {
  if (result.ok()) return fault(what + " succeeded, expected " + falaj::to_string(expected));
  if (result.error().id == expected) return 0;
  return fault(what + ": expected " + falaj::to_string(expected) + ", got " +
               falaj::to_string(result.error().id) + " " + result.error().message);
}

int check_up_to(Target& target, int last, const std::string& when) {
  for (int i = 0; i <= last; ++i) {
    const Status found = target.check({0, 0, i});
    if (!found.ok()) return fault(when + ": " + found.error().message);
  }
  return 0;
}

// The superuser is above permissions; an ordinary user is not.
int open_read_only(Port port, const std::string& folder) {
  if (::geteuid() == 0 && (::setresgid(kNobody, kNobody, kNobody) != 0 ||
                           ::setresuid(kNobody, kNobody, kNobody) != 0)) {
    return kNotPermitted;
  }
  return expect_error(Target::open(port, folder, Durability::kSync), ErrorId::kDataFolderReadOnly,
                      "open");
}

// Writes until nothing fits, makes room, writes again. `last` is the last acknowledged write.
int fill_and_go_on(Target& target, const std::string& ballast, int& last) {
  Status written;
  while (written.ok() && last < 100'000) {
    written = target.put({0, 0, last + 1});
    if (written.ok()) ++last;
  }
  if (expect_error(written, ErrorId::kDataFolderFull, "write") != 0) return 1;
  if (check_up_to(target, last, "while full") != 0) return 1;
  ::unlink(ballast.c_str());
  const Status again = target.put({0, 0, last + 1});
  if (!again.ok()) return fault("after making room: " + again.error().message);
  ++last;
  return 0;
}

// 8 MiB of memory as a file system, in a private namespace.
int run_on_tiny_disk(Port port, const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", folder.c_str(), "tmpfs", 0, "size=8m") != 0) {
    return kNotPermitted;
  }
  const std::string ballast = folder + "/ballast";
  std::ofstream(ballast) << std::string(4u << 20, 'x');
  int last = -1;
  {
    const auto target = Target::open(port, folder, Durability::kSync);
    if (!target.ok()) return fault("open: " + target.error().message);
    if (fill_and_go_on(**target, ballast, last) != 0) return 1;
  }
  const auto target = Target::open(port, folder, Durability::kSync);
  if (!target.ok()) return fault("open again: " + target.error().message);
  return check_up_to(**target, last, "opened again");
}

}  // namespace
}  // namespace falaj::faults

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto port = falaj::faults::port_from(argv[2]);
  if (!port.ok()) return 2;
  const std::string how = argv[1];
  if (how == "read-only") return falaj::faults::open_read_only(*port, argv[3]);
  if (how == "tiny") return falaj::faults::run_on_tiny_disk(*port, argv[3]);
  return 2;
}
