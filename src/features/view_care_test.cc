#include "features/view_care.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::features {
namespace {

storage::Object view(std::string_view more, std::string_view of_feature = "") {
  storage::Object out;
  out.kind = "FeatureView";
  out.name = "orders";
  out.spec = parse_json(R"({"entity":"customer","source":"tx","features":[{"name":"amount",)"
                        R"("type":"float64")" +
                        std::string(of_feature) + "}]" + std::string(more) + "}")
                 .value();
  return out;
}

TEST(ViewCare, what_is_said_nearest_to_a_feature_counts) {
  Entity person;
  person.row_key = storage::RowKey::kItsOwn;
  const Entity shop;
  const auto personal = [](std::string_view more, std::string_view of_feature,
                           const Entity& entity) {
    return decode_view_care(view(more, of_feature))->is_personal("amount", entity);
  };
  const char* none = R"(,"sensitivity":"none")";
  const char* yes = R"(,"sensitivity":"personal")";
  EXPECT_FALSE(personal("", "", shop));
  EXPECT_TRUE(personal("", "", person));
  EXPECT_FALSE(personal(none, "", person));
  EXPECT_TRUE(personal(yes, "", shop));
  EXPECT_TRUE(personal(none, yes, shop));
  EXPECT_FALSE(personal(yes, none, person));
}

TEST(ViewCare, how_rows_are_expected_to_come_is_read_strictly) {
  const Arrival all =
      decode_view_care(view(R"(,"freshness":"2h","volume":{"rows_min":5,"every":"1d"})"))->arrival;
  EXPECT_EQ(all, (Arrival{Duration::hours(2), 5, Duration::days(1)}));
  EXPECT_EQ(decode_view_care(view(""))->arrival, Arrival{});
  for (const char* wrong :
       {R"(,"freshness":"-1h")", R"(,"freshness":3)", R"(,"volume":{"rows_min":5})",
        R"(,"volume":{"every":"1d"})", R"(,"volume":{"rows_min":5,"every":"1d","x":1})",
        R"(,"volume":{"rows_min":-5,"every":"1d"})", R"(,"sensitivity":"public")"}) {
    EXPECT_FALSE(decode_feature_view(view(wrong)).ok()) << wrong;
    EXPECT_FALSE(decode_view_care(view(wrong)).ok()) << wrong;
  }
  EXPECT_FALSE(decode_feature_view(view("", R"(,"sensitivity":"secret")")).ok());
}

}  // namespace
}  // namespace falaj::features
