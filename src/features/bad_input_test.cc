// What people and programs send that is not right: each is an error or documented semantics, and
// nothing is half-written. docs/guides/features.md has the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;
using testing::HasSubstr;

constexpr const char* kHeader = "customer_id,at,loaded_at,amount,city\n";

std::uint64_t rows_of(FeatureWorld& world) {
  return view_stats(*world.sql, world.online.get(), world.context.project)->at(0).rows;
}

TEST(BadInput, years_that_no_timestamp_holds_are_refused_wherever_they_come) {
  FeatureWorld world;
  world.apply_activity();
  const auto report = world.append("activity", std::string(kHeader) +
                                                   "1,0001-01-01T00:00:00Z,,1,a\n"
                                                   "2,9999-12-31T23:59:59Z,,2,b\n"
                                                   "3,2026-05-20T00:00:00Z,9999-12-31,3,c\n"
                                                   "4,2026-05-20T00:00:00Z,,4,d\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 1u);
  EXPECT_EQ(report->rows_quarantined, 3u);
  ASSERT_EQ(report->examples.size(), 3u);
  EXPECT_THAT(report->examples[0].reason, HasSubstr("at"));
  for (const char* year : {"0001", "9999"}) {
    const auto pushed = world.push("activity", R"([{"customer_id":5,"at":")" + std::string(year) +
                                                   R"(-01-01T00:00:00Z","amount":1}])");
    ASSERT_FALSE(pushed.ok()) << year;
    EXPECT_THAT(pushed.error().message, HasSubstr("at"));
  }
  EXPECT_EQ(rows_of(world), 1u);

  world.apply("TrainingSet", "set",
              R"({"service":"svc","spine":{"path":"l","time":"at","label":"y"}})");
  for (const char* year : {"0001", "9999"}) {
    FreezeOptions options;
    const TextReader spine("customer_id,at,y\n4," + std::string(year) + "-01-01,1\n");
    options.spine_file = &spine;
    options.spine_format = table::Format::kCsv;
    const auto frozen = world.training_sets->freeze(world.context, "set", options);
    ASSERT_FALSE(frozen.ok()) << year;
    EXPECT_EQ(frozen.error().id, ErrorId::kSpineInvalid) << frozen.error().message;
  }
}

TEST(BadInput, the_first_and_the_last_moment_that_a_timestamp_holds_are_taken) {
  FeatureWorld world;
  world.apply_activity("0s");
  const auto report = world.append("activity", std::string(kHeader) +
                                                   "1,1677-09-22T00:00:00Z,,1,a\n"
                                                   "2,2262-04-11T00:00:00Z,,2,b\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 2u);
  EXPECT_EQ(world.read({1}).numbers[0], 1.0);
  EXPECT_EQ(world.read({2}).numbers[0], 2.0);
}

TEST(BadInput, numbers_that_are_not_finite_are_kept_as_they_are) {
  FeatureWorld world;
  world.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
  world.apply("Source", "tx", R"({"format":"csv","event_time":"at","created_time":"loaded_at"})");
  world.apply("FeatureView", "activity",
              R"({"entity":"customer","source":"tx","features":[)"
              R"({"name":"amount","type":"float64","expect":{"max":1e300}}]})");
  world.apply("FeatureService", "svc", R"({"features":["activity"]})");
  const auto report = world.append("activity",
                                   "customer_id,at,loaded_at,amount\n1,2026-05-20,,nan\n2,2026-05-"
                                   "20,,-inf\n3,2026-05-20,,inf\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_quarantined, 1u) << "inf is above the most expected";
  for (int starts = 0; starts < 2; ++starts, world.restart()) {
    EXPECT_TRUE(std::isnan(world.read({1}).numbers[0]));
    EXPECT_EQ(world.read({2}).numbers[0], -std::numeric_limits<double>::infinity());
    EXPECT_EQ(world.read({3}).statuses, std::vector<FeatureStatus>{kNotFound});
  }
}

TEST(BadInput, a_time_to_live_of_0_is_none_and_a_negative_one_an_error) {
  FeatureWorld world;
  world.apply_activity("0s");
  ASSERT_TRUE(world.append("activity", std::string(kHeader) + "1,1999-01-01,,1,a\n").ok());
  EXPECT_EQ(world.read({1}).statuses[0], kPresent);
  world.apply_activity("-1s");
  const auto refused = world.online->plan(world.context.project, "svc");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("ttl"));
}

TEST(BadInput, windows_of_nothing_or_less_are_refused) {
  for (const char* window : {"0s", "-5m"}) {
    storage::Object object;
    object.kind = "FeatureView";
    object.name = "v";
    object.spec = json(R"({"entity":"e","source":"s","features":[{"name":"x","type":"float64"},)"
                       R"({"name":"n","type":"int64","aggregate":{"count":"*","window":")" +
                       std::string(window) + R"("}}]})");
    const auto view = decode_feature_view(object);
    ASSERT_FALSE(view.ok()) << window;
    EXPECT_THAT(view.error().message, HasSubstr("window"));
  }
}

// Streams: a body of many rows is not held, and one bad row among them is found.
class ManyRows final : public ByteReader {
 public:
  explicit ManyRows(std::int64_t rows) : rows_(rows) {}
  std::int64_t size() const override {
    return static_cast<std::int64_t>(std::string_view(kHeader).size()) + rows_ * kWidth;
  }
  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    const std::string_view header = kHeader;
    std::size_t done = 0;
    for (std::int64_t at = offset; done < out.size() && at < size(); ++done, ++at) {
      const auto place = static_cast<std::size_t>(at);
      out[done] = place < header.size() ? header[place] : byte_of(place - header.size());
    }
    return done;
  }

 private:
  static constexpr std::int64_t kWidth = 31;
  // "00000042,2026-05-20,,0000042,x\n"
  static char byte_of(std::uint64_t place) {
    constexpr auto kBytes = static_cast<std::uint64_t>(kWidth);
    std::uint64_t row = place / kBytes;
    const std::uint64_t column = place % kBytes;
    constexpr std::string_view kRow = "00000000,2026-05-20,,0000000,x\n";
    const bool key = column < 8;
    const bool amount = column >= 21 && column < 28;
    if (!key && !amount) return kRow[column];
    for (std::uint64_t digit = (key ? 7 : 27) - column; digit > 0; --digit) row /= 10;
    return static_cast<char>('0' + row % 10);
  }

  const std::int64_t rows_;
};

TEST(BadInput, a_body_of_many_rows_is_read_in_batches) {
  FeatureWorld world;
  world.apply_activity();
  const ManyRows file(300'000);
  std::uint64_t batches = 0;
  const auto report = world.ingest->append(
      world.context, "activity",
      {file, table::Format::kCsv, [&](std::uint64_t) { ++batches; }, "many.csv"});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->rows_accepted, 300'000u);
  EXPECT_GT(batches, 2u);
  EXPECT_EQ(world.read({299'999}).numbers[0], 299'999.0);
}

}  // namespace
}  // namespace falaj::features
