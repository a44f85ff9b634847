#include "features/internal/beside.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::features {
namespace {

storage::Object object(std::string kind, std::string name, std::string_view spec) {
  storage::Object out;
  out.kind = std::move(kind);
  out.project = "pay";
  out.name = std::move(name);
  out.spec = parse_json(spec).value();
  return out;
}

// customer → amount; labels by customer with is_fraud, note (text) and the merchant's key.
class BesideTest : public ::testing::Test {
 protected:
  storage::FindObject find = [this](const storage::Reference& reference) -> const storage::Object* {
    for (const storage::Object& each : objects) {
      if (each.kind == reference.kind && each.name == reference.name) return &each;
    }
    return nullptr;
  };
  ErrorId refused(const Status& status) {
    EXPECT_FALSE(status.ok());
    return status.ok() ? ErrorId::kInternal : status.error().id;
  }
  Status service(std::string_view features) {
    return service_beside_its_views(
        object("FeatureService", "s", R"({"features":)" + std::string(features) + "}"), find);
  }
  Status set(const std::string& label, const std::string& by, const std::string& of = "svc") {
    const std::string split = by.empty() ? "" : R"(,"split":{"by":")" + by + R"("})";
    return set_beside_its_service(
        object("TrainingSet", "t",
               R"({"service":")" + of + R"(","spine":{"view":"labels","label":")" + label +
                   R"("})" + split + "}"),
        find);
  }
  std::vector<storage::Object> objects{
      object("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})"),
      object("Entity", "merchant", R"({"keys":[{"name":"merchant_id","type":"int64"}]})"),
      object("Entity", "branch", R"({"keys":[{"name":"note","type":"int64"}]})"),
      object(
          "FeatureView", "activity",
          R"({"entity":"customer","source":"tx","features":[{"name":"amount","type":"float64"}]})"),
      object(
          "FeatureView", "merchants",
          R"({"entity":"merchant","source":"tx","features":[{"name":"risk","type":"float64"}]})"),
      object("FeatureView", "branches",
             R"({"entity":"branch","source":"tx","features":[{"name":"size","type":"float64"}]})"),
      object("FeatureView", "labels",
             R"({"entity":"customer","source":"tx","features":[{"name":"is_fraud","type":"bool"},)"
             R"({"name":"note","type":"string"}]})"),
      object("FeatureService", "svc", R"({"features":["activity"]})"),
      object("FeatureService", "both", R"({"features":["activity","merchants"]})"),
      object("FeatureService", "by_branch", R"({"features":["branches"]})"),
  };
};

TEST_F(BesideTest, a_service_names_features_that_its_views_have) {
  EXPECT_TRUE(service(R"(["activity", {"merchants": ["risk"]}])").ok());
  const Status wrong = service(R"([{"activity": ["amount", "amonut"]}])");
  EXPECT_EQ(refused(wrong), ErrorId::kReferenceMissing);
  EXPECT_NE(wrong.error().message.find(
                "FeatureView activity has no feature \"amonut\"; did you mean \"amount\""),
            std::string::npos)
      << wrong.error().message;
  EXPECT_EQ(refused(service(R"([{"activity": ["customer_id"]}])")), ErrorId::kReferenceMissing)
      << "a key is no feature";
}

TEST_F(BesideTest, what_a_view_expects_is_said_of_its_own_columns) {
  objects.push_back(object("Source", "tx", R"({"format":"csv","event_time":"at"})"));
  const auto view = [&](const std::string& expr) {
    return view_beside_its_source(
        object("FeatureView", "v",
               R"({"entity":"customer","source":"tx","features":[{"name":"amount",)"
               R"("type":"float64"}],"expect":[{"name":"sane","expr":")" +
                   expr + R"("}]})"),
        find);
  };
  EXPECT_TRUE(view("amount >= 0 and customer_id > 0 and at == row_time()").ok());
  const Status unknown = view("amonut >= 0");
  EXPECT_EQ(refused(unknown), ErrorId::kExpressionInvalid);
  EXPECT_EQ(unknown.error().message,
            "FeatureView v spec: expect \"sane\": position 1: there is no column \"amonut\": did "
            "you mean \"amount\"?\n  amonut >= 0\n  ^");
  EXPECT_EQ(refused(view("amount + 1")), ErrorId::kExpressionInvalid) << "not a yes or no";
}

TEST_F(BesideTest, a_set_has_its_label_in_the_label_view) {
  EXPECT_TRUE(set("is_fraud", "").ok());
  EXPECT_EQ(refused(set("fraud", "")), ErrorId::kReferenceMissing);
  EXPECT_EQ(refused(set("note", "")), ErrorId::kWrongType) << "a text is nothing to learn";
}

TEST_F(BesideTest, a_set_splits_by_one_of_its_keys) {
  EXPECT_TRUE(set("is_fraud", "customer_id").ok());
  EXPECT_TRUE(set("is_fraud", "time").ok());
  EXPECT_EQ(refused(set("is_fraud", "amount")), ErrorId::kReferenceMissing);
}

TEST_F(BesideTest, a_label_view_brings_every_key_of_the_service) {
  const Status missing = set("is_fraud", "", "both");
  EXPECT_EQ(refused(missing), ErrorId::kReferenceMissing);
  EXPECT_NE(missing.error().message.find("\"merchant_id\""), std::string::npos);
  EXPECT_EQ(refused(set("is_fraud", "", "by_branch")), ErrorId::kWrongType)
      << "note is a text there, and a number as a key";
}

}  // namespace
}  // namespace falaj::features
