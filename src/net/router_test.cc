#include "net/router.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace falaj::net {
namespace {

SyncHandler nothing() {
  return [](const Request&) { return Response{}; };
}

void add(Router& router, Method method, std::string_view path) {
  router.add(Route(method, path, Permission("objects.read"), Target::in_project("Run"),
                   "A test's route.", nothing()));
}

Request asking(Method method, std::string path) {
  Request request;
  request.method = method;
  request.path = std::move(path);
  return request;
}

// The matched route's pattern; "404", or "405 " and the methods allowed.
std::string matched(const Router& router, Method method, std::string path) {
  Request request = asking(method, std::move(path));
  const Match match = router.match(request);
  if (match.route != nullptr) return match.route->path;
  return match.path_known ? "405 " + match.allow : "404";
}

TEST(Router, finds_literal_paths_exactly) {
  Router router;
  add(router, Method::kGet, "/");
  add(router, Method::kGet, "/v2");
  add(router, Method::kGet, "/v2/health/live");
  EXPECT_EQ(matched(router, Method::kGet, "/"), "/");
  EXPECT_EQ(matched(router, Method::kGet, "/v2"), "/v2");
  EXPECT_EQ(matched(router, Method::kGet, "/v2/"), "404");  // A slash more is another path.
  EXPECT_EQ(matched(router, Method::kGet, "/v2/health"), "404");
  EXPECT_EQ(matched(router, Method::kGet, "/v2/health/live"), "/v2/health/live");
  EXPECT_EQ(matched(router, Method::kGet, "/V2"), "404");
  EXPECT_EQ(matched(router, Method::kGet, "//v2"), "404");
  EXPECT_EQ(matched(router, Method::kGet, ""), "404");
}

TEST(Router, fills_placeholders_and_takes_the_text_after_them_as_literal) {
  Router router;
  add(router, Method::kPost, "/api/v1/deployments/{name}:predict");
  add(router, Method::kPost, "/v2/models/{model}/versions/{version}/infer");
  Request request = asking(Method::kPost, "/api/v1/deployments/fraud:predict");
  ASSERT_NE(router.match(request).route, nullptr);
  EXPECT_EQ(request.params.at("name"), "fraud");

  request = asking(Method::kPost, "/v2/models/a b/versions/7/infer");
  ASSERT_NE(router.match(request).route, nullptr);
  EXPECT_EQ(request.params.at("model"), "a b");
  EXPECT_EQ(request.params.at("version"), "7");

  EXPECT_EQ(matched(router, Method::kPost, "/api/v1/deployments/:predict"), "404");
  EXPECT_EQ(matched(router, Method::kPost, "/api/v1/deployments/fraud"), "404");
  EXPECT_EQ(matched(router, Method::kPost, "/v2/models//versions/7/infer"), "404");
}

TEST(Router, prefers_literals_then_longer_suffixes_then_the_rest) {
  Router router;
  add(router, Method::kGet, "/a/{x}");
  add(router, Method::kGet, "/a/{x}:go");
  add(router, Method::kGet, "/a/fixed");
  add(router, Method::kGet, "/a/{path...}");
  EXPECT_EQ(matched(router, Method::kGet, "/a/fixed"), "/a/fixed");
  EXPECT_EQ(matched(router, Method::kGet, "/a/other"), "/a/{x}");
  EXPECT_EQ(matched(router, Method::kGet, "/a/other:go"), "/a/{x}:go");
  EXPECT_EQ(matched(router, Method::kGet, "/a/b/c"), "/a/{path...}");
  Request request = asking(Method::kGet, "/a/b/c.js");
  router.match(request);
  EXPECT_EQ(request.params.at("path"), "b/c.js");
}

TEST(Router, goes_back_when_a_literal_leads_nowhere) {
  Router router;
  add(router, Method::kGet, "/a/b/c");
  add(router, Method::kGet, "/a/{x}/d");
  Request request = asking(Method::kGet, "/a/b/d");
  ASSERT_NE(router.match(request).route, nullptr);
  EXPECT_EQ(request.params, (decltype(request.params){{"x", "b"}}));
}

TEST(Router, names_the_methods_of_a_known_path) {
  Router router;
  add(router, Method::kGet, "/a/{x}");
  add(router, Method::kDelete, "/a/{y}");
  EXPECT_EQ(matched(router, Method::kPost, "/a/1"), "405 GET, HEAD, DELETE");
  EXPECT_EQ(matched(router, Method::kHead, "/a/1"), "/a/{x}");
  Request request = asking(Method::kDelete, "/a/1");
  router.match(request);
  EXPECT_EQ(request.params, (decltype(request.params){{"y", "1"}}));
}

TEST(Router, answers_a_method_that_only_the_placeholder_route_has) {
  Router router;
  add(router, Method::kGet, "/a/fixed");
  add(router, Method::kPost, "/a/{x}");
  EXPECT_EQ(matched(router, Method::kPost, "/a/fixed"), "/a/{x}");
  EXPECT_EQ(matched(router, Method::kPut, "/a/fixed"), "405 GET, HEAD, POST");
}

TEST(RouterDeathTest, refuses_wrong_declarations) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Router router;
  add(router, Method::kGet, "/a/{x}");
  EXPECT_DEATH(add(router, Method::kGet, "/a/{y}"), "");  // Overlaps.
  EXPECT_DEATH(add(router, Method::kGet, "no-slash"), "");
  EXPECT_DEATH(add(router, Method::kGet, "/{x}/{x}"), "");  // One name twice.
  EXPECT_DEATH(add(router, Method::kGet, "/{rest...}/a"), "");
  EXPECT_DEATH(add(router, Method::kGet, "/a{x}"), "");
  const auto add_on = [&](std::string_view action, Target target) {
    router.add(
        Route(Method::kGet, "/b/{x}", Permission(action), std::move(target), "Wrong.", nothing()));
  };
  EXPECT_DEATH(add_on("Objects", Target::in_project("Run")), "");
  EXPECT_DEATH(add_on("a.b.c", Target::in_project("Run")), "");
  EXPECT_DEATH(add_on("a.b", Target::record("Run", "id")), "");        // No such placeholder.
  EXPECT_DEATH(add_on("a.b", Target::declared("kind", "x")), "");      // No such placeholder.
  EXPECT_DEATH(add_on("a.b", Target::nothing()), "");                  // Only for public routes.
  EXPECT_DEATH(add_on("public.read", Target::in_project("Run")), "");  // Has nothing to show.
  add_on("a.b", Target::record("Run", "x"));
  EXPECT_DEATH(router.add(Route(Method::kGet, "/c", Permission("a.b"), Target::in_project("Run"),
                                "None.", nullptr)),
               "");
}

TEST(Router, a_route_needs_both_a_permission_and_a_target) {
  using Text = std::string_view;
  static_assert(!std::is_default_constructible_v<Permission>);
  static_assert(!std::is_default_constructible_v<Target>);
  static_assert(
      std::is_constructible_v<Route, Method, Text, Permission, Target, Text, SyncHandler>);
  static_assert(!std::is_constructible_v<Route, Method, Text, Permission, Text, SyncHandler>);
  static_assert(!std::is_constructible_v<Route, Method, Text, Target, Text, SyncHandler>);
  static_assert(!std::is_constructible_v<Route, Method, Text, Text, SyncHandler>);
  EXPECT_EQ(Target::object("FeatureView", "name").text(), "FeatureView {name} of ?project=");
  EXPECT_EQ(Target::declared("kind", "name").text(), "{kind} {name} of ?project=");
  EXPECT_EQ(Target::record("Run", "id").text(), "Run {id}");
}

}  // namespace
}  // namespace falaj::net
