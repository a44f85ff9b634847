#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "api/caller.h"
#include "api/gate.h"
#include "api/native/live_feed.h"
#include "api/native/services.h"
#include "api/testing/caller.h"
#include "base/json.h"
#include "features/quarantine_files.h"
#include "serving/testing/serving_world.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Response;

// The native routes over real services; project "pay" has one deployment that follows champion.
class NativeRoutesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (auto make :
         {object_routes, feature_routes, model_routes, deployment_routes, system_routes}) {
      for (net::Route& route : make(services_)) router_.add(std::move(route));
    }
    send(Method::kPut, "/api/v1/objects", "",
         R"({"objects":[{"apiVersion":"falaj.dev/v1","kind":"Zone","metadata":{"name":"ae"},)"
         R"("spec":{}},)"
         R"({"apiVersion":"falaj.dev/v1","kind":"Project","metadata":{"name":"pay"},)"
         R"("spec":{"zone":"ae"}}]})");
    world_.apply_customers();
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    ASSERT_TRUE(world_.append("activity", "customer_id,at,amount,age\n1,2026-01-01,10,30\n").ok());
  }

  Response send(Method method, const std::string& path, const std::string& query = "",
                std::string body = "", std::string uploaded = "") {
    net::Request request;
    request.method = method;
    request.path = path;
    request.query = query;
    request.body = std::move(body);
    request.body_file = std::make_shared<TextReader>(std::move(uploaded));
    request.principal = "user:dev";
    request.caller = testing::developer();
    const net::Match match = router_.match(request);
    EXPECT_NE(match.route, nullptr) << path;
    return match.route == nullptr ? Response{} : match.route->sync_handler(request);
  }
  Response promote(std::int64_t version) {
    return send(Method::kPut, "/api/v1/models/fraud/aliases/champion", "project=pay",
                R"({"version":)" + std::to_string(version) + "}");
  }
  std::int64_t register_broken() {
    registry::ModelVersion broken;
    broken.model = "fraud";
    broken.project = world_.context.project.str();
    broken.zone = world_.context.zone.name();
    EXPECT_TRUE(registry::keep_onnx(*world_.blobs, "this is no model", broken).ok());
    broken.run = RunId("broken");
    return world_.models->add_version(world_.context, broken)->version;
  }
  // user:vi reads in this project, and in no other.
  Status let_view(const std::string& project) {
    storage::Object object;
    object.kind = "Grant";
    object.name = "viewer";
    object.spec =
        parse_json(R"({"to":["user:vi"],"role":"viewer","on":{"project":")" + project + R"("}})")
            .value();
    return world_.sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, object, world_.clock.now()));
      return {};
    });
  }
  static std::vector<storage::KindInfo> kinds() {
    std::vector<storage::KindInfo> all = catalog::platform_kinds();
    for (const auto& kind : features::kinds()) all.push_back(kind);
    return all;
  }

  serving::testing::ServingWorld world_{{tracking::kTrackingMigration, jobs::kJobsMigration,
                                         jobs::kJobEventsMigration, jobs::kJobPayloadsMigration,
                                         jobs::kJobDecisionsMigration,
                                         monitoring::kMonitoringMigration, loop::kLoopMigration}};
  catalog::Catalog catalog_{*world_.sql, world_.audit, world_.clock, kinds(), [] {}};
  tracking::Runs runs_{*world_.sql, world_.audit, world_.clock};
  std::unique_ptr<jobs::Queue> queue_ =  // Never started.
      jobs::Queue::open({.work_folder = world_.folder.path() + "/jobs"}, *world_.sql, world_.audit,
                        world_.metrics, world_.clock)
          .value();
  training::TrainJobs trainer_{{},    *world_.sql,    *world_.blobs, *world_.training_sets,
                               runs_, *world_.models, *queue_};
  monitoring::Monitors monitors_{*world_.sql, *world_.blobs, *world_.models, *world_.training_sets,
                                 world_.sink, world_.audit,  world_.metrics, world_.clock};
  loop::Controller loop_{*world_.sql, *world_.blobs,  *world_.training_sets, trainer_,
                         runs_,       *world_.models, *world_.deployments,   *world_.runtime,
                         monitors_,   world_.audit,   world_.clock};
  serving::ModelImport import_{*world_.models, *world_.blobs,
                               [](std::string_view) { return serving::Inspected(); }, "test"};
  security::access::Denials denials_;
  security::residency::Exits exits_{*world_.sql, world_.audit, world_.clock, {}};
  Services services_{catalog_,
                     *world_.ingest,
                     *world_.training_sets,
                     [this](const ProjectName& project) {
                       return features::view_stats(*world_.sql, world_.online.get(), project);
                     },
                     [this](const ProjectName& project, const BlobId& id) {
                       return features::read_quarantine(*world_.sql, *world_.blobs, project, id);
                     },
                     runs_,
                     *queue_,
                     trainer_,
                     *world_.models,
                     import_,
                     *world_.deployments,
                     monitors_,
                     loop_,
                     world_.audit,
                     denials_,
                     exits_,
                     world_.metrics,
                     world_.clock,
                     "1",
                     "b",
                     {}};
  net::Router router_;
};

// Versions change while a batch is answered: every score must be of the version that is named.
TEST_F(NativeRoutesTest, what_leaves_as_a_file_passes_the_exit_of_files) {
  const std::vector<net::Route> routes = export_routes(services_);
  EXPECT_EQ(routes.size(), 3u);
  for (const net::Route& each : routes) EXPECT_EQ(each.gives, net::Gives::kFile) << each.path;
}

TEST_F(NativeRoutesTest, one_reply_is_of_one_version) {
  const std::int64_t first = world_.register_linear(1, 0);
  const std::int64_t second = world_.register_linear(2, 0);
  ASSERT_EQ(promote(first).status, 200);
  std::string body = R"({"entities":[{"customer_id":1})";
  for (int i = 1; i < 500; ++i) body += R"(,{"customer_id":1})";
  body += "]}";
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    for (int i = 0; i < 60; ++i) promote(i % 2 == 0 ? second : first);
    done = true;
  });
  int mixed = 0;
  while (!done.load()) {
    const Response reply =
        send(Method::kPost, "/api/v1/deployments/fraud:predict", "project=pay", body);
    const Value value = parse_json(reply.body).value();
    const double expected = static_cast<double>(value.integer("version")) * 10 + 30;
    for (const Value& row : value["predictions"].as_array()) {
      if (row.number("score") != expected) ++mixed;
    }
  }
  swapper.join();
  EXPECT_EQ(mixed, 0);
}

TEST_F(NativeRoutesTest, a_request_may_insist_on_a_version) {
  const std::int64_t first = world_.register_linear(1, 0);
  const std::int64_t second = world_.register_linear(2, 0);
  ASSERT_EQ(promote(first).status, 200);
  const std::string path = "/api/v1/deployments/fraud:predict";
  const std::string body = R"({"entity":{"customer_id":1}})";
  const auto of = [](std::int64_t version) {
    return "project=pay&commits=true&version=" + std::to_string(version);
  };
  const Response reply = send(Method::kPost, path, of(first), body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Value value = parse_json(reply.body).value();
  EXPECT_EQ(value.integer("version"), first);
  EXPECT_GT(value["commits"].integer("first"), 0);
  EXPECT_EQ(value["commits"].integer("first"), value["commits"].integer("last"));
  EXPECT_EQ(send(Method::kPost, path, of(second), body).status, 404);
  EXPECT_EQ(send(Method::kPost, path, "project=pay&version=x", body).status, 400);
  ASSERT_EQ(promote(second).status, 200);
  EXPECT_EQ(send(Method::kPost, path, of(first), body).status, 404) << "it was replaced";
}

TEST_F(NativeRoutesTest, an_entity_is_explained_against_others) {
  ASSERT_TRUE(world_.append("activity", "customer_id,at,amount,age\n2,2026-01-01,4,20\n").ok());
  ASSERT_EQ(promote(world_.register_linear(2, 0)).status, 200);
  const std::string body = R"({"entities":[{"customer_id":1},{"customer_id":2}]})";
  const std::string path = "/api/v1/deployments/fraud:explain";
  const Response reply = send(Method::kPost, path, "project=pay&background_rows=1&samples=3", body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Value value = parse_json(reply.body).value();
  EXPECT_EQ(value.text("deployment"), "fraud");
  EXPECT_EQ(value.text("method"), "permutation_sampling");
  ASSERT_EQ(value["explanations"].as_array().size(), 1u);
  const Value& row = value["explanations"].as_array()[0];
  EXPECT_EQ(to_json(row["entity"]), R"({"customer_id":1})");
  EXPECT_EQ(row["contributions"].number("amount"), 12);
  EXPECT_EQ(row["contributions"].number("age"), 10);
  EXPECT_EQ(row.number("base_value"), 28);
  EXPECT_EQ(send(Method::kPost, path, "project=pay", body).status, 400) << "no background";
  EXPECT_EQ(send(Method::kPost, path, "project=pay&budget_ms=0", body).status, 400);
  EXPECT_EQ(send(Method::kPost, path, "project=pay&samples=x", body).status, 400);
}

TEST_F(NativeRoutesTest, setting_an_alias_says_what_became_of_its_deployments) {
  const std::int64_t good = world_.register_linear(1, 0);
  Value reply = parse_json(promote(good).body).value();
  ASSERT_EQ(reply["deployments"].as_array().size(), 1U) << to_json(reply);
  EXPECT_EQ(reply["deployments"].as_array()[0].text("name"), "fraud");
  EXPECT_EQ(reply["deployments"].as_array()[0].text("state"), "ready");
  EXPECT_EQ(reply["deployments"].as_array()[0].integer("version"), good);

  const Response refused = promote(register_broken());
  EXPECT_EQ(refused.status, 200) << "the alias is set";
  reply = parse_json(refused.body).value();
  EXPECT_EQ(reply["deployments"].as_array()[0].text("state"), "failed");
  EXPECT_EQ(reply["deployments"].as_array()[0].integer("version"), good);
  EXPECT_NE(reply["deployments"].as_array()[0].text("error"), "");

  const Response other =
      send(Method::kPut, "/api/v1/models/fraud/aliases/shadow", "project=pay", R"({"version":1})");
  EXPECT_TRUE(parse_json(other.body).value()["deployments"].as_array().empty());
}

TEST_F(NativeRoutesTest, is_ready_unless_a_deployment_should_serve_and_cannot) {
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(send(Method::kGet, "/readyz").status, 200) << "it waits for its first version";
  promote(register_broken());
  const Response unready = send(Method::kGet, "/readyz");
  EXPECT_EQ(unready.status, 503);
  EXPECT_EQ(unready.body, R"({"status":"unavailable"})") << "anyone may ask";
  EXPECT_EQ(send(Method::kGet, "/livez").status, 200);
  promote(world_.register_linear(1, 0));
  EXPECT_EQ(send(Method::kGet, "/readyz").status, 200);
}

TEST_F(NativeRoutesTest, is_ready_and_says_what_jobs_must_do_without) {
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(send(Method::kGet, "/readyz").body, R"({"status":"ok"})");
  services_.jobs_unprotected = {"cgroup-memory"};
  const Response degraded = send(Method::kGet, "/readyz");
  EXPECT_EQ(degraded.status, 200);
  EXPECT_EQ(degraded.body, R"({"status":"degraded"})") << "anyone may ask";
  const Value version = parse_json(send(Method::kGet, "/version").body).value();
  EXPECT_EQ(to_json(version["jobs_without"]), R"(["cgroup-memory"])");
}

TEST_F(NativeRoutesTest, gives_a_quarantine_back_as_csv) {
  const auto report =
      world_.append("activity", "customer_id,at,amount,age\n1,2026-01-02,1,1\n2,never,1,1\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  const std::string path = "/api/v1/quarantine/" + report->quarantine.str();
  const Response rows = send(Method::kGet, path, "project=pay");
  EXPECT_EQ(rows.status, 200);
  EXPECT_TRUE(rows.content_type.starts_with("text/csv"));
  EXPECT_TRUE(rows.body.starts_with("line,reason,raw\n3,")) << rows.body;
  EXPECT_EQ(send(Method::kGet, path, "project=other").status, 404);
}

TEST_F(NativeRoutesTest, freeze_points_a_file_to_where_it_is_read) {
  const Response refused = send(Method::kPost, "/api/v1/training-sets/set:freeze",
                                "project=pay&format=csv", "customer_id,at\n1,2026-01-01\n");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("set:freeze-with-spine"), std::string::npos) << refused.body;
  const Response unnamed = send(Method::kPost, "/api/v1/training-sets/set:freeze-with-spine",
                                "project=pay", "", "customer_id\n1\n");
  EXPECT_EQ(unnamed.status, 400);
  EXPECT_NE(unnamed.body.find("?format="), std::string::npos) << unnamed.body;
}

TEST_F(NativeRoutesTest, objects_without_a_project_go_to_the_one_asked_for) {
  const std::string entity =
      R"({"apiVersion":"falaj.dev/v1","kind":"Entity","metadata":{"name":"shop"},)"
      R"("spec":{"keys":[{"name":"shop_id","type":"int64"}]}})";
  const Response applied = send(Method::kPut, "/api/v1/objects", "project=pay", entity);
  EXPECT_EQ(applied.status, 200) << applied.body;
  EXPECT_TRUE(catalog_.get("Entity", "pay", "shop").ok());
  const Response nowhere = send(Method::kPut, "/api/v1/objects", "", entity);
  EXPECT_NE(nowhere.body.find("default"), std::string::npos) << nowhere.body;
}

TEST_F(NativeRoutesTest, an_unreadable_body_is_called_the_file) {
  const Response refused = send(Method::kPost, "/api/v1/feature-views/activity:ingest",
                                "project=pay&format=parquet", "", "this is no parquet file");
  EXPECT_GE(refused.status, 400);
  EXPECT_NE(refused.body.find("the file: not a readable Parquet"), std::string::npos)
      << refused.body;
}

class KeptStream final : public net::Stream {
 public:
  bool send(std::string_view bytes) override {
    sent += bytes;
    return open_;
  }
  bool open() const override { return open_; }
  void close() override { open_ = false; }
  std::string sent;

 private:
  bool open_ = true;
};

TEST_F(NativeRoutesTest, what_a_run_reports_is_an_event_as_long_as_it_changes) {
  tracking::Run wanted;
  wanted.experiment = "vision";
  const RunId run = runs_.create(world_.context, wanted)->id;
  ASSERT_TRUE(runs_.start(run).ok());
  LiveFeed feed(services_);
  net::Request request;
  request.query = "project=pay";
  request.caller = testing::developer();
  const auto stream = std::make_shared<KeptStream>();
  feed.subscribe(request, stream);
  const auto told = [&] {
    stream->sent.clear();
    feed.tick();
    const std::size_t at = stream->sent.find("event: metrics\ndata: ");
    return at == std::string::npos
               ? ""
               : stream->sent.substr(at + 21, stream->sent.find("\n\n", at) - at - 21);
  };
  EXPECT_NE(told().find("\"experiment\":\"vision\""), std::string::npos);
  EXPECT_EQ(told(), "") << "nothing changed";
  ASSERT_TRUE(runs_.log_metrics(run, {{"loss", 3, 0.5, {}}}).ok());
  EXPECT_NE(told().find("\"metrics\":{\"loss\":0.5}"), std::string::npos);
  ASSERT_TRUE(runs_.set_progress(run, 0.25).ok());
  EXPECT_NE(told().find("\"progress\":0.25"), std::string::npos);
  ASSERT_TRUE(runs_.end(world_.context, run, tracking::RunStatus::kFinished, "", {}).ok());
  EXPECT_NE(told().find("\"status\":\"finished\""), std::string::npos);
  EXPECT_EQ(told(), "") << "it was told that it ended";
}

TEST_F(NativeRoutesTest, an_event_stream_ends_with_the_right_to_it) {
  security::access::Access access(*world_.sql, world_.clock, {});
  ASSERT_TRUE(let_view("pay").ok());
  ASSERT_TRUE(access.refresh().ok());
  bool known = true;
  bool near = true;
  security::Asking asked{};
  security::access::Emergencies emergencies(*world_.sql, world_.audit, world_.metrics,
                                            world_.clock);
  Gate gate({.authenticate = [&](net::Request&,
                                 security::Asking asking) -> Result<security::PrincipalPtr> {
               asked = asking;
               if (!known) return Error{ErrorId::kCredentialExpired, "the session has ended"};
               return std::make_shared<const security::Principal>(
                   security::Principal{security::PrincipalKind::kUser, "user:vi"});
             },
             .access = access,
             .denials = denials_,
             .emergencies = emergencies,
             .audit = world_.audit,
             .metrics = world_.metrics,
             .platform_kinds = {},
             .project_of_record = {},
             .out_of_reach =
                 [&](const net::Request&, const security::PrincipalPtr&) {
                   return [&near](const std::string&, const std::string&) {
                     return std::string(near ? "" : "too far");
                   };
                 },
             .projects_serving = {}});
  LiveFeed feed(services_);
  for (net::Route& route : overview_routes(feed)) router_.add(std::move(route));
  const auto listen = [&] {
    net::Request request;
    request.path = "/api/v1/events";
    request.query = "project=pay";
    const net::Match match = router_.match(request);
    EXPECT_TRUE(gate.pass(*match.route, request).ok());
    auto stream = std::make_shared<KeptStream>();
    match.route->sync_handler(request).on_stream(stream);
    feed.tick();
    EXPECT_TRUE(stream->open());
    EXPECT_EQ(asked, security::Asking::kStillThere);
    EXPECT_NE(stream->sent.find("\"counts\""), std::string::npos);
    return stream;
  };
  const auto signed_out = listen();
  known = false;
  feed.tick();
  EXPECT_FALSE(signed_out->open());
  known = true;

  const auto moved = listen();
  near = false;
  feed.tick();
  EXPECT_FALSE(moved->open());
  near = true;

  const auto revoked = listen();
  ASSERT_TRUE(let_view("shop").ok());
  ASSERT_TRUE(access.refresh().ok());
  feed.tick();
  EXPECT_FALSE(revoked->open());
}

}  // namespace
}  // namespace falaj::api
