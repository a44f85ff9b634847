#include "jobs/oci/bundle.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>

#include "base/json.h"
#include "storage/testing/temp_folder.h"

namespace falaj::jobs::oci {
namespace {

// Whether the configuration refuses the call with that first argument.
bool refused(const Value& config, const std::string& call, std::int64_t argument) {
  const auto& rules = config["linux"]["seccomp"]["syscalls"].as_array();
  return std::any_of(rules.begin(), rules.end(), [&](const Value& rule) {
    if (rule["names"].as_array().at(0).as_string() != call) return false;
    if (!rule["args"].is_array()) return true;
    const Value& test = rule["args"].as_array().at(0);
    const std::int64_t value = test.integer("value");
    const std::string op = test.text("op");
    if (op == "SCMP_CMP_EQ") return argument == value;
    if (op == "SCMP_CMP_LT") return argument < value;
    if (op == "SCMP_CMP_GT") return argument > value;
    return op == "SCMP_CMP_MASKED_EQ" && (argument & value) == test.integer("valueTwo");
  });
}

TEST(Bundle, refuses_new_namespaces_and_sockets_but_those_of_the_internet) {
  const Value config = bundle_config({}, {});
  for (const int space : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                          CLONE_NEWPID, CLONE_NEWNET}) {
    EXPECT_TRUE(refused(config, "clone", space | SIGCHLD)) << space;
  }
  EXPECT_FALSE(refused(config, "clone", CLONE_VM | CLONE_FS | CLONE_THREAD | SIGCHLD));
  EXPECT_TRUE(refused(config, "clone3", 0));
  EXPECT_TRUE(refused(config, "unshare", 0));
  for (int family = 0; family < 50; ++family) {
    EXPECT_EQ(refused(config, "socket", family), family != AF_INET && family != AF_INET6) << family;
  }
}

TEST(Bundle, what_may_only_be_read_is_so_with_all_that_is_mounted_below) {
  const storage::TempFolder folder;
  Work work;
  work.sandbox.read_only = {folder.path()};
  const Value config = bundle_config(work, {});
  const auto& mounts = config["mounts"].as_array();
  const auto found = std::find_if(mounts.begin(), mounts.end(), [&](const Value& mount) {
    return mount.text("destination") == folder.path();
  });
  ASSERT_NE(found, mounts.end());
  EXPECT_NE(to_json((*found)["options"]).find("\"rro\""), std::string::npos);
}

}  // namespace
}  // namespace falaj::jobs::oci
