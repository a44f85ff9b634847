#include "monitoring/drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/json.h"

namespace falaj::monitoring {
namespace {

using Counts = std::vector<std::uint64_t>;

// Shares p = [.5 .3 .2], q = [.4 .4 .2] over so many rows that the smoothing vanishes; the values
// are the published ones.
constexpr std::uint64_t kMany = 1'000'000'000'000'000;
const Counts kP{5 * kMany, 3 * kMany, 2 * kMany};
const Counts kQ{4 * kMany, 4 * kMany, 2 * kMany};

TEST(Psi, meets_the_golden_vector) { EXPECT_NEAR(psi(kP, kQ), 0.0510825624, 5e-11); }

TEST(Psi, smooths_by_half_a_row_a_bin) {
  // By hand: n = 10, k = 2: shares 10.5/11 and 0.5/11 against 0.5/11 and 10.5/11.
  const double expected = 2 * (10.0 / 11) * std::log(21.0);
  EXPECT_NEAR(psi(Counts{10, 0}, Counts{0, 10}), expected, 1e-12);
  // An empty bin is worth less with few rows than with many.
  EXPECT_LT(psi(Counts{6, 4, 0}, Counts{5, 4, 1}), psi(Counts{600, 400, 0}, Counts{500, 400, 100}));
}

TEST(Psi, is_nothing_for_equal_shares_and_for_no_rows) {
  EXPECT_EQ(psi(Counts{3, 2, 1}, Counts{3, 2, 1}), 0);
  EXPECT_EQ(psi(Counts{3, 2}, Counts{0, 0}), 0);
  EXPECT_EQ(psi(Counts{0, 0}, Counts{3, 2}), 0);
  EXPECT_EQ(psi({}, {}), 0);
}

TEST(Psi, is_symmetric) {
  EXPECT_DOUBLE_EQ(psi(Counts{7, 2, 1}, Counts{1, 2, 7}), psi(Counts{1, 2, 7}, Counts{7, 2, 1}));
}

TEST(JsDistance, meets_the_golden_vector) { EXPECT_NEAR(js_distance(kP, kQ), 0.0958432338, 5e-11); }

TEST(JsDistance, runs_from_nothing_to_one) {
  EXPECT_EQ(js_distance(Counts{1, 2}, Counts{2, 4}), 0);
  EXPECT_DOUBLE_EQ(js_distance(Counts{5, 0}, Counts{0, 9}), 1);
  EXPECT_EQ(js_distance(Counts{5, 0}, Counts{0, 0}), 0);
}

TEST(MakeBins, splits_into_equal_depth) {
  std::vector<double> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(i);
  const Bins bins = make_bins("x", values);
  ASSERT_EQ(bins.edges.size(), 19U);
  EXPECT_EQ(bins.edges.front(), 50);
  EXPECT_EQ(bins.edges.back(), 950);
  Counts counts(bins.count());
  for (const double value : values) ++counts[bins.bin_of(value)];
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(counts[i], 50U) << i;
  EXPECT_EQ(counts.back(), 0U);
}

TEST(MakeBins, closes_each_bin_on_the_right) {
  const Bins bins{"x", {1, 2}};
  EXPECT_EQ(bins.count(), 4U);
  EXPECT_EQ(bins.bin_of(-1e300), 0U);
  EXPECT_EQ(bins.bin_of(1), 0U);
  EXPECT_EQ(bins.bin_of(std::nextafter(1, 2)), 1U);
  EXPECT_EQ(bins.bin_of(2), 1U);
  EXPECT_EQ(bins.bin_of(2.5), 2U);
  EXPECT_EQ(bins.bin_of(INFINITY), 2U);
  EXPECT_EQ(bins.bin_of(-INFINITY), 0U);
  EXPECT_EQ(bins.bin_of(NAN), 3U);
}

TEST(Bins, finds_the_bin_that_a_plain_search_finds) {
  std::mt19937 random(4);
  for (std::size_t count = 0; count < 40; ++count) {
    Bins bins;
    for (std::size_t i = 0; i < count; ++i) bins.edges.push_back(static_cast<double>(2 * i));
    for (int i = 0; i < 200; ++i) {
      const double value = static_cast<double>(random() % 90) - 5;
      const auto edge = std::lower_bound(bins.edges.begin(), bins.edges.end(), value);
      ASSERT_EQ(bins.bin_of(value), static_cast<std::size_t>(edge - bins.edges.begin()));
    }
  }
}

TEST(MakeBins, gives_a_frequent_value_a_bin_of_its_own) {
  // A constant that moves down must leave its bin.
  const Bins constant = make_bins("c", std::vector<double>(100, 5.0));
  EXPECT_NE(constant.bin_of(5), constant.bin_of(4.9));
  EXPECT_NE(constant.bin_of(5), constant.bin_of(5.1));
  // A flag that is rarely set.
  std::vector<double> flag(97, 0.0);
  flag.insert(flag.end(), 3, 1.0);
  const Bins bins = make_bins("f", flag);
  EXPECT_NE(bins.bin_of(0), bins.bin_of(1));
  EXPECT_NE(bins.bin_of(0), bins.bin_of(-1));
}

TEST(MakeBins, takes_no_more_than_its_maximum_and_ascends) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<double> values(1 + random() % 200);
    const std::size_t distinct = 1 + random() % 30;
    for (double& value : values) value = static_cast<double>(random() % distinct) - 7;
    const Bins bins = make_bins("x", values, 2 + seed % 20);
    EXPECT_LE(bins.edges.size() + 1, 2 + seed % 20);
    EXPECT_TRUE(std::is_sorted(bins.edges.begin(), bins.edges.end(),
                               [](double a, double b) { return a <= b; }));
  }
}

TEST(MakeBins, leaves_out_what_is_no_number) {
  const Bins nothing = make_bins("x", std::vector<double>{NAN, INFINITY, NAN});
  EXPECT_TRUE(nothing.edges.empty());
  EXPECT_EQ(nothing.count(), 2U);
  EXPECT_EQ(nothing.bin_of(3), 0U);
  EXPECT_EQ(nothing.bin_of(NAN), 1U);
}

TEST(Profile, counts_missing_values_apart_so_that_their_drift_shows) {
  std::vector<double> reference;
  for (int i = 0; i < 1000; ++i) reference.push_back(i);
  const std::vector<Bins> bins{make_bins("x", reference)};
  Profile before = empty_profile(bins);
  Profile after = empty_profile(bins);
  for (int i = 0; i < 1000; ++i) {
    const float value = static_cast<float>(i);
    const float half_missing = i % 2 == 0 ? value : NAN;
    add_row(bins, std::span(&value, 1), before);
    add_row(bins, std::span(&half_missing, 1), after);
  }
  const DriftReport report = measure_drift(bins, before, after, Method::kPsi, 0.2);
  EXPECT_EQ(report.drifted, 1U);
  EXPECT_GT(report.worst, 1.0);
}

TEST(MeasureDrift, names_the_worst_feature_by_the_chosen_method) {
  const std::vector<Bins> bins{{"still", {0}}, {"moved", {0}}};
  const Profile reference{{{500, 500, 0}, {500, 500, 0}}, 1000};
  const Profile current{{{510, 490, 0}, {900, 100, 0}}, 1000};
  for (const Method method : {Method::kPsi, Method::kJs}) {
    const DriftReport report = measure_drift(bins, reference, current, method, 0.2);
    EXPECT_EQ(report.worst_feature, "moved");
    EXPECT_EQ(report.drifted, 1U);
    EXPECT_FALSE(report.features[0].drifted);
    EXPECT_TRUE(report.features[1].drifted);
    EXPECT_EQ(report.worst,
              method == Method::kPsi ? report.features[1].psi : report.features[1].js);
  }
}

TEST(MeasureDrift, drifts_at_the_threshold_itself) {
  const std::vector<Bins> bins{{"x", {0}}};
  const Profile reference{{{70, 30, 0}}, 100};
  const Profile current{{{30, 70, 0}}, 100};
  const double score = psi(reference.counts[0], current.counts[0]);
  EXPECT_EQ(measure_drift(bins, reference, current, Method::kPsi, score).drifted, 1U);
  EXPECT_EQ(measure_drift(bins, reference, current, Method::kPsi, std::nextafter(score, 9)).drifted,
            0U);
}

TEST(Storage, gives_back_the_same_bins_counts_and_scores) {
  const Bins bins{"amount", {-1.5, 0.1, 1e300}};
  const Profile profile{{{1, 2, 3, 4, 5}}, 15};
  const auto through = [](const Value& value) { return parse_json(to_json(value)).value(); };
  EXPECT_EQ(bins_from_value(through(to_value(bins))).value(), bins);
  EXPECT_EQ(profile_from_value(through(to_value(profile))).value(), profile);
  const Profile other{{{5, 4, 3, 2, 1}}, 15};
  const DriftReport report = measure_drift({bins}, profile, other, Method::kPsi, 0.2);
  const DriftReport read = drift_from_value(through(to_value(report))).value();
  EXPECT_EQ(to_json(to_value(read)), to_json(to_value(report)));
  EXPECT_EQ(read.worst, report.worst);
}

TEST(Storage, refuses_what_it_did_not_write) {
  for (const char* text :
       {"null", "{}", R"({"feature":"x","edges":[2,1]})", R"({"feature":"x","edges":["a"]})"}) {
    EXPECT_FALSE(bins_from_value(parse_json(text).value()).ok()) << text;
  }
  for (const char* text :
       {"null", "{}", R"({"rows":1,"counts":[1]})", R"({"rows":1,"counts":[[-1]]})"}) {
    EXPECT_FALSE(profile_from_value(parse_json(text).value()).ok()) << text;
  }
  EXPECT_FALSE(drift_from_value(Value()).ok());
}

TEST(Method, is_psi_or_js) {
  EXPECT_EQ(parse_method("psi").value(), Method::kPsi);
  EXPECT_EQ(parse_method("js").value(), Method::kJs);
  EXPECT_FALSE(parse_method("ks").ok());
}

}  // namespace
}  // namespace falaj::monitoring
