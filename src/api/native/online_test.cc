#include <gtest/gtest.h>

#include <future>

#include "api/feast/feast_routes.h"
#include "api/native/online_desk.h"
#include "api/testing/caller.h"
#include "base/json.h"
#include "features/testing/feature_world.h"

namespace falaj::api {
namespace {

// The handlers of features online, without a server. Project "pay" has one customer.
class OnlineRoutes : public ::testing::Test {
 protected:
  void SetUp() override {
    declare_project();
    world_.apply_activity();
    ASSERT_TRUE(
        world_.push("activity", R"([{"customer_id":1,"at":"2026-05-20","amount":5}])").ok());
    for (const auto& routes : {online_routes(desk_), feast_routes(desk_)}) {
      for (const net::Route& route : routes) router_.add(route);
    }
  }

  void declare_project() {
    storage::Object project;
    project.kind = "Project";
    project.name = world_.context.project.str();
    project.spec["zone"] = world_.context.zone.name();
    const Status declared = world_.sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, project, world_.clock.now()));
      return {};
    });
    ASSERT_TRUE(declared.ok()) << declared.error().message;
  }

  net::Response send(const std::string& path, const std::string& body,
                     std::optional<security::Scope> only = std::nullopt) {
    net::Request request;
    request.method = net::Method::kPost;
    request.path = path;
    request.query = "project=pay";
    request.body = body;
    security::Principal principal;
    principal.kind = security::PrincipalKind::kUser;
    principal.id = "user:dev";
    if (only) principal.scopes = std::vector<security::Scope>{*only};
    CallerParts parts;
    parts.principal = std::make_shared<const security::Principal>(principal);
    parts.policies = std::make_shared<const security::access::Policies>(
        security::access::PolicyInput{{security::access::local_developer()}, {}, {}});
    request.caller = make_caller(std::move(parts));
    const net::Match match = router_.match(request);
    EXPECT_NE(match.route, nullptr) << path;
    if (match.route->handler == nullptr) return match.route->sync_handler(request);
    std::promise<net::Response> answered;
    match.route->handler(request,
                         [&](net::Response reply) { answered.set_value(std::move(reply)); });
    return answered.get_future().get();
  }

  features::FeatureWorld world_;
  catalog::Catalog catalog_{*world_.sql, world_.audit, world_.clock, features::kinds(), [] {}};
  features::Explainer explainer_{*world_.sql, *world_.blobs, world_.audit, world_.clock};
  OnlineDesk desk_{*world_.online, *world_.pushes, explainer_, catalog_, world_.clock};
  net::Router router_;
};

constexpr const char* kRead = R"({"entities":[{"customer_id":1}],"features":["amount"]})";
constexpr const char* kFeast = R"({"feature_service":"svc","entities":{"customer_id":[1]}})";

TEST_F(OnlineRoutes, the_first_read_plans_and_the_next_ones_know) {
  for (int i = 0; i < 2; ++i) {
    const net::Response reply = send("/api/v1/feature-services/svc:read", kRead);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(parse_json(reply.body)->integer("commit"), 1);
    EXPECT_NE(reply.body.find(R"("values":[5])"), std::string::npos) << reply.body;
    const net::Response feast = send("/get-online-features", kFeast);
    EXPECT_EQ(feast.status, 200) << feast.body;
    EXPECT_NE(feast.body.find(R"({"values":[5],)"), std::string::npos) << feast.body;
    EXPECT_EQ(net::find_header(feast.headers, "X-Falaj-Commit"), "1");
  }
}

TEST_F(OnlineRoutes, who_may_read_a_service_may_not_read_its_views_by_it) {
  ASSERT_EQ(send("/api/v1/feature-services/svc:read", kRead).status, 200);
  // Not 403: whether there is such a view is not told either.
  const security::Scope service{"data.read", "pay", "FeatureService/svc"};
  EXPECT_EQ(send("/api/v1/feature-services/svc:read", kRead, service).status, 404);
  EXPECT_EQ(send("/get-online-features", kFeast, service).status, 404);
  const security::Scope other{"data.read", "pay", "FeatureView/other"};
  EXPECT_EQ(send("/get-online-features",
                 R"({"features":["activity:amount"],"entities":{"customer_id":[1]}})", other)
                .status,
            404);
  EXPECT_EQ(send("/push",
                 R"({"push_source_name":"tx","df":{"customer_id":[1],"at":["2026-05-21"],)"
                 R"("loaded_at":null,"amount":[9],"city":"x"}})",
                 other)
                .status,
            404);
  EXPECT_EQ(world_.read({1}).numbers[0], 5.0) << "nothing was written";
}

TEST_F(OnlineRoutes, feasts_errors_are_its_own) {
  const net::Response gone =
      send("/get-online-features", R"({"features":["nope:x"],"entities":{"customer_id":[1]}})");
  EXPECT_EQ(gone.status, 404);
  EXPECT_NE(gone.body.find("FeastObjectNotFoundException"), std::string::npos) << gone.body;
  EXPECT_EQ(send("/get-online-features", "{}").status, 422);
  EXPECT_EQ(send("/push", R"({"push_source_name":"nope","df":{"a":[1]}})").status, 404);
  const net::Response wrong =
      send("/push", R"({"push_source_name":"tx","df":{"customer_id":["x"]}})");
  EXPECT_EQ(wrong.status, 422) << wrong.body;
  EXPECT_EQ(send("/materialize", R"({"feature_views":["nope"]})").status, 404);
  EXPECT_EQ(send("/feast/pay/materialize-incremental", R"({"end_ts":"2026-05-21"})").status, 200);
  for (const char* period :
       {R"({"start_ts":"yesterday","end_ts":"2026-05-21"})", R"({"end_ts":20260521})",
        R"({"start_ts":"2026-05-22","end_ts":"2026-05-21"})", R"({"end_ts":"9999-01-01"})"}) {
    EXPECT_EQ(send("/materialize", period).status, 422) << period;
  }
}

TEST_F(OnlineRoutes, too_much_at_once_is_refused) {
  std::string many = R"({"entities":[{"customer_id":1})";
  for (int i = 0; i < 1000; ++i) many += R"(,{"customer_id":1})";
  EXPECT_EQ(send("/api/v1/feature-services/svc:read", many + "]}").status, 400);
}

std::string repeated(const std::string& text, int times) {
  std::string out = text;
  for (int i = 1; i < times; ++i) out += "," + text;
  return "[" + out + "]";
}

TEST_F(OnlineRoutes, a_feature_that_is_asked_for_again_and_again_counts_each_time) {
  const std::string entities = repeated(R"({"customer_id":1})", 500);
  const auto native =
      send("/api/v1/feature-services/svc:read",
           R"({"entities":)" + entities + R"(,"features":)" + repeated(R"("amount")", 2'001) + "}");
  EXPECT_EQ(native.status, 400) << native.body.substr(0, 200);
  EXPECT_NE(native.body.find("1000500"), std::string::npos) << native.body.substr(0, 200);
  const auto feast = send("/get-online-features",
                          R"({"entities":{"customer_id":)" + repeated("1", 500) +
                              R"(},"features":)" + repeated(R"("activity:amount")", 2'001) + "}");
  EXPECT_EQ(feast.status, 422) << feast.body.substr(0, 200);
}

TEST_F(OnlineRoutes, an_answer_with_too_many_texts_is_refused) {
  const std::string row =
      R"([{"customer_id":2,"at":"2026-05-20","city":")" + std::string(1 << 20, 'x') + R"("}])";
  ASSERT_TRUE(world_.push("activity", row).ok());
  const auto native = [&](int rows, int features) {
    return send("/api/v1/feature-services/svc:read",
                R"({"entities":)" + repeated(R"({"customer_id":2})", rows) + R"(,"features":)" +
                    repeated(R"("city")", features) + "}");
  };
  EXPECT_EQ(native(2, 2).status, 200);
  const net::Response refused = native(65, 1);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("split the request"), std::string::npos)
      << refused.body.substr(0, 200);
  EXPECT_EQ(native(1, 65).status, 400) << "one text, written again and again";
  EXPECT_EQ(send("/get-online-features", R"({"feature_service":"svc","entities":{"customer_id":)" +
                                             repeated("2", 65) + "}}")
                .status,
            422);
}

// What was planned for one question must not answer another, whatever its names are made of.
TEST_F(OnlineRoutes, a_name_cannot_ask_for_the_plan_of_others) {
  world_.apply("FeatureView", "secret",
               R"({"entity":"customer","source":"tx","features":[)"
               R"({"name":"pin","type":"int64"},{"name":"g","type":"int64"}]})");
  ASSERT_TRUE(
      world_.push("secret", R"([{"customer_id":1,"at":"2026-05-20","pin":4711,"g":1}])").ok());
  const auto ask = [&](const std::string& features, std::optional<security::Scope> only) {
    return send("/get-online-features",
                R"({"features":)" + features + R"(,"entities":{"customer_id":[1]}})", only);
  };
  const net::Response all = ask(R"(["activity:amount","secret:pin","secret:g"])", std::nullopt);
  ASSERT_EQ(all.status, 200) << all.body;
  const security::Scope activity{"data.read", "pay", "FeatureView/activity"};
  EXPECT_EQ(ask(R"(["activity:amount"])", activity).status, 200);
  EXPECT_EQ(ask(R"(["activity:amount","secret:pin","secret:g"])", activity).status, 404);
  const net::Response stolen = ask(R"(["activity:amount\nsecret\tpin","activity:g"])", activity);
  EXPECT_EQ(stolen.status, 404) << stolen.body;
  EXPECT_EQ(stolen.body.find("4711"), std::string::npos) << stolen.body;
}

TEST_F(OnlineRoutes, materializing_brings_in_what_was_committed_and_not_published) {
  ASSERT_EQ(send("/materialize", R"({"feature_views":["activity"]})").status, 200);
  for (const int day : {21, 22}) {
    const std::string path = day == 21 ? "/materialize" : "/materialize-incremental";
    world_.commit_unseen("activity", "customer_id,at,loaded_at,amount,city\n1,2026-05-" +
                                         std::to_string(day) + ",," + std::to_string(day) + ",x\n");
    const net::Response done = send(path, R"({"feature_views":["activity"]})");
    EXPECT_EQ(done.status, 200) << done.body;
    EXPECT_EQ(world_.read({1}).numbers[0], day);
  }
}

}  // namespace
}  // namespace falaj::api
