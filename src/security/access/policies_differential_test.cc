// The compiled Policies against a second evaluator that knows nothing of indexes, bit sets or
// closures: it reads the declarations as a person would, one by one. Random policies, groups with
// cycles, labels, expiry, scopes and requests; CI runs 200 000 pairs from a fixed seed, and
// FALAJ_DIFFERENTIAL_PAIRS / FALAJ_DIFFERENTIAL_SEED ask for more.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "security/access/policies.h"

namespace falaj::security::access {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

// As the declarations say it, without any preparation.
class Naive {
 public:
  Naive(const std::vector<Grant>& grants, const std::vector<Group>& groups)
      : grants_(grants), groups_(groups) {}

  bool allows(const AccessRequest& request) const {
    if (request.action == "public.read") return true;
    bool declared = false;
    for (const ActionInfo& info : actions()) declared = declared || info.action == request.action;
    if (!declared) return false;
    const Principal& who = request.principal;
    if (who.kind == PrincipalKind::kNobody || who.id == "" || !(request.now < who.expires)) {
      return false;
    }
    if (any(request, "forbid")) return false;
    if (request.action == "account.use") return true;
    if (!in_scopes(request)) return false;
    if (request.action == "account.manage") return true;
    if (any(request, "permit")) return true;
    if (who.kind == PrincipalKind::kJob && who.scopes.has_value() &&
        names_action(Role::kEditor, request.action)) {
      return true;
    }
    return request.reason != "" && any(request, "break-glass");
  }

 private:
  static bool names_action(Role role, std::string_view action) {
    for (const std::string_view name : actions_of(role).names()) {
      if (name == action) return true;
    }
    return false;
  }

  bool in_group(const std::string& subject, const std::string& group,
                std::set<std::string> seen) const {
    if (!seen.insert(group).second) return false;
    for (const Group& known : groups_) {
      if (known.name != group) continue;
      for (const std::string& member : known.members) {
        if (member == subject) return true;
        if (member.substr(0, 6) == "group:" && in_group(subject, member.substr(6), seen)) {
          return true;
        }
      }
    }
    return false;
  }

  bool is_meant(const Principal& who, const std::string& subject) const {
    if (subject == "everyone" || subject == who.id) return true;
    if (subject.substr(0, 6) != "group:") return false;
    const std::string group = subject.substr(6);
    if (in_group(who.id, group, {})) return true;
    for (const std::string& own : who.groups) {
      if (own == group || in_group("group:" + own, group, {})) return true;
    }
    return false;
  }

  static bool is_covered(const Extent& on, const ObjectRef& object) {
    if (on.project != "" && on.project != object.project) return false;
    if (on.kind != "" && on.kind != object.kind) return false;
    if (on.name != "" && on.name != object.name) return false;
    for (const auto& wanted : on.labels) {
      bool found = false;
      if (object.labels != nullptr) {
        for (const auto& label : *object.labels) found = found || label == wanted;
      }
      if (!found) return false;
    }
    return true;
  }

  bool any(const AccessRequest& request, const std::string& sort) const {
    for (const Grant& grant : grants_) {
      const std::string own_sort = grant.effect == Effect::kForbid   ? "forbid"
                                   : grant.role == Role::kBreakGlass ? "break-glass"
                                                                     : "permit";
      if (own_sort != sort || !(request.now < grant.expires)) continue;
      bool action = false;
      for (const std::string_view name : grant.actions.names()) {
        action = action || name == request.action;
      }
      if (!action || !is_covered(grant.on, request.object)) continue;
      for (const std::string& subject : grant.to) {
        if (is_meant(request.principal, subject)) return true;
      }
    }
    return false;
  }

  static bool in_scopes(const AccessRequest& request) {
    if (!request.principal.scopes.has_value()) return true;
    for (const Scope& scope : *request.principal.scopes) {
      std::string wanted = scope.action;
      bool action = wanted == "*" || wanted == request.action;
      if (wanted.size() > 2 && wanted.substr(wanted.size() - 2) == ".*") {
        action = request.action.substr(0, wanted.size() - 1) == wanted.substr(0, wanted.size() - 1);
      }
      const std::string path = request.object.name == "" ? std::string()
                                                         : std::string(request.object.kind) + "/" +
                                                               std::string(request.object.name);
      if (action && (scope.project == "" || scope.project == request.object.project) &&
          (scope.object == "" || scope.object == path)) {
        return true;
      }
    }
    return false;
  }

  const std::vector<Grant>& grants_;
  const std::vector<Group>& groups_;
};

// Small vocabularies, so that rules and requests meet often.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::string pick(std::initializer_list<const char*> words) {
    return *(words.begin() + static_cast<std::ptrdiff_t>(below(words.size())));
  }
  std::string project() { return pick({"", "a", "b", "c"}); }
  std::string kind() { return pick({"", "FeatureView", "Model", "Run"}); }
  std::string name() { return pick({"x", "y", "z"}); }
  std::string subject() {
    return pick({"user:1", "user:2", "user:3", "service:1", "group:g1", "group:g2", "group:g3",
                 "group:g4", "everyone"});
  }
  std::string action() { return std::string(actions()[below(actions().size())].action); }
  Labels labels() {
    Labels labels;
    if (one_in(2)) labels.emplace_back("stage", pick({"test", "live"}));
    if (one_in(2)) labels.emplace_back("team", pick({"risk", "sales"}));
    return labels;
  }

  Grant grant(std::size_t number) {
    Grant grant;
    grant.name = "g" + std::to_string(number);
    grant.effect = one_in(4) ? Effect::kForbid : Effect::kPermit;
    for (std::size_t i = 0; i <= below(3); ++i) grant.to.push_back(subject());
    if (one_in(2)) {
      const std::size_t roles_usable = roles().size() - (grant.effect == Effect::kForbid ? 1 : 0);
      grant.role = roles()[below(roles_usable)].role;
      grant.actions = actions_of(*grant.role);
    } else {
      grant.actions = ActionSet::matching(pick({"objects.*", "*", "serving.predict", "models.*",
                                                "objects.read", "access.*", "audit.read"}))
                          .value();
    }
    grant.on.project = project();
    if (one_in(2)) grant.on.kind = kind();
    if (!grant.on.kind.empty() && one_in(2)) grant.on.name = name();
    if (one_in(4)) grant.on.labels = labels();
    if (one_in(5)) grant.expires = kNow + Duration::seconds(one_in(2) ? 0 : 1);
    if (one_in(11)) grant.expires = kNow - Duration::seconds(1);
    return grant;
  }

  PolicyInput input() {
    PolicyInput input;
    const std::size_t grants = below(14);
    for (std::size_t i = 0; i < grants; ++i) input.grants.push_back(grant(i));
    for (const char* group : {"g1", "g2", "g3", "g4"}) {
      if (one_in(3)) continue;
      Group made{group, {}};
      for (std::size_t i = 0; i < below(4); ++i) {
        std::string member = subject();
        if (member != kEveryone) made.members.push_back(std::move(member));
      }
      input.groups.push_back(std::move(made));
    }
    return input;
  }

  Principal principal() {
    Principal who;
    who.kind = one_in(12) ? PrincipalKind::kNobody : PrincipalKind::kUser;
    who.id = pick({"user:1", "user:2", "user:3", "service:1", "job:1", "user:9"});
    if (who.id == "service:1") who.kind = PrincipalKind::kService;
    if (who.id == "job:1") who.kind = PrincipalKind::kJob;
    if (one_in(40)) who.id = "";
    for (const char* group : {"g1", "g2", "g3", "g9"}) {
      if (one_in(5)) who.groups.push_back(group);
    }
    if (one_in(3) || who.kind == PrincipalKind::kJob) {
      who.scopes.emplace();
      for (std::size_t i = 0; i < below(4); ++i) {
        Scope scope{pick({"*", "objects.*", "serving.predict", "models.read", "account.*"}),
                    project(), ""};
        if (!scope.project.empty() && one_in(2)) {
          scope.object = pick({"FeatureView/", "Model/"}) + name();
        }
        who.scopes->push_back(scope);
      }
    }
    if (one_in(20)) who.expires = kNow + Duration::seconds(one_in(2) ? 0 : 1);
    return who;
  }

 private:
  std::mt19937_64 random_;
};

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(PoliciesDifferential, agree_with_the_naive_reading_of_the_declarations) {
  const std::uint64_t pairs = from_environment("FALAJ_DIFFERENTIAL_PAIRS", 200'000);
  const std::uint64_t seed = from_environment("FALAJ_DIFFERENTIAL_SEED", 20'261'116);
  constexpr std::uint64_t kRequestsPerPolicy = 20;
  World world(seed);
  std::uint64_t allowed = 0;
  std::array<std::uint64_t, 16> reasons{};
  std::uint64_t asked = 0;
  while (asked < pairs) {
    const PolicyInput input = world.input();
    const Naive naive(input.grants, input.groups);
    const Policies policies(input);
    for (std::uint64_t i = 0; i < kRequestsPerPolicy && asked < pairs; ++i, ++asked) {
      const Principal who = world.principal();
      const std::string action = world.one_in(50) ? "objects.destroy" : world.action();
      const std::string project = world.project();
      const std::string kind = world.kind();
      const std::string name = kind.empty() || world.one_in(3) ? "" : world.name();
      const Labels labels = world.labels();
      const AccessRequest request{
          .principal = who,
          .action = action,
          .object = {project, kind, name, labels.empty() ? nullptr : &labels},
          .now = kNow,
          .reason = world.one_in(2) ? "fire" : ""};
      const Decision decision = policies.decide(request);
      ASSERT_EQ(decision.allowed, naive.allows(request))
          << "seed " << seed << ", pair " << asked << ": " << who.id << " " << action << " on "
          << to_string(request.object) << ", " << because_name(decision.because);
      // What is allowed is visible, and a list of such things may be asked for.
      if (decision.allowed && decision.because != Because::kPublic) {
        ASSERT_TRUE(policies.may_some(request)) << "seed " << seed << ", pair " << asked;
      }
      allowed += decision.allowed ? 1 : 0;
      ++reasons[static_cast<std::size_t>(decision.because)];
    }
  }
  std::printf("%llu pairs, seed %llu: %llu allowed\n", static_cast<unsigned long long>(asked),
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(allowed));
  // The worlds are worth asking about: every reason occurs, and neither answer is rare.
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Because::kNoPermit); ++i) {
    EXPECT_GT(reasons[i], 0U) << because_name(static_cast<Because>(i));
  }
  EXPECT_GT(allowed, asked / 10);
  EXPECT_LT(allowed, asked * 9 / 10);
}

}  // namespace
}  // namespace falaj::security::access
