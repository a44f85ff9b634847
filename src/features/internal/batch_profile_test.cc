#include "features/internal/batch_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"

namespace falaj::features {
namespace {

using table::Column;
using table::Type;

ViewDefinition definition() {
  ViewDefinition out;
  out.project = "pay";
  out.entity.keys = {{"id", Type::kInt64}};
  out.view.features = {{"amount", Type::kFloat64, {}},
                       {"city", Type::kString, {}},
                       {"visits", Type::kInt64, {}},
                       {"gold", Type::kBool, {}},
                       {"since", Type::kTimestamp, {}}};
  return out;
}

constexpr std::int64_t kDay = 86'400'000'000'000;

// Rows `from` to `to` of a table in which everything follows from the row's number.
table::Batch rows(const ViewDefinition& of, std::int64_t from, std::int64_t to) {
  table::Batch out(segment_schema(of.view, of.entity));
  for (std::int64_t i = from; i < to; ++i) {
    out.columns[0].push_int(i % 50);
    out.columns[1].push_int(i * 1'000);
    out.columns[2].push_null();
    out.columns[3].push_int(i);
    if (i % 10 == 0) {
      out.columns[4].push_double(std::nan(""));
    } else {
      out.columns[4].push_double(static_cast<double>(i % 100));
    }
    out.columns[5].push_string(i % 4 == 0 ? "Al Ain" : "Dubai");
    if (i % 5 == 0) {
      out.columns[6].push_null();
    } else {
      out.columns[6].push_int(i);
    }
    out.columns[7].push_bool(i % 4 == 0);
    out.columns[8].push_int(i % 100'000 * kDay);
  }
  return out;
}

BatchProfile profile_of(const ViewDefinition& of, std::int64_t from, std::int64_t to,
                        const ViewCare& care = {}) {
  Profiler profiler(of, care);
  for (std::int64_t i = from; i < to; i += 700) {
    profiler.add(rows(of, i, std::min(i + 700, to)));
  }
  return profiler.profile();
}

Value feature(const BatchProfile& profile, std::size_t place) {
  return to_value(profile)["features"].as_array().at(place);
}

TEST(BatchProfile, counts_every_row_and_shows_how_its_values_lie) {
  const BatchProfile profile = profile_of(definition(), 0, 1'000);
  const Value all = to_value(profile);
  EXPECT_EQ(all.integer("rows"), 1'000);
  EXPECT_EQ(all.integer("looked_at"), 1'000);
  EXPECT_EQ(all["event_time"].text("min"), "1970-01-01T00:00:00Z");
  const Value amount = feature(profile, 0);
  EXPECT_EQ(amount.integer("missing"), 100) << "not a number is missing";
  EXPECT_EQ(amount.number("min"), 1);
  EXPECT_EQ(amount.number("max"), 99);
  EXPECT_NEAR(amount.number("mean"), 50, 0.01);
  EXPECT_NEAR(amount.number("distinct"), 90, 3);
  EXPECT_NEAR(amount["quantiles"].number("p50"), 50, 1);
  EXPECT_NEAR(amount["quantiles"].number("p95"), 95, 1);
  double shares = 0;
  for (const Value& share : amount["histogram"]["shares"].as_array()) shares += share.as_double();
  EXPECT_NEAR(shares, 1, 1e-4);
  const Value city = feature(profile, 1);
  EXPECT_EQ(to_json(city["top"]),
            R"([{"rows":750,"value":"Dubai"},{"rows":250,"value":"Al Ain"}])");
  EXPECT_EQ(city.text("numbers_of"), "length");
  EXPECT_EQ(city.number("max"), 6);
  const Value visits = feature(profile, 2);
  EXPECT_EQ(visits.integer("missing"), 200);
  EXPECT_EQ(visits.integer("max"), 999);
  EXPECT_TRUE(visits["top"].as_array().empty()) << "each occurs once";
  EXPECT_EQ(to_json(feature(profile, 3)["top"]),
            R"([{"rows":750,"value":false},{"rows":250,"value":true}])");
  EXPECT_EQ(feature(profile, 3).number("mean"), 0.25);
  EXPECT_EQ(feature(profile, 4).text("max"), "1972-09-26T00:00:00Z");
}

TEST(BatchProfile, of_keys_only_counts_and_of_personal_features_no_single_value) {
  const ViewCare care{Sensitivity::kPersonal, {{"city", Sensitivity::kNone}}, {}};
  const BatchProfile profile = profile_of(definition(), 0, 1'000, care);
  const Value shown_key = to_value(profile)["keys"].as_array().at(0);
  EXPECT_NEAR(shown_key.number("distinct"), 50, 2);
  EXPECT_EQ(shown_key.as_object().size(), 4u) << "name, type, missing, distinct";
  for (const std::size_t place : {0u, 2u, 3u, 4u}) {
    const Value shown = feature(profile, place);
    EXPECT_EQ(shown.text("sensitivity"), "personal");
    for (const char* single : {"min", "max", "top"}) EXPECT_FALSE(shown.has(single)) << place;
    EXPECT_FALSE(shown["quantiles"].has("p99"));
  }
  EXPECT_TRUE(feature(profile, 0)["quantiles"].has("p95"));
  EXPECT_TRUE(feature(profile, 1).has("top")) << "the feature says that it is nobody's";
  EXPECT_EQ(profile.features[0].least, std::numeric_limits<double>::infinity()) << "nor stored";
  const BatchProfile few = profile_of(definition(), 1, 50, care);
  EXPECT_FALSE(feature(few, 0).has("quantiles"));
  EXPECT_FALSE(feature(few, 0).has("mean"));
}

TEST(BatchProfile, many_rows_are_sampled_alike_each_time_and_say_so) {
  const auto end = static_cast<std::int64_t>(Profiler::kAllRows + 80'000);
  const BatchProfile profile = profile_of(definition(), 0, end);
  EXPECT_EQ(profile.rows, static_cast<std::uint64_t>(end));
  EXPECT_NEAR(static_cast<double>(profile.looked_at), Profiler::kAllRows + 10'000.0, 2);
  EXPECT_EQ(encode(profile), encode(profile_of(definition(), 0, end)));
  EXPECT_NEAR(static_cast<double>(profile.features[0].spread.total()),
              static_cast<double>(profile.features[0].values), 2'000)
      << "each of the sample stands for eight";
  EXPECT_NEAR(feature(profile, 0)["quantiles"].number("p25"), 25, 1);
  EXPECT_NEAR(static_cast<double>(feature(profile, 2).integer("distinct")),
              static_cast<double>(end) * 0.8, static_cast<double>(end) * 0.05)
      << "of all rows";
}

TEST(BatchProfile, two_merged_are_as_one_of_both) {
  const ViewDefinition of = definition();
  BatchProfile left = profile_of(of, 0, 500);
  left.merge(profile_of(of, 500, 1'000));
  EXPECT_EQ(to_json(to_value(left)), to_json(to_value(profile_of(of, 0, 1'000))));
  ViewDefinition other = of;
  other.view.features = {{"new", Type::kFloat64, {}}};
  BatchProfile wider = left;
  wider.merge(Profiler(other, {}).profile());
  ASSERT_EQ(wider.features.size(), 6u);
  EXPECT_EQ(wider.features[5].field.name, "new");
  left.merge(profile_of(of, 0, 1'000, {Sensitivity::kPersonal, {}, {}}));
  EXPECT_FALSE(feature(left, 0).has("min")) << "the lesser detail stays";
  EXPECT_TRUE(left.features[1].top.most().empty());
}

TEST(BatchProfile, bytes_lead_back_and_damage_is_refused) {
  const BatchProfile profile = profile_of(definition(), 0, 3'000);
  const std::string bytes = encode(profile);
  const auto again = decode_profile(bytes);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(to_value(*again)), to_json(to_value(profile)));
  EXPECT_EQ(encode(*again), bytes);
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    const auto cut = decode_profile(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.error().id, ErrorId::kSegmentCorrupt);
  }
  EXPECT_FALSE(decode_profile(bytes + "x").ok());
}

TEST(BatchProfile, without_a_row_it_can_be_shown) {
  const Value value = to_value(Profiler(definition(), {}).profile());
  EXPECT_EQ(value.integer("rows"), 0);
  EXPECT_FALSE(value.has("event_time"));
  EXPECT_FALSE(value["features"].as_array().at(0).has("mean"));
}

}  // namespace
}  // namespace falaj::features
