#include "security/access.h"

#include <gtest/gtest.h>

#include <set>

namespace falaj::security {
namespace {

Principal caller(PrincipalKind kind, std::string id) {
  Principal principal;
  principal.kind = kind;
  principal.id = std::move(id);
  return principal;
}

const Principal kDeveloper = caller(PrincipalKind::kUser, "user:dev");

TEST(Access, every_action_is_declared_once_with_its_meaning) {
  std::set<std::string_view> seen;
  for (const ActionInfo& info : actions()) {
    EXPECT_TRUE(seen.insert(info.action).second) << info.action;
    EXPECT_FALSE(info.meaning.empty()) << info.action;
  }
  EXPECT_TRUE(seen.contains("objects.write"));
}

TEST(Access, the_developer_on_loopback_may_do_every_declared_action) {
  for (const ActionInfo& info : actions()) {
    EXPECT_TRUE(decide({kDeveloper, info.action, true}).allowed) << info.action;
  }
}

TEST(Access, an_undeclared_action_is_refused_whoever_asks) {
  for (const char* action : {"", "objects.destroy", "public.", "public.write", "objects.writ"}) {
    const Decision decision = decide({kDeveloper, action, true});
    EXPECT_FALSE(decision.allowed) << action;
    EXPECT_FALSE(decision.reason.empty());
  }
}

TEST(Access, from_elsewhere_only_public_actions_remain) {
  for (const ActionInfo& info : actions()) {
    const bool is_public = info.action == "public.read";
    EXPECT_EQ(decide({kDeveloper, info.action, false}).allowed, is_public) << info.action;
  }
}

TEST(Access, other_names_have_no_grant_even_on_loopback) {
  const Principal others[] = {
      caller(PrincipalKind::kUser, ""), caller(PrincipalKind::kUser, "user:eve"),
      caller(PrincipalKind::kUser, "user:dev "), caller(PrincipalKind::kService, "user:dev"),
      caller(PrincipalKind::kSystem, "service:loop")};
  for (const Principal& other : others) {
    EXPECT_FALSE(decide({other, "objects.read", true}).allowed) << other.id;
    EXPECT_TRUE(decide({other, "public.read", false}).allowed) << other.id;
  }
}

}  // namespace
}  // namespace falaj::security
