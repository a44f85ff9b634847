#include "features/definitions.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::features {
namespace {

storage::Object object(std::string kind, std::string_view spec) {
  storage::Object out;
  out.kind = std::move(kind);
  out.project = "pay";
  out.name = "thing";
  Result<Value> value = parse_json(spec);
  EXPECT_TRUE(value.ok()) << spec;
  out.spec = value.value_or(Value());
  return out;
}

// The kind's check as the catalog calls it.
Result<std::vector<storage::Reference>> check(const std::string& kind, std::string_view spec) {
  for (const storage::KindInfo& info : kinds()) {
    if (info.kind == kind) return info.check(object(kind, spec));
  }
  return Error(Code::kNotFound, kind);
}

ErrorId refused(const std::string& kind, std::string_view spec) {
  const auto got = check(kind, spec);
  EXPECT_FALSE(got.ok()) << spec;
  return got.ok() ? ErrorId::kInternal : got.error().id;
}

TEST(Definitions, a_whole_view_is_read) {
  const Result<FeatureView> view = decode_feature_view(object("FeatureView", R"({
    "entity": "customer", "source": "tx", "ttl": "30d", "online": false,
    "features": [{"name": "amount", "type": "float64",
                  "expect": {"min": 0, "max": 1e6, "nulls_max": "0.1%"}},
                 {"name": "count", "type": "int32"}]})"));
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->ttl, Duration::days(30));
  EXPECT_EQ(view->online, OnlineUse::kOffline);
  ASSERT_EQ(view->features.size(), 2u);
  EXPECT_EQ(view->features[0].expect.min, 0.0);
  EXPECT_EQ(view->features[0].expect.max, 1e6);
  EXPECT_DOUBLE_EQ(view->features[0].expect.nulls_max, 0.001);
  EXPECT_EQ(view->features[1].type, table::Type::kInt64);
  EXPECT_FALSE(view->features[1].expect.min.has_value());
  EXPECT_EQ(view->features[1].expect.nulls_max, 1.0);
}

TEST(Definitions, references_are_named_for_the_catalog) {
  const auto view = check("FeatureView", R"({"entity": "customer", "source": "tx",
      "features": [{"name": "a", "type": "int64"}]})");
  ASSERT_TRUE(view.ok());
  ASSERT_EQ(view->size(), 2u);
  EXPECT_EQ((*view)[0].kind, "Entity");
  EXPECT_EQ((*view)[0].project, "pay");
  EXPECT_EQ((*view)[1].name, "tx");
  const auto service = check("FeatureService", R"({"features": ["a", {"b": ["x", "y"]}]})");
  ASSERT_TRUE(service.ok());
  ASSERT_EQ(service->size(), 2u);
  EXPECT_EQ((*service)[1].name, "b");
}

TEST(Definitions, a_service_takes_all_or_named_features) {
  const Result<FeatureService> service =
      decode_feature_service(object("FeatureService", R"({"features": ["a", {"b": ["y", "x"]}]})"));
  ASSERT_TRUE(service.ok());
  EXPECT_TRUE(service->views[0].features.empty());
  EXPECT_EQ(service->views[1].features, (std::vector<std::string>{"y", "x"}));
}

TEST(Definitions, a_training_set_of_a_view_is_read) {
  const Result<TrainingSetSpec> spec = decode_training_set(object("TrainingSet", R"({
    "service": "svc", "spine": {"view": "labels", "label": "is_fraud", "from": "2026-01-01",
    "to": "2026-03-01"}, "as_known_at": 7, "split": {"by": "customer_id", "valid": "10%"}})"));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->spine_view, "labels");
  EXPECT_EQ(to_rfc3339(spec->from), "2026-01-01T00:00:00Z");
  EXPECT_EQ(spec->as_known_at, 7);
  EXPECT_EQ(spec->split_by, "customer_id");
  EXPECT_DOUBLE_EQ(spec->valid_share, 0.1);
}

TEST(Definitions, unknown_missing_and_wrong_fields_are_refused_by_code) {
  EXPECT_EQ(refused("Entity", R"({"keyz": []})"), ErrorId::kUnknownField);
  EXPECT_EQ(refused("Entity", R"({"keys": []})"), ErrorId::kMissingField);
  EXPECT_EQ(refused("Entity", R"({"keys": [{"name": "id", "type": "int64"},
                                           {"name": "id", "type": "string"}]})"),
            ErrorId::kDuplicateField);
  EXPECT_FALSE(check("Entity", R"({"keys": [{"name": "id", "type": "float64"}]})").ok());
  EXPECT_EQ(refused("Entity", R"({"keys": [{"name": "__id"}]})"), ErrorId::kInvalidName);
  EXPECT_EQ(refused("Source", R"({"format": "csv"})"), ErrorId::kMissingField);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s", "features": 3})"),
            ErrorId::kWrongType);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s", "features": []})"),
            ErrorId::kMissingField);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s", "ttl": 30,
      "features": [{"name": "a", "type": "int64"}]})"),
            ErrorId::kWrongType);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s",
      "features": [{"name": "a", "type": "int64", "expect": {"min": 5, "max": 1}}]})"),
            ErrorId::kOutOfRange);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s",
      "features": [{"name": "a", "type": "string", "expect": {"min": 5}}]})"),
            ErrorId::kWrongType);
  EXPECT_EQ(refused("FeatureView", R"({"entity": "e", "source": "s",
      "features": [{"name": "a", "type": "decimal"}]})"),
            ErrorId::kWrongType);
  EXPECT_EQ(refused("FeatureService", R"({"features": ["a", "a"]})"), ErrorId::kDuplicateField);
  EXPECT_EQ(refused("FeatureService", R"({"features": [7]})"), ErrorId::kWrongType);
  EXPECT_EQ(refused("TrainingSet", R"({"service": "s", "spine": {"label": "y"}})"),
            ErrorId::kMissingField);
  EXPECT_EQ(refused("TrainingSet", R"({"service": "s", "spine": {"view": "v", "path": "p",
      "time": "t", "label": "y"}})"),
            ErrorId::kMissingField);
  EXPECT_EQ(refused("TrainingSet", R"({"service": "s", "spine": {"view": "v", "label": "y",
      "from": "2026-02-01", "to": "2026-01-01"}})"),
            ErrorId::kOutOfRange);
}

// The kind's check of a change, as the catalog calls it.
Status change(const std::string& kind, std::string_view before, std::string_view after) {
  for (const storage::KindInfo& info : kinds()) {
    if (info.kind == kind) return info.check_change(object(kind, before), object(kind, after));
  }
  return Error(Code::kNotFound, kind);
}

TEST(Definitions, the_keys_of_an_entity_never_change) {
  const char* keys =
      R"({"keys": [{"name": "a", "type": "int64"}, {"name": "b", "type": "int64"}]})";
  EXPECT_TRUE(change("Entity", keys, keys).ok());
  for (const char* other :
       {R"({"keys": [{"name": "a", "type": "int64"}, {"name": "b", "type": "string"}]})",
        R"({"keys": [{"name": "b", "type": "int64"}, {"name": "a", "type": "int64"}]})",
        R"({"keys": [{"name": "a", "type": "int64"}]})"}) {
    const Status refused_change = change("Entity", keys, other);
    ASSERT_FALSE(refused_change.ok()) << other;
    EXPECT_EQ(refused_change.error().id, ErrorId::kImmutableField);
  }
  const Status told = change("Entity", keys, R"({"keys": [{"name": "c", "type": "string"}]})");
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().message,
            "Entity thing spec: 'keys' is [a int64, b int64] and cannot become [c string], because "
            "rows may be stored that way: declare a new Entity under another name");
}

TEST(Definitions, a_view_keeps_its_entity_and_the_types_of_its_features) {
  const char* view = R"({"entity": "e", "source": "s", "ttl": "1d",
      "features": [{"name": "x", "type": "float64"}, {"name": "y", "type": "int64"}]})";
  const Status entity = change("FeatureView", view, R"({"entity": "f", "source": "s",
      "features": [{"name": "x", "type": "float64"}]})");
  ASSERT_FALSE(entity.ok());
  EXPECT_EQ(entity.error().id, ErrorId::kImmutableField);
  EXPECT_NE(entity.error().message.find("'entity' is \"e\" and cannot become \"f\""),
            std::string::npos);
  const Status type = change("FeatureView", view, R"({"entity": "e", "source": "s",
      "features": [{"name": "x", "type": "string"}]})");
  ASSERT_FALSE(type.ok());
  EXPECT_EQ(type.error().id, ErrorId::kImmutableField);
  EXPECT_NE(type.error().message.find("feature \"x\" is float64 and cannot become string"),
            std::string::npos);
  EXPECT_TRUE(change("FeatureView", view, R"({"entity": "e", "source": "t", "ttl": "9d",
      "online": false, "features": [{"name": "x", "type": "float64", "expect": {"min": 1}},
                                    {"name": "z", "type": "string"}]})")
                  .ok());
}

}  // namespace
}  // namespace falaj::features
