// How long one decision takes, in a policy of a large firm: 10 000 grants, 500 groups in groups,
// 200 projects, labels and forbids. Prints one JSON object; ./dev bench decide reads it.
#include <algorithm>
#include <cstdio>
#include <random>

#include "base/time.h"
#include "security/access/policies.h"

namespace {

using namespace falaj;
using namespace falaj::security;
using namespace falaj::security::access;

constexpr int kProjects = 200;
constexpr int kUsers = 5000;
constexpr int kGroups = 500;
constexpr int kGrants = 10'000;
constexpr int kDecisions = 1'000'000;
constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

std::string numbered(const char* what, std::size_t n) { return what + std::to_string(n); }

PolicyInput large_firm(std::mt19937_64& random) {
  PolicyInput input;
  for (int i = 0; i < kGroups; ++i) {
    Group group{numbered("g", static_cast<std::size_t>(i)), {}};
    for (int m = 0; m < 30; ++m) group.members.push_back(numbered("user:", random() % kUsers));
    if (i > 0) group.members.push_back(numbered("group:g", random() % static_cast<unsigned>(i)));
    input.groups.push_back(std::move(group));
  }
  for (int i = 0; i < kGrants; ++i) {
    Grant grant;
    grant.name = numbered("grant", static_cast<std::size_t>(i));
    grant.effect = random() % 20 == 0 ? Effect::kForbid : Effect::kPermit;
    grant.to = {random() % 2 == 0 ? numbered("user:", random() % kUsers)
                                  : numbered("group:g", random() % kGroups)};
    grant.actions = actions_of(roles()[random() % 5].role);
    grant.on.project = numbered("p", random() % kProjects);
    if (random() % 4 == 0) grant.on.kind = "Deployment";
    if (random() % 10 == 0) grant.on.labels = {{"team", numbered("t", random() % 20)}};
    input.grants.push_back(std::move(grant));
  }
  return input;
}

}  // namespace

int main() {
  std::mt19937_64 random(4);
  const Policies policies(large_firm(random));
  std::vector<Principal> users(1000);
  for (std::size_t i = 0; i < users.size(); ++i) {
    users[i].kind = PrincipalKind::kUser;
    users[i].id = numbered("user:", random() % kUsers);
    for (int g = 0; g < 3; ++g) users[i].groups.push_back(numbered("g", random() % kGroups));
  }
  const Labels labels{{"team", "t7"}};
  std::vector<std::int64_t> nanos(kDecisions);
  std::uint64_t allowed = 0;
  for (std::int64_t& taken : nanos) {
    const std::string project = numbered("p", random() % kProjects);
    const std::string_view action = actions()[random() % actions().size()].action;
    const AccessRequest request{.principal = users[random() % users.size()],
                                .action = action,
                                .object = {project, "Deployment", "fraud", &labels},
                                .now = kNow,
                                .reason = {}};
    const std::int64_t begin = monotonic_nanos();
    allowed += policies.decide(request).allowed ? 1U : 0U;
    taken = monotonic_nanos() - begin;
  }
  std::ranges::sort(nanos);
  const auto at = [&](double share) {
    return static_cast<double>(
               nanos[static_cast<std::size_t>(share * static_cast<double>(kDecisions - 1))]) *
           1e-3;
  };
  std::printf(
      "{\"decisions\":%d,\"grants\":%d,\"allowed\":%llu,\"p50_us\":%.3f,\"p99_us\":%.3f,"
      "\"p999_us\":%.3f}\n",
      kDecisions, kGrants, static_cast<unsigned long long>(allowed), at(0.5), at(0.99), at(0.999));
  return 0;
}
