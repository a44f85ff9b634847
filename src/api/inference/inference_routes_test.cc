#include "api/inference/inference_routes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "api/testing/caller.h"
#include "api/testing/declared_project.h"
#include "base/json.h"
#include "crypto/base64.h"
#include "serving/testing/serving_world.h"
#include "serving/testing/staged_runtime.h"

namespace falaj::api {
namespace {

using namespace std::string_literals;
using net::Method;
using net::Request;
using net::Response;

// The routes over a world with one linear model: score = 2 · amount + age + 1.
class InferenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world_.promote(world_.register_linear(2, 1));
    ASSERT_TRUE(world_.deployments->tick().ok());
    const falaj::crypto::TreeHead tree{7, sha256("seven entries")};
    signer_ =
        security::open_local_signer({world_.folder.path() + "/signer", "falaj/test", {}}).value();
    receipts_ = std::make_unique<security::Receipts>(*signer_, world_.clock);
    const Status signs =
        receipts_->tick({tree, signer_->sign_head(tree, {}, world_.clock.now()).value()});
    ASSERT_TRUE(signs.ok()) << signs.error().message;
    for (net::Route& route :
         inference_routes({*world_.deployments, catalog_, "9.9", receipts_.get()})) {
      router_->add(std::move(route));
    }
  }

  Response send(Method method, const std::string& path, std::string body = "",
                net::Headers headers = {}) {
    Request request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    request.headers = std::move(headers);
    request.caller = testing::developer("pay");
    const net::Match match = router_->match(request);
    if (match.route == nullptr) {
      Response none;
      none.status = match.path_known ? 405 : 404;
      return none;
    }
    if (match.route->handler == nullptr) return match.route->sync_handler(request);
    Response answer;
    match.route->handler(request, [&answer](Response given) { answer = std::move(given); });
    return answer;
  }
  Value get(const std::string& path, int status = 200) {
    const Response response = send(Method::kGet, path);
    EXPECT_EQ(response.status, status) << path << " " << response.body;
    return parse_json(response.body).value();
  }
  Response infer(std::string body, net::Headers headers = {},
                 const std::string& path = "/v2/models/fraud/infer") {
    return send(Method::kPost, path, std::move(body), std::move(headers));
  }

  serving::testing::ServingWorld world_;
  catalog::Catalog catalog_{*world_.sql, world_.audit, world_.clock,
                            testing::declare_project(world_), [] {}};
  std::unique_ptr<security::Signer> signer_;
  std::unique_ptr<security::Receipts> receipts_;
  std::optional<net::Router> router_{std::in_place};
};

std::string floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

TEST_F(InferenceTest, tells_where_the_time_went_to_who_asks) {
  const std::string asked =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[10,5]}]})";
  const auto timing = [](const Response& response) {
    return std::string(net::find_header(response.headers, "Server-Timing"));
  };
  EXPECT_EQ(timing(infer(asked)), "");
  EXPECT_EQ(timing(infer(asked, {{"X-Falaj-Timing", "0"}})), "");
  const std::string told = timing(infer(asked, {{"X-Falaj-Timing", "1"}}));
  EXPECT_NE(told.find("execute;dur="), std::string::npos) << told;
  EXPECT_NE(told.find("render;dur="), std::string::npos) << told;
  EXPECT_EQ(told.find("features;dur="), std::string::npos) << "tensors were sent: " << told;
  const Response v1 =
      infer(R"({"instances":[[10,5]]})", {{"X-Falaj-Timing", "1"}}, "/v1/models/fraud:predict");
  EXPECT_NE(timing(v1).find("execute;dur="), std::string::npos) << v1.body;
  EXPECT_EQ(infer(asked, {{"X-Falaj-Timing", "please"}}).status, 400);

  // Counted whether or not anyone asked.
  const Value stats = get("/v2/models/fraud/stats")["model_stats"].as_array()[0]["inference_stats"];
  EXPECT_EQ(stats["compute_infer"]["count"], Value(4));
  EXPECT_GT(stats["compute_infer"].integer("ns"), 0);
  EXPECT_GT(stats["compute_output"].integer("ns"), 0);
  EXPECT_LE(stats["compute_infer"].integer("ns"), stats["success"].integer("ns"));
}

TEST_F(InferenceTest, describes_the_server) {
  const Value server = get("/v2");
  EXPECT_EQ(server.text("name"), "falaj");
  EXPECT_EQ(server.text("version"), "9.9");
  EXPECT_TRUE(server["extensions"].is_array());
  EXPECT_EQ(get("/v2/health/live")["live"], Value(true));
  EXPECT_EQ(get("/v2/health/ready")["ready"], Value(true));
}

TEST_F(InferenceTest, says_whether_the_model_ran_and_counts_it_as_triton_does) {
  const std::string asked =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[10,5]}]})";
  const auto header = [](const Response& response) {
    return std::string(net::find_header(response.headers, "X-Falaj-Cache"));
  };
  EXPECT_EQ(header(infer(asked)), "") << "nothing is kept that is not declared";
  EXPECT_FALSE(get("/v2/models/fraud/config").has("response_cache"));
  world_.apply("Deployment", "fraud", R"({"model":"fraud","cache":{"bytes":"1Mi"}})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(get("/v2/models/fraud/config")["response_cache"]["enable"], Value(true));

  const Response miss = infer(asked);
  const Response hit = infer(asked);
  EXPECT_EQ(header(miss), "miss");
  EXPECT_EQ(header(hit), "hit");
  EXPECT_EQ(miss.body, hit.body);
  // The same numbers as binary tensors, in and out: one answer for both forms.
  const std::string json =
      R"({"id":"b","parameters":{"binary_data_output":true},"inputs":[{"name":"input",)"
      R"("shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  const Response binary = infer(json + floats({10, 5}),
                                {{"Inference-Header-Content-Length", std::to_string(json.size())}});
  EXPECT_EQ(header(binary), "hit");
  EXPECT_TRUE(binary.body.ends_with(floats({26}))) << binary.body;
  const Response v1 = infer(R"({"instances":[[10,5]]})", {}, "/v1/models/fraud:predict");
  EXPECT_EQ(header(v1), "hit") << v1.body;
  EXPECT_EQ(header(infer(R"({"inputs":[]})")), "") << "an error has no such header";

  const Value model = get("/v2/models/fraud/stats")["model_stats"].as_array()[0];
  EXPECT_EQ(model["inference_count"], Value(2));
  EXPECT_EQ(model["execution_count"], Value(2));
  EXPECT_EQ(model["inference_stats"]["success"]["count"], Value(5));
  EXPECT_EQ(model["inference_stats"]["compute_infer"]["count"], Value(2));
  EXPECT_EQ(model["inference_stats"]["cache_hit"]["count"], Value(3));
  EXPECT_GT(model["inference_stats"]["cache_hit"].integer("ns"), 0);
  EXPECT_EQ(model["inference_stats"]["cache_miss"]["count"], Value(1));
}

TEST_F(InferenceTest, gives_a_receipt_of_the_very_bytes_to_who_asks_for_one) {
  const auto receipt = [](const Response& response) {
    const std::string_view text = net::find_header(response.headers, "X-Falaj-Receipt");
    return crypto::from_base64(text.substr(0, text.find('.'))).value_or("");
  };
  const std::string asked =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[10,5]}]})";
  EXPECT_EQ(receipt(infer(asked)), "");
  const Response given = infer(asked, {{"X-Falaj-Receipt", "1"}});
  ASSERT_EQ(given.status, 200) << given.body;
  const registry::ModelVersion version =
      world_.models->get(world_.context.project, "fraud", 1).value();
  for (const std::string& line :
       {"\nproject pay\n"s, "\ndeployment fraud\n"s, "\nonnx " + version.onnx.str() + "\n",
        "\nfeatures -\n"s, "\nasked body " + sha256_hex(asked) + "\n",
        "\nanswered body " + sha256_hex(given.body) + "\n", "\nlog 7 "s}) {
    EXPECT_NE(receipt(given).find(line), std::string::npos) << line << receipt(given);
  }
  const Response v1 =
      infer(R"({"instances":[[10,5]]})", {{"X-Falaj-Receipt", "1"}}, "/v1/models/fraud:predict");
  EXPECT_NE(receipt(v1).find(sha256_hex(v1.body)), std::string::npos);
  EXPECT_EQ(infer(asked, {{"X-Falaj-Receipt", "yes"}}).status, 400);
  world_.clock.advance(Duration::hours(2));
  EXPECT_EQ(infer(asked, {{"X-Falaj-Receipt", "1"}}).status, 503) << "its key is over";
  EXPECT_EQ(infer(asked).status, 200);
}

TEST_F(InferenceTest, describes_a_model_by_each_of_its_names) {
  for (const char* path : {"/v2/models/fraud", "/v2/models/pay.fraud",
                           "/v2/models/fraud/versions/1", "/v2/models/fraud/versions/champion"}) {
    const Value model = get(path);
    EXPECT_EQ(to_json(model["versions"]), R"(["1"])");
    EXPECT_EQ(to_json(model["inputs"]), R"([{"datatype":"FP32","name":"input","shape":[-1,2]}])");
    EXPECT_EQ(to_json(model["outputs"]), R"([{"datatype":"FP32","name":"score","shape":[-1,1]}])");
    EXPECT_EQ(get(std::string(path) + "/ready")["ready"], Value(true));
  }
  const Value config = get("/v2/models/fraud/config");
  EXPECT_GT(config.integer("max_batch_size"), 0);
  EXPECT_NE(config["parameters"]["falaj_rows_together"].text("string_value"), "");
  EXPECT_EQ(config["parameters"]["falaj_features"].text("string_value"), R"(["amount","age"])");
  EXPECT_EQ(to_json(config["input"]), R"([{"data_type":"TYPE_FP32","dims":[2],"name":"input"}])");
}

TEST_F(InferenceTest, says_what_is_not_found_in_the_dialects_words) {
  EXPECT_EQ(get("/v2/models/nobody", 404).text("error"),
            "Request for unknown model: 'nobody' is not found");
  EXPECT_NE(get("/v2/models/fraud/versions/7", 404).text("error").find("version 7 is not found"),
            std::string::npos);
  EXPECT_NE(get("/v2/models/nobody/ready", 400).text("error").find("Model version not ready"),
            std::string::npos);
  EXPECT_EQ(send(Method::kPost, "/v2/models/fraud").status, 405);
  EXPECT_EQ(send(Method::kGet, "/v2/models/fraud/infer").status, 405);
  EXPECT_EQ(send(Method::kGet, "/v2/nothing").status, 404);
}

TEST_F(InferenceTest, finds_nothing_where_the_gate_found_no_project) {
  for (const std::string path : {"/v2/models/fraud", "/v2/models/pay.fraud",
                                 "/v2/models/fraud/config", "/v2/models/fraud/stats"}) {
    Request request;
    request.path = path;
    request.caller = testing::developer();  // May do everything, and is in no project.
    EXPECT_EQ(router_->match(request).route->sync_handler(request).status, 404) << path;
  }
}

TEST_F(InferenceTest, infers_from_json) {
  const Response response =
      infer(R"({"id":"7","inputs":[{"name":"input","shape":[2,2],"datatype":"FP32",)"
            R"("data":[[1,2],[3,4]]}]})");
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, R"({"id":"7","model_name":"fraud","model_version":"1","outputs":[)"
                           R"({"name":"score","datatype":"FP32","shape":[2,1],"data":[5,11]}]})");
}

TEST_F(InferenceTest, infers_from_binary_tensors_as_the_python_client_sends_them) {
  const std::string json =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32",)"
      R"("parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}})";
  const Response response = infer(
      json + floats({1, 2}), {{"inference-header-content-length", std::to_string(json.size())}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.content_type, "application/octet-stream");
  const std::string length(net::find_header(response.headers, "Inference-Header-Content-Length"));
  ASSERT_FALSE(length.empty());
  const auto at = static_cast<std::size_t>(std::stoul(length));
  EXPECT_TRUE(parse_json(response.body.substr(0, at)).ok());
  EXPECT_EQ(response.body.substr(at), floats({5}));
}

TEST_F(InferenceTest, takes_a_raw_body_as_one_row) {
  const Response response = infer(floats({1, 2}), {{"Inference-Header-Content-Length", "0"}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.body.substr(response.body.size() - 4), floats({5}));
}

TEST_F(InferenceTest, refuses_with_400_and_a_reason_what_does_not_fit) {
  const auto refused = [&](const std::string& body, net::Headers headers = {}) {
    const Response response = infer(body, std::move(headers));
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    return parse_json(response.body).value().text("error");
  };
  EXPECT_NE(refused(""), "");
  EXPECT_NE(refused("{"), "");
  EXPECT_EQ(refused(R"({"inputs":[{"name":"input","shape":[1,3],"datatype":"FP32",)"
                    R"("data":[1,2,3]}]})"),
            "unexpected shape for input 'input' for model 'fraud'. Expected [-1,2], got [1,3]");
  EXPECT_NE(refused(R"({"inputs":[]})").find("expected 1 inputs but got 0"), std::string::npos);
  EXPECT_NE(refused("{}", {{"Inference-Header-Content-Length", "x"}}), "");
  EXPECT_NE(refused("{}", {{"Inference-Header-Content-Length", "99"}}), "");
  EXPECT_NE(refused(R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32",)"
                    R"("data":[1,null]}]})")
                .find("binary_data"),
            std::string::npos)
      << "a NaN comes out, which JSON cannot carry";
  EXPECT_EQ(infer("{}", {}, "/v2/models/nobody/infer").status, 404);
  EXPECT_EQ(infer("{}", {{"Content-Encoding", "br"}}).status, 501);
}

TEST_F(InferenceTest, explains_against_the_rows_that_follow) {
  for (const char* path : {"/v2/models/fraud/explain", "/v2/models/fraud/versions/1/explain"}) {
    const Response response =
        infer(R"({"id":"7","inputs":[{"name":"input","shape":[3,2],"datatype":"FP32",)"
              R"("data":[10,5,1,1,1,1]}],"parameters":{"background_rows":2,"samples":4}})",
              {}, path);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(
        response.body,
        R"({"column":0,"explanations":[{"base_value":4.0,"contributions":{"age":4.0,)"
        R"("amount":18.0},"samples":4,"standard_errors":{"age":0.0,"amount":0.0},"value":26.0}],)"
        R"("features":["amount","age"],"id":"7","method":"permutation_sampling",)"
        R"("model_name":"fraud","model_version":"1","output":"score","scale":"output"})");
  }
}

TEST_F(InferenceTest, says_why_it_does_not_explain) {
  const auto refused = [&](const std::string& parameters, int status = 400,
                           const std::string& more = "") {
    const Response response =
        infer(R"({"inputs":[{"name":"input","shape":[2,2],"datatype":"FP32","data":[10,5,1,1]}])" +
                  more + R"(,"parameters":{)" + parameters + "}}",
              {}, "/v2/models/fraud/explain");
    EXPECT_EQ(response.status, status) << response.body;
    return parse_json(response.body).value().text("error");
  };
  EXPECT_NE(refused("").find("background_rows"), std::string::npos);
  EXPECT_NE(refused(R"("background_rows":2)").find("none to explain"), std::string::npos);
  EXPECT_NE(refused(R"("background_rows":1,"budget_ms":10001)").find("from 1 to 10000"),
            std::string::npos);
  EXPECT_NE(refused(R"("background_rows":"1")").find("whole number"), std::string::npos);
  EXPECT_NE(refused(R"("background_rows":1)", 400, R"(,"outputs":[{"name":"other"}])")
                .find("no output 'other'"),
            std::string::npos);
  EXPECT_NE(
      refused(R"("background_rows":1)", 400, R"(,"outputs":[{"name":"score"},{"name":"score"}])")
          .find("one output"),
      std::string::npos);
  // A microsecond is no time for two samples.
  refused(R"("background_rows":1,"timeout":1)", 504);
  EXPECT_EQ(infer("{}", {}, "/v2/models/nobody/explain").status, 404);
  EXPECT_EQ(infer("{}", {}, "/v2/models/fraud/versions/7/explain").status, 404);
  EXPECT_EQ(infer("{", {}, "/v2/models/fraud/explain").status, 400);
}

TEST_F(InferenceTest, says_503_while_a_deployment_has_no_version) {
  world_.apply("Deployment", "waiting", R"({"model":"other"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(infer("{}", {}, "/v2/models/waiting/infer").status, 503);
  EXPECT_EQ(send(Method::kGet, "/v2/models/waiting/ready").status, 400);
  EXPECT_EQ(get("/v2/health/ready")["ready"], Value(true)) << "it waits for its first training";
}

TEST_F(InferenceTest, is_not_ready_while_a_deployment_cannot_be_loaded) {
  registry::ModelVersion broken = world_.models->get(ProjectName("pay"), "fraud", 1).value();
  broken.model = "other";
  broken.project = world_.context.project.str();
  broken.zone = world_.context.zone.name();
  EXPECT_TRUE(registry::keep_onnx(*world_.blobs, "no model", broken).ok());
  ASSERT_TRUE(world_.models->add_version(world_.context, broken).ok());
  world_.apply("Deployment", "broken", R"({"model":"other","version":1})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  const std::string error = get("/v2/health/ready", 400).text("error");
  EXPECT_EQ(error, "a version that should serve cannot be loaded");
  EXPECT_EQ(error.find("broken"), std::string::npos) << "anyone may ask: " << error;
}

TEST_F(InferenceTest, unloads_and_loads_a_deployment_and_writes_it_down) {
  const auto post = [&](const std::string& path, std::string body = "") {
    return send(Method::kPost, path, std::move(body));
  };
  const std::string row =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[1,2]}]})";
  ASSERT_EQ(infer(row).status, 200);
  const Response unloaded =
      post("/v2/repository/models/fraud/unload", R"({"parameters":{"unload_dependents":false}})");
  EXPECT_EQ(unloaded.status, 200) << unloaded.body;
  EXPECT_EQ(unloaded.body, "");
  EXPECT_EQ(infer(row).status, 503);
  EXPECT_EQ(send(Method::kGet, "/v2/models/fraud/ready").status, 400);
  EXPECT_EQ(get("/v2/health/ready")["ready"], Value(true)) << "nobody asked for it to be there";
  ASSERT_TRUE(world_.deployments->tick().ok());
  EXPECT_EQ(infer(row).status, 503) << "a tick must not bring it back";
  EXPECT_EQ(post("/v2/repository/index").body,
            R"([{"name":"fraud","reason":"unloaded by request","state":"UNAVAILABLE"}])");
  EXPECT_EQ(post("/v2/repository/index", R"({"ready":true})").body, "[]");
  EXPECT_EQ(post("/v2/repository/index", R"({"ready":7})").status, 400);

  EXPECT_EQ(post("/v2/repository/models/fraud/load").status, 200);
  EXPECT_EQ(infer(row).status, 200);
  EXPECT_EQ(world_.audited("deployment.unload").size(), 1U);
  EXPECT_EQ(world_.audited("deployment.load").size(), 1U);
  EXPECT_EQ(world_.audited("deployment.load")[0].actor, "user:dev");

  EXPECT_EQ(post("/v2/repository/models/nobody/load").status, 404);
  EXPECT_EQ(post("/v2/repository/models/nobody/unload").status, 404);
  EXPECT_EQ(post("/v2/repository/models/fraud/load", "{").status, 400);
  for (const char* brought : {"config", "file:1/model.onnx"}) {
    EXPECT_EQ(post("/v2/repository/models/fraud/load",
                   R"({"parameters":{")" + std::string(brought) + R"(":"x"}})")
                  .status,
              501);
  }
  world_.apply("Deployment", "waiting", R"({"model":"other"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  const Response failed = post("/v2/repository/models/waiting/load");
  EXPECT_EQ(failed.status, 503);
  EXPECT_NE(failed.body.find("failed to load 'waiting'"), std::string::npos) << failed.body;
}

TEST_F(InferenceTest, answers_v1_in_rows_and_in_columns) {
  const auto predict = [&](std::string body, const std::string& path = "/v1/models/fraud:predict") {
    return send(Method::kPost, path, std::move(body));
  };
  EXPECT_EQ(predict(R"({"instances":[[1,2],[3,4]]})").body, R"({"predictions":[[5],[11]]})");
  EXPECT_EQ(predict(R"({"instances":[{"input":[1,2]}],"signature_name":"x"})").body,
            R"({"predictions":[[5]]})");
  EXPECT_EQ(predict(R"({"inputs":[[1,2],[3,4]]})").body, R"({"outputs":[[5],[11]]})");
  EXPECT_EQ(predict(R"({"inputs":{"input":[[1,2]]}})").body, R"({"outputs":[[5]]})");
  for (const char* path : {"/v1/models/pay.fraud:predict", "/v1/models/fraud/versions/1:predict",
                           "/v1/models/fraud/labels/champion:predict"}) {
    EXPECT_EQ(predict(R"({"instances":[[1,2]]})", path).body, R"({"predictions":[[5]]})") << path;
  }
  EXPECT_EQ(get("/v1/models/fraud")["ready"], Value(true));
  EXPECT_EQ(send(Method::kGet, "/v1/models/nobody").status, 404);
  EXPECT_EQ(predict(R"({"instances":[[1,2]]})", "/v1/models/fraud/versions/7:predict").status, 404);
  for (const char* wrong :
       {"", "{}", R"({"instances":[]})", R"({"instances":[[1]]})", R"({"instances":[[1,2],[3]]})",
        R"({"instances":[[1,2],[3,4,5],[6]]})", R"({"inputs":[[1,2],[3,4,5],[6]]})",
        R"({"instances":[[1,2],[[3],4]]})", R"({"instances":[[1,2],3,4]})",
        R"({"inputs":{"input":[[1,2],3,4]}})", R"({"instances":[[],[1,2]]})",
        R"({"instances":[["a","b"]]})", R"({"instances":[[1,2]],"inputs":[[1,2]]})",
        R"({"instances":[{"other":[1,2]}]})", R"({"instances":{"input":[1,2]}})",
        R"({"inputs":{"other":[[1,2]]}})", R"({"inputs":7})"}) {
    EXPECT_EQ(predict(wrong).status, 400) << wrong;
  }
}

TEST_F(InferenceTest, lists_models_and_counts_requests) {
  ASSERT_EQ(infer(R"({"inputs":[{"name":"input","shape":[3,2],"datatype":"FP32",)"
                  R"("data":[1,2,3,4,5,6]}]})")
                .status,
            200);
  for (const char* path :
       {"/v2/models/stats", "/v2/models/fraud/stats", "/v2/models/fraud/versions/1/stats"}) {
    const Value stats = get(path)["model_stats"];
    ASSERT_EQ(stats.as_array().size(), 1U);
    const Value& model = stats.as_array()[0];
    EXPECT_EQ(model["inference_count"], Value(3));
    EXPECT_EQ(model["execution_count"], Value(1));
    EXPECT_EQ(model["inference_stats"]["success"]["count"], Value(1));
    EXPECT_GT(model["inference_stats"]["success"].integer("ns"), 0);
    EXPECT_GT(model.integer("last_inference"), 0);
  }
  const Response index = send(Method::kPost, "/v2/repository/index");
  EXPECT_EQ(index.body, R"([{"name":"fraud","reason":"","state":"READY","version":"1"}])");
}

TEST(InferenceError, takes_the_status_of_the_dialect) {
  EXPECT_EQ(inference_error(Error(ErrorId::kModelNotFound, "x")).status, 404);
  EXPECT_EQ(inference_error(Error(ErrorId::kModelNotReady, "x")).status, 503);
  EXPECT_EQ(inference_error(Error(ErrorId::kTensorMismatch, "x")).status, 400);
  EXPECT_EQ(inference_error(Error(ErrorId::kConflict, "x")).status, 400);
  EXPECT_EQ(inference_error(Error(ErrorId::kInternal, "x")).status, 500);
  EXPECT_EQ(inference_error(Error(ErrorId::kBodyTooLarge, "x")).status, 413);
  EXPECT_EQ(inference_error(Error(ErrorId::kHostRefused, "x")).status, 403);
  EXPECT_EQ(inference_error(Error(ErrorId::kInternal, "a\"b")).body, R"({"error":"a\"b"})");
}

TEST_F(InferenceTest, every_version_that_serves_answers_under_its_number) {
  world_.register_linear(5, 0);
  world_.apply("Deployment", "fraud", R"({"model":"fraud","versions":"all"})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  const std::string body =
      R"({"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[1,0]}]})";
  const auto asked = [&](const std::string& base) {
    const Response response = infer(body, {}, base + "/infer");
    EXPECT_EQ(response.status, 200) << response.body;
    const Value reply = parse_json(response.body).value();
    return reply.text("model_version") + ":" + to_json(reply["outputs"].as_array()[0]["data"]);
  };
  EXPECT_EQ(asked("/v2/models/fraud"), "1:[3]");
  EXPECT_EQ(asked("/v2/models/fraud/versions/1"), "1:[3]");
  EXPECT_EQ(asked("/v2/models/fraud/versions/2"), "2:[5]");
  EXPECT_EQ(to_json(get("/v2/models/fraud")["versions"]), R"(["1","2"])");
  EXPECT_EQ(to_json(get("/v2/models/fraud/versions/2")["versions"]), R"(["2"])");
  EXPECT_EQ(get("/v2/models/fraud/versions/2/ready")["ready"], Value(true));
  EXPECT_EQ(get("/v2/models/fraud/stats")["model_stats"].as_array().size(), 2U);
  const Value stats = get("/v2/models/fraud/versions/2/stats")["model_stats"];
  ASSERT_EQ(stats.as_array().size(), 1U);
  EXPECT_EQ(stats.as_array()[0].text("version"), "2");
  EXPECT_EQ(stats.as_array()[0]["inference_count"].as_int(), 1);
  const Value index = parse_json(send(Method::kPost, "/v2/repository/index", "{}").body).value();
  EXPECT_EQ(index.as_array().size(), 2U);
  const Value missing = get("/v2/models/fraud/versions/3", 404);
  EXPECT_NE(missing.text("error").find("versions 1, 2 serve"), std::string::npos)
      << missing.text("error");
}

TEST_F(InferenceTest, a_reply_of_the_fallback_says_so) {
  serving::testing::Stage stage;
  serving::testing::StagedRuntime runtime(*world_.runtime, stage);
  runtime.cost = Duration::milliseconds(50);
  serving::Deployments staged(*world_.sql, *world_.models, *world_.online, runtime, world_.sink,
                              world_.audit, world_.metrics, world_.clock);
  serving::Deployments::Limits limits;
  limits.nanos = [&stage] { return stage.now; };
  staged.limit(limits);
  world_.promote(world_.register_linear(5, 0));
  world_.apply("Deployment", "fraud",
               R"({"model":"fraud","batch":"never","fallback":{"version":1}})");
  ASSERT_TRUE(staged.tick().ok());
  router_.emplace();
  for (net::Route& route : inference_routes({staged, catalog_, "9.9", receipts_.get()})) {
    router_->add(std::move(route));
  }
  const std::string row =
      R"("inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":[1,0]}]})";
  EXPECT_EQ(net::find_header(infer("{" + row).headers, "X-Falaj-Fallback"), "");
  Response late;
  stage.meanwhile = [&] { late = infer(R"({"parameters":{"timeout":20000},)" + row); };
  const Response first = infer("{" + row);
  EXPECT_EQ(parse_json(first.body)->text("model_version"), "2");
  ASSERT_EQ(late.status, 200) << late.body;
  EXPECT_EQ(net::find_header(late.headers, "X-Falaj-Fallback"), "fraud/1");
  EXPECT_EQ(parse_json(late.body)->text("model_version"), "1");
  const Value config = get("/v2/models/fraud/config");
  EXPECT_EQ(config["parameters"]["falaj_fallback"].text("string_value"), "fraud/1");
  router_.emplace();
}

}  // namespace
}  // namespace falaj::api
