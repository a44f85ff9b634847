#include "api/native/profiles.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::api {
namespace {

TEST(ProfileRoutes, ask_for_the_newest_for_several_or_for_one_commit) {
  std::vector<features::ProfileQuery> asked;
  const auto routes = profile_routes(
      [&](const ProjectName& project, const std::string& view,
          const features::ProfileQuery& query) -> Result<Value> {
        EXPECT_EQ(project.str(), "pay");
        EXPECT_EQ(view, "activity");
        asked.push_back(query);
        if (query.commit) return Error(ErrorId::kNotFound, "no profile of that commit");
        return Value::object();
      },
      {});
  ASSERT_EQ(routes.size(), 2u);
  const auto status = [&](const std::string& query) {
    net::Request request;
    request.path = "/api/v1/feature-views/activity/profiles";
    request.query = query;
    request.params.emplace("name", "activity");
    return routes[0].sync_handler(request).status;
  };
  EXPECT_EQ(status("project=pay"), 200);
  EXPECT_EQ(status("project=pay&most=64"), 200);
  EXPECT_EQ(status("project=pay&commit=7"), 404);
  EXPECT_EQ(status("project=pay&most=65"), 400);
  EXPECT_EQ(status("project=pay&commit=x"), 400);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].most, 1u);
  EXPECT_EQ(asked[1].most, 64u);
  EXPECT_EQ(asked[2].commit, 7u);
}

}  // namespace
}  // namespace falaj::api
