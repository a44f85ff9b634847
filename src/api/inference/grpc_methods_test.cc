#include "api/inference/grpc_methods.h"

#include <gtest/gtest.h>

#include "api/inference/grpc_codec.h"
#include "api/testing/caller.h"
#include "api/testing/declared_project.h"
#include "base/json.h"
#include "crypto/base64.h"
#include "onnx/wire.h"

namespace falaj::api {
namespace {

using namespace std::string_literals;
using onnx::WireWriter;
namespace tiny = serving::testing;

std::string message(const std::vector<std::pair<std::uint32_t, std::string>>& fields) {
  WireWriter out;
  for (const auto& [number, bytes] : fields) out.bytes(number, bytes);
  return out.str();
}

std::string tensor(const std::string& name, const std::string& type,
                   const std::vector<std::int64_t>& shape, const std::string& contents = "") {
  WireWriter out;
  out.bytes(1, name);
  out.bytes(2, type);
  out.integers(3, shape);
  if (!contents.empty()) out.bytes(5, contents);
  return out.str();
}

std::string parameter(const std::string& key, const std::string& value) {
  return message({{1, key}, {2, value}});
}

// The methods over a world with "fraud" (2a + b + 1) and models that give back what they get.
class GrpcMethodsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.apply_customers();
    world_.apply("Deployment", "fraud", R"({"model":"fraud"})");
    world_.promote(world_.register_linear(2, 1));
    for (const auto& [name, type, datatype] :
         std::vector<std::tuple<std::string, std::uint64_t, std::string>>{
             {"halves", tiny::kOnnxHalf, "FP16"},
             {"texts", tiny::kOnnxString, "BYTES"},
             {"truths", tiny::kOnnxBool, "BOOL"},
             {"integers", tiny::kOnnxInt64, "INT64"}}) {
      const registry::Signature signature{{{"x", datatype, {-1}}}, {{"y", datatype, {-1}}}, {}};
      world_.serve_onnx(name, tiny::identity_onnx(type, {-1}), signature);
    }
    ASSERT_TRUE(world_.deployments->tick().ok());
    const falaj::crypto::TreeHead tree{7, sha256("seven entries")};
    signer_ =
        security::open_local_signer({world_.folder.path() + "/signer", "falaj/test", {}}).value();
    receipts_ = std::make_unique<security::Receipts>(*signer_, world_.clock);
    ASSERT_TRUE(
        receipts_->tick({tree, signer_->sign_head(tree, {}, world_.clock.now()).value()}).ok());
    const InferenceServices services{*world_.deployments, catalog_, "9.9", receipts_.get()};
    for (net::Route& route : inference_routes(services)) router_.add(std::move(route));
    methods_ = grpc_methods({services, router_});
    gate_ = [this](const net::Route& route, net::Request& request) {
      asked_.push_back(route.path.substr(route.path.rfind('/') + 1) + ": " +
                       route.permission.action() + " on " + route.target.text());
      if (refusal_) return Status(Error(*refusal_, "who?"));
      request.caller = testing::developer("pay");
      return Status();
    };
  }

  Result<std::string> call(const std::string& name, const std::string& bytes,
                           net::Headers headers = {}) {
    net::Request request;
    request.headers = std::move(headers);
    for (const net::GrpcMethod& method : methods_) {
      if (!method.declared.path.ends_with("/" + name)) continue;
      Result<std::string> answer = Error(Code::kInternal, "no answer");
      net::answer_message(method, gate_, request, bytes,
                          [&](Result<std::string> got) { answer = std::move(got); });
      return answer;
    }
    return Error(Code::kUnimplemented, name);
  }
  std::string refused(const std::string& bytes) {
    const auto answer = call("ModelInfer", bytes);
    return answer.ok() ? "answered"
                       : std::to_string(net::grpc_status(answer.error().code)) + " " +
                             answer.error().message;
  }

  serving::testing::ServingWorld world_;
  catalog::Catalog catalog_{*world_.sql, world_.audit, world_.clock,
                            testing::declare_project(world_), [] {}};
  std::unique_ptr<security::Signer> signer_;
  std::unique_ptr<security::Receipts> receipts_;
  net::Router router_;
  std::vector<net::GrpcMethod> methods_;
  net::Gate gate_;
  std::vector<std::string> asked_;
  std::optional<Code> refusal_;
};

const std::string kOneTwo = "\0\0\x80\x3F\0\0\0\x40"s;  // 1 and 2 as FP32.

TEST_F(GrpcMethodsTest, says_in_a_parameter_whether_the_model_ran) {
  world_.apply("Deployment", "fraud", R"({"model":"fraud","cache":{"bytes":"1Mi"}})");
  ASSERT_TRUE(world_.deployments->tick().ok());
  const std::string asked =
      message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}});
  const auto said = [](const std::string& word) {
    return message({{1, "fraud"},
                    {2, "1"},
                    {4, parameter("falaj_cache", message({{3, word}}))},
                    {5, tensor("score", "FP32", {1, 1})},
                    {6, "\0\0\xA0\x40"s}});
  };
  EXPECT_EQ(call("ModelInfer", asked).value(), said("miss"));
  EXPECT_EQ(call("ModelInfer", asked).value(), said("hit"));
  refusal_ = Code::kPermissionDenied;
  EXPECT_EQ(call("ModelInfer", asked).error().code, Code::kPermissionDenied)
      << "who may not ask is not answered from the cache";
}

TEST_F(GrpcMethodsTest, tells_where_the_time_went_as_a_parameter) {
  const std::string asked =
      message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}});
  const auto told = call("ModelInfer", asked, {{"x-falaj-timing", "1"}});
  ASSERT_TRUE(told.ok()) << told.error().message;
  EXPECT_NE(told->find("falaj_timing"), std::string::npos);
  EXPECT_NE(told->find("execute;dur="), std::string::npos);
  EXPECT_EQ(call("ModelInfer", asked)->find("falaj_timing"), std::string::npos);
  EXPECT_EQ(call("ModelInfer", asked, {{"x-falaj-timing", "2"}}).error().code,
            Code::kInvalidArgument);
}

TEST_F(GrpcMethodsTest, gives_a_receipt_as_a_parameter) {
  const std::string asked =
      message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}});
  const auto answer = call("ModelInfer", asked, {{"x-falaj-receipt", "1"}});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  const std::size_t name = answer->find("falaj_receipt");
  ASSERT_NE(name, std::string::npos);
  // After the name: tags and lengths, then three parts of base64.
  const std::size_t end = answer->find('.', name);
  const std::string first = crypto::base64("falaj-receipt/v1\n").substr(0, 20);
  const std::size_t begin = answer->find(first, name);
  ASSERT_NE(begin, std::string::npos);
  const std::string body = crypto::from_base64(answer->substr(begin, end - begin)).value();
  EXPECT_NE(body.find("\nasked message " + sha256_hex(asked) + "\n"), std::string::npos) << body;
  EXPECT_NE(body.find("\nanswered raw-outputs " + sha256_hex("\0\0\xA0\x40"s) + "\n"),
            std::string::npos)
      << body;
}

TEST_F(GrpcMethodsTest, infers_from_raw_contents_and_answers_with_raw_contents) {
  const auto answer = call(
      "ModelInfer",
      message({{1, "fraud"}, {3, "seven"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}}));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(*answer, message({{1, "fraud"},
                              {2, "1"},
                              {3, "seven"},
                              {5, tensor("score", "FP32", {1, 1})},
                              {6, "\0\0\xA0\x40"s}}));
  EXPECT_EQ(asked_.back(), "ModelInfer: serving.predict on Deployment {model} as project.name");
  EXPECT_TRUE(
      call("ModelInfer",
           message({{1, "fraud"}, {2, "1"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}}))
          .ok());
}

TEST_F(GrpcMethodsTest, takes_typed_contents_of_every_kind) {
  WireWriter floats;
  const std::vector<float> two{1, 2};
  floats.numbers(6, two);
  EXPECT_TRUE(call("ModelInfer",
                   message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2}, floats.str())}}))
                  .ok());
  WireWriter integers;
  integers.integers(3, std::vector<std::int64_t>{-1, 1'000'000'000'000});
  const auto kept = call(
      "ModelInfer", message({{1, "integers"}, {5, tensor("x", "INT64", {2}, integers.str())}}));
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_TRUE(kept->ends_with("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\x10\xA5\xD4\xE8\0\0\0"s));
  WireWriter truths;
  truths.integers(1, std::vector<std::int64_t>{1, 0, 1});
  const auto true_ones =
      call("ModelInfer", message({{1, "truths"}, {5, tensor("x", "BOOL", {3}, truths.str())}}));
  EXPECT_TRUE(true_ones->ends_with("\1\0\1"s));
  const auto texts = call(
      "ModelInfer",
      message({{1, "texts"}, {5, tensor("x", "BYTES", {2}, message({{8, "a\0"s}, {8, ""}}))}}));
  ASSERT_TRUE(texts.ok()) << texts.error().message;
  EXPECT_TRUE(texts->ends_with("\2\0\0\0a\0\0\0\0\0"s));
}

TEST_F(GrpcMethodsTest, half_precision_is_raw_only_and_empty_outputs_keep_their_place) {
  const auto halves =
      call("ModelInfer", message({{1, "halves"}, {5, tensor("x", "FP16", {1})}, {7, "\x00\x3C"s}}));
  EXPECT_TRUE(halves->ends_with("\x32\x02\x00\x3C"s));
  WireWriter floats;
  floats.numbers(6, std::vector<float>{1});
  EXPECT_NE(refused(message({{1, "halves"}, {5, tensor("x", "FP16", {1}, floats.str())}}))
                .find("use raw_input_contents"),
            std::string::npos);
  const auto empty =
      call("ModelInfer", message({{1, "halves"}, {5, tensor("x", "FP16", {0})}, {7, ""}}));
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_TRUE(empty->ends_with("\x32\0"s)) << "one raw_output_contents, of no bytes";
}

TEST_F(GrpcMethodsTest, chooses_outputs_and_gives_classes) {
  WireWriter one;
  one.integer(2, 1);
  const auto answer =
      call("ModelInfer",
           message({{1, "fraud"},
                    {5, tensor("input", "FP32", {1, 2})},
                    {6, message({{1, "score"}, {2, parameter("classification", one.str())}})},
                    {7, kOneTwo}}));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(answer->ends_with("5.000000:0")) << *answer;
  EXPECT_NE(refused(message({{1, "fraud"},
                             {5, tensor("input", "FP32", {1, 2})},
                             {6, message({{1, "nothing"}})},
                             {7, kOneTwo}}))
                .find("3 unexpected inference output 'nothing'"),
            std::string::npos);
}

TEST_F(GrpcMethodsTest, takes_raw_contents_beside_typed_ones_that_are_empty) {
  const std::string empty = tensor("input", "FP32", {1, 2}) + message({{5, ""}});
  EXPECT_EQ(call("ModelInfer", message({{1, "fraud"}, {5, empty}, {7, kOneTwo}})).value(),
            call("ModelInfer",
                 message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}}))
                .value());
}

TEST_F(GrpcMethodsTest, refuses_with_the_status_and_the_words_of_the_dialect) {
  EXPECT_EQ(refused(message({{1, "nobody"}})),
            "5 Request for unknown model: 'nobody' is not found");
  WireWriter floats;
  floats.numbers(6, std::vector<float>{1, 2});
  EXPECT_NE(
      refused(
          message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2}, floats.str())}, {7, kOneTwo}}))
          .find("3 contents field must not be specified when using raw_input_contents"),
      std::string::npos);
  EXPECT_NE(refused(message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, "1234"}}))
                .find("3 unexpected size for input 'input'"),
            std::string::npos);
  EXPECT_NE(refused(message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}}))
                .find("3 unexpected size for input 'input'"),
            std::string::npos);
  EXPECT_NE(
      refused(message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 3})}, {7, kOneTwo + "1234"}}))
          .find("3 unexpected shape for input 'input' for model 'fraud'"),
      std::string::npos);
  EXPECT_EQ(refused(message({{1, "fraud"}, {7, "x"}})).substr(0, 11), "3 expected ");
  WireWriter seven;
  seven.integer(2, 7);
  EXPECT_EQ(
      refused(message({{1, "fraud"}, {4, parameter("sequence_id", seven.str())}})).substr(0, 3),
      "12 ");
  WireWriter minus;
  minus.integer(2, -7);
  EXPECT_EQ(refused(message({{1, "fraud"}, {4, parameter("timeout", minus.str())}})).substr(0, 2),
            "3 ");
  for (const std::string& damaged : {"\x0A"s, "\x0A\xFF\xFF\xFF\xFF\x0F"s, "\x07"s, "\x08\x01"s,
                                     message({{5, "\xFF"}}), message({{5, "\x0A\x09"}})}) {
    EXPECT_EQ(refused(damaged).substr(0, 2), "3 ");
  }
  refusal_ = Code::kUnauthenticated;
  EXPECT_EQ(refused(message({{1, "fraud"}})), "16 who?");
}

TEST_F(GrpcMethodsTest, tells_errors_of_a_stream_inside_it_unless_asked_to_end_it) {
  const std::string good =
      message({{1, "fraud"}, {3, "a"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}});
  const auto answer = call("ModelStreamInfer", good);
  ASSERT_TRUE(answer.ok());
  EXPECT_NE(answer->find("triton_final_response"), std::string::npos);
  const std::string bad = message({{1, "nobody"}, {3, "b"}});
  EXPECT_EQ(
      *call("ModelStreamInfer", bad),
      message({{1, "Request for unknown model: 'nobody' is not found"}, {2, message({{3, "b"}})}}));
  EXPECT_EQ(call("ModelStreamInfer", bad, {{"triton_grpc_error", "true"}}).error().code,
            Code::kNotFound);
  for (const Code code : {Code::kUnauthenticated, Code::kPermissionDenied}) {
    refusal_ = code;
    const auto refused = call("ModelStreamInfer", good);
    ASSERT_FALSE(refused.ok()) << "who may not ask keeps no stream open";
    EXPECT_EQ(refused.error().code, code);
  }
  refusal_ = Code::kResourceExhausted;
  EXPECT_EQ(*call("ModelStreamInfer", good), message({{1, "who?"}, {2, message({{3, "a"}})}}))
      << "a rate limit is a matter of one request";
}

TEST_F(GrpcMethodsTest, asks_the_gate_once_and_before_it_reads_tensors) {
  const std::string damaged = message({{1, "fraud"}, {5, "\xFF"}});
  EXPECT_EQ(refused(damaged).substr(0, 2), "3 ");
  EXPECT_EQ(asked_.size(), 1U);
  refusal_ = Code::kUnauthenticated;
  EXPECT_EQ(refused(damaged), "16 who?");
  EXPECT_EQ(asked_.size(), 2U);
  EXPECT_EQ(call("ModelStreamInfer", damaged).error().message, "who?");
  EXPECT_EQ(asked_.size(), 3U);
}

TEST_F(GrpcMethodsTest, demands_what_the_route_of_the_same_question_demands) {
  EXPECT_EQ(methods_.size(), 13U);
  for (const net::GrpcMethod& method : methods_) {
    for (const net::Route* asked :
         {&method.declared, method.unnamed ? &*method.unnamed : &method.declared}) {
      const auto same =
          std::find_if(router_.routes().begin(), router_.routes().end(), [&](const auto& route) {
            return asked->summary ==
                   "As `" + std::string(net::method_name(route->method)) + " " + route->path + "`.";
          });
      ASSERT_NE(same, router_.routes().end()) << asked->summary;
      EXPECT_EQ(asked->permission.action(), (*same)->permission.action());
      EXPECT_EQ(asked->target.text(), (*same)->target.text());
    }
  }
  EXPECT_TRUE(call("ModelStatistics", "").ok());
  EXPECT_EQ(asked_.back(),
            "ModelStatistics: models.read on Deployment of every project, as visible");
  EXPECT_TRUE(call("ModelStatistics", message({{1, "fraud"}})).ok());
  EXPECT_EQ(asked_.back(), "ModelStatistics: models.read on Deployment {model} as project.name");
}

TEST_F(GrpcMethodsTest, does_nothing_for_whom_the_gate_refuses) {
  for (const Code code : {Code::kUnauthenticated, Code::kPermissionDenied}) {
    refusal_ = code;
    for (const net::GrpcMethod& method : methods_) {
      const std::string name = method.declared.path.substr(method.declared.path.rfind('/') + 1);
      const bool repository = name.starts_with("RepositoryModel");
      const auto answer = call(name, message({{repository ? 2U : 1U, "fraud"}}));
      if (name == "Check") continue;  // Has no service of that name to ask about.
      ASSERT_FALSE(answer.ok()) << name;
      EXPECT_EQ(answer.error().code, code) << name;
    }
  }
  refusal_.reset();
  EXPECT_EQ(*call("ModelReady", message({{1, "fraud"}})), "\x08\x01") << "nobody unloaded it";
}

TEST_F(GrpcMethodsTest, answers_the_other_questions_from_the_same_documents) {
  EXPECT_EQ(*call("ServerLive", ""), "\x08\x01");
  EXPECT_EQ(*call("ServerReady", ""), "\x08\x01");
  EXPECT_EQ(*call("Check", ""), "\x08\x01");
  EXPECT_EQ(call("Check", message({{1, "other"}})).error().code, Code::kNotFound);
  EXPECT_EQ(*call("ModelReady", message({{1, "fraud"}})), "\x08\x01");
  EXPECT_EQ(*call("ModelReady", message({{1, "nobody"}})), "");
  EXPECT_TRUE(call("ServerMetadata", "")->starts_with(message({{1, "falaj"}, {2, "9.9"}})));
  EXPECT_EQ(*call("ModelMetadata", message({{1, "fraud"}, {2, "champion"}})),
            message({{1, "fraud"},
                     {2, "1"},
                     {3, "onnxruntime_onnx"},
                     {4, tensor("input", "FP32", {-1, 2})},
                     {5, tensor("score", "FP32", {-1, 1})}}));
  EXPECT_EQ(call("ModelMetadata", message({{1, "nobody"}})).error().code, Code::kNotFound);
  const std::string config = *call("ModelConfig", message({{1, "texts"}}));
  EXPECT_NE(config.find("\x10\x0D"), std::string::npos) << "TYPE_STRING is 13";
  Value document;
  document["input"] = Value::array();
  document["output"] = Value::array();
  const std::string alone = write_model_config(document);
  document["dynamic_batching"] = Value::object();
  EXPECT_EQ(alone.find("\x5A\0"s), std::string::npos);
  EXPECT_NE(write_model_config(document).find("\x5A\0"s), std::string::npos)
      << "dynamic_batching is 11, and an empty message";
  document["parameters"]["k"]["string_value"] = "64";
  EXPECT_NE(write_model_config(document).find("\x72\x09\x0A\x01k\x12\x04\x0A\x02"
                                              "64"),
            std::string::npos)
      << "parameters is 14, a map of messages with a text";
  document["ensemble_scheduling"]["step"] =
      parse_json(R"([{"model_name":"m","model_version":2,"input_map":{"x":"y"}}])").value();
  EXPECT_NE(write_model_config(document).find("\x7A\x0F\x0A\x0D\x0A\x01m\x10\x02\x1A\x06\x0A\x01x"
                                              "\x12\x01y"),
            std::string::npos)
      << "ensemble_scheduling is 15";
  ASSERT_EQ(refused(message({{1, "fraud"}, {5, tensor("input", "FP32", {1, 2})}, {7, kOneTwo}})),
            "answered");
  EXPECT_TRUE(call("ModelStatistics", message({{1, "fraud"}}))->starts_with("\x0A"));
  EXPECT_TRUE(call("ModelStatistics", "").ok());
  WireWriter ready;
  ready.integer(2, 1);
  EXPECT_NE(call("RepositoryIndex", ready.str())->find("fraud"), std::string::npos);
  EXPECT_EQ(*call("RepositoryModelUnload", message({{2, "fraud"}})), "");
  EXPECT_EQ(call("RepositoryIndex", ready.str())->find("fraud"), std::string::npos);
  EXPECT_EQ(*call("RepositoryModelLoad", message({{2, "fraud"}})), "");
  EXPECT_EQ(asked_.back(),
            "RepositoryModelLoad: models.promote on Deployment {model} as project.name");
  EXPECT_EQ(call("RepositoryModelLoad",
                 message({{2, "fraud"}, {3, parameter("config", message({{3, "{}"}}))}}))
                .error()
                .code,
            Code::kUnimplemented);
}

}  // namespace
}  // namespace falaj::api
