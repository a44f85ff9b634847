#include "api/native/predict_codec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"

namespace falaj::api {
namespace {

Result<PredictRequest> parsed(std::string_view body) {
  PredictRequest request;
  FALAJ_TRY(parse_predict(body, request));
  return request;
}

ErrorId refused(std::string_view body) {
  const auto result = parsed(body);
  EXPECT_FALSE(result.ok()) << body;
  return result.ok() ? ErrorId::kInternal : result.error().id;
}

TEST(PredictCodec, reads_one_entity_with_numbers_and_texts) {
  const auto request = parsed(R"({"entity": {"customer_id": -42, "branch": "Deira"}})");
  ASSERT_TRUE(request.ok());
  ASSERT_EQ(request->entities.size(), 1u);
  EXPECT_EQ(request->entities[0][0].first, "customer_id");
  EXPECT_EQ(std::get<std::int64_t>(request->entities[0][0].second), -42);
  EXPECT_EQ(std::get<std::string>(request->entities[0][1].second), "Deira");
}

TEST(PredictCodec, reads_many_entities_in_order) {
  const auto request = parsed(R"({"entities": [{"id": 1}, {"id": 2}, {"id": 3}]})");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<std::int64_t>(request->entities[2][0].second), 3);
}

TEST(PredictCodec, a_request_read_again_holds_nothing_of_the_one_before) {
  PredictRequest request;
  ASSERT_TRUE(
      parse_predict(R"({"entities": [{"id": 1, "city": "Ajman"}, {"id": 2}]})", request).ok());
  ASSERT_TRUE(parse_predict(R"({"entity": {"id": 3}})", request).ok());
  ASSERT_EQ(request.entities.size(), 1u);
  ASSERT_EQ(request.entities[0].size(), 1u);
  EXPECT_EQ(std::get<std::int64_t>(request.entities[0][0].second), 3);
  EXPECT_FALSE(parse_predict(R"({"entities": []})", request).ok());
  EXPECT_TRUE(request.entities.empty());
}

TEST(PredictCodec, refuses_what_is_not_a_question) {
  EXPECT_EQ(refused(""), ErrorId::kMalformedJson);
  EXPECT_EQ(refused("{"), ErrorId::kMalformedJson);
  EXPECT_EQ(refused("[]"), ErrorId::kMalformedJson);
  EXPECT_EQ(refused("{}"), ErrorId::kMalformedJson);
  EXPECT_EQ(refused(R"({"entity": 7})"), ErrorId::kWrongType);
  EXPECT_EQ(refused(R"({"entity": {"id": 1.5}})"), ErrorId::kWrongType);
  EXPECT_EQ(refused(R"({"entity": {"id": null}})"), ErrorId::kWrongType);
  EXPECT_EQ(refused(R"({"entities": {}})"), ErrorId::kWrongType);
  EXPECT_EQ(refused(R"({"entitys": []})"), ErrorId::kUnknownField);
  EXPECT_EQ(refused("{\"entity\": {\"id\": \"\xff\"}}"), ErrorId::kMalformedJson);
}

TEST(PredictCodec, bounds_the_number_of_entities) {
  std::string body = R"({"entities": [{"id": 0})";
  for (std::size_t i = 1; i < PredictRequest::kEntitiesMax; ++i) body += R"(,{"id": 1})";
  EXPECT_TRUE(parsed(body + "]}").ok());
  EXPECT_EQ(refused(body + R"(,{"id": 1}]})"), ErrorId::kOutOfRange);
}

TEST(PredictCodec, writes_json_that_reads_back) {
  auto live = std::make_shared<serving::LiveModel>();
  live->version.model = "fraud \"x\"";
  auto plan = std::make_shared<features::OnlinePlan>();
  plan->columns = {{"amount", table::Type::kFloat64}, {"night", table::Type::kInt64}};
  live->plan = plan;
  serving::EntityPrediction prediction;
  prediction.score = 0.25f;
  prediction.version = 3;
  prediction.live = live.get();
  prediction.hold = live;
  prediction.row.numbers = {12.5, std::nan("")};
  prediction.row.statuses = {features::FeatureStatus::kPresent, features::FeatureStatus::kNotFound};
  const auto request = parsed(R"({"entity": {"id": 9, "city": "\u0639"}})");
  const std::vector<serving::EntityPrediction> all{prediction};

  const auto plain = parse_json(write_predictions("d", *request, all, {}));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->text("model"), "fraud \"x\"");
  EXPECT_EQ(plain->integer("version"), 3);
  const Value& first = (*plain)["predictions"].as_array().front();
  EXPECT_EQ(first.number("score"), 0.25);
  EXPECT_EQ(first["entity"].integer("id"), 9);
  EXPECT_FALSE(first.has("features"));
  EXPECT_FALSE(plain->has("commits"));

  const auto explained =
      parse_json(write_predictions("d", *request, all, {.explain = Explain::kYes}));
  const Value& full = (*explained)["predictions"].as_array().front();
  EXPECT_EQ(full["features"].number("amount"), 12.5);
  EXPECT_TRUE(full["features"]["night"].is_null());
  EXPECT_EQ(full["statuses"].text("night"), "NOT_FOUND");
}

TEST(PredictCodec, names_the_first_and_the_last_commit_when_asked) {
  serving::LiveModel live;
  std::vector<serving::EntityPrediction> all(3);
  for (serving::EntityPrediction& each : all) each.live = &live;
  all[0].row.commit = 5;
  all[1].row.commit = 9;
  all[2].row.commit = 4;
  const auto request = parsed(R"({"entities": [{"id": 1}, {"id": 2}, {"id": 3}]})");
  const auto reply = parse_json(write_predictions("d", *request, all, {.commits = Commits::kYes}));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ((*reply)["commits"].integer("first"), 4);
  EXPECT_EQ((*reply)["commits"].integer("last"), 9);
}

}  // namespace
}  // namespace falaj::api
