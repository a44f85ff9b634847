#include "security/context.h"

#include <gtest/gtest.h>

namespace falaj::security {
namespace {

Principal limited_to(std::vector<const char*> scopes) {
  Principal principal{PrincipalKind::kUser, "user:u_1"};
  principal.scopes.emplace();
  for (const char* text : scopes) principal.scopes->push_back(parse_scope(text).value());
  return principal;
}

TEST(Scope, reads_back_what_it_prints) {
  for (const char* text : {"serving.predict", "objects.*", "*", "*@payments", "objects.read@pay",
                           "features.read@payments/TrainingSet/fraud_2026"}) {
    const Result<Scope> scope = parse_scope(text);
    ASSERT_TRUE(scope.ok()) << text;
    EXPECT_EQ(to_string(*scope), text);
  }
}

TEST(Scope, refuses_what_is_none) {
  for (const std::string text :
       {"", "@", "*.", ".*", "**", "a*", "objects.read@", "objects.read@p/", "objects.read@p/Kind",
        "objects.read@p/Kind/", "objects.read@p//x", "objects.read@p/K/a/b", "objects read",
        "objects.read@p q", "objects.\n*", "@payments", "objects..*"}) {
    EXPECT_EQ(parse_scope(text).ok(), false) << text;
  }
  EXPECT_FALSE(parse_scope(std::string(257, 'a')).ok());
}

TEST(Scope, an_unlimited_credential_is_narrowed_by_nothing) {
  const Principal principal{PrincipalKind::kUser, "user:u_1"};
  EXPECT_TRUE(within_scopes(principal, "objects.write", "p", "Model/x"));
}

TEST(Scope, an_empty_list_allows_nothing) {
  EXPECT_FALSE(within_scopes(limited_to({}), "objects.read", "p", ""));
}

TEST(Scope, covers_its_action_project_and_object_only) {
  const Principal predict = limited_to({"serving.predict@pay/Deployment/fraud"});
  EXPECT_TRUE(within_scopes(predict, "serving.predict", "pay", "Deployment/fraud"));
  EXPECT_FALSE(within_scopes(predict, "serving.predict", "pay", "Deployment/fraud2"));
  EXPECT_FALSE(within_scopes(predict, "serving.predict", "other", "Deployment/fraud"));
  EXPECT_FALSE(within_scopes(predict, "serving.predict", "pay", ""));
  EXPECT_FALSE(within_scopes(predict, "objects.read", "pay", "Deployment/fraud"));

  const Principal reader = limited_to({"objects.*@pay"});
  EXPECT_TRUE(within_scopes(reader, "objects.read", "pay", "Model/x"));
  EXPECT_FALSE(within_scopes(reader, "objectsx.read", "pay", "Model/x"));
  EXPECT_FALSE(within_scopes(reader, "objects.read", "", ""));  // Above projects.

  EXPECT_TRUE(within_scopes(limited_to({"audit.read", "*@pay"}), "audit.read", "", ""));
}

}  // namespace
}  // namespace falaj::security
