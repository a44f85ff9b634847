// Computed features, aliases and key maps: what a frozen training set has in a row is what an
// online read gives for the same entity at that time, to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using table::Type;
using testing::HasSubstr;

constexpr const char* kService = R"j({"features":[
    {"orders":["each","amount",{"note":"remark"},"count","seen"]},
    {"places":{"as":"home","keys":{"place_id":"home_id"},"features":[{"risk":"home_risk"}]}},
    {"places":{"as":"shop","keys":{"place_id":"shop_id"},
     "features":[{"risk":"shop_risk"},{"open":"shop_open"}]}}],
  "on_demand":[
    {"name":"idle_days","type":"float64","expr":"days_between(seen, row_time())"},
    {"name":"riskier","type":"bool","expr":"shop_risk > home_risk and shop_id != home_id"},
    {"name":"slot","type":"int64","expr":"bucket(concat(coalesce(remark, '?'), shop_id), 97)"},
    {"name":"label_text","type":"string",
     "expr":"concat(upper(coalesce(remark, 'none')), '/', string(count * 3), '/', string(each))"},
    {"name":"again","type":"timestamp","expr":"start_of_week(add_days(row_time(), slot))"},
    {"name":"odd","type":"float64",
     "expr":"if(shop_open, sqrt(amount) * 1.1, ln(amount) / idle_days)"},
    {"name":"customer","type":"int64","expr":"customer_id % 5"}]})j";

class OnDemandTest : public testing::Test {
 protected:
  OnDemandTest() {
    world_.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    world_.apply("Entity", "place", R"({"keys":[{"name":"place_id","type":"string"}]})");
    world_.apply("Source", "tx", R"({"format":"csv","event_time":"at"})");
    world_.apply("FeatureView", "orders",
                 R"({"entity":"customer","source":"tx","ttl":"20d","features":[)"
                 R"({"name":"amount","type":"float64"},{"name":"note","type":"string"},)"
                 R"({"name":"count","type":"int64"},{"name":"seen","type":"timestamp"},)"
                 R"j({"name":"each","type":"float64","expr":"amount / (count - 3)"}]})j");
    world_.apply("FeatureView", "places",
                 R"({"entity":"place","source":"tx","features":[)"
                 R"({"name":"risk","type":"int64"},{"name":"open","type":"bool"}]})");
    world_.apply("FeatureService", "svc", kService);
    world_.apply("TrainingSet", "set",
                 R"({"service":"svc","spine":{"path":"l.csv","time":"at","label":"y"}})");
  }

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  std::string maybe(const std::string& text) { return below(6) == 0 ? "" : text; }

  void ingest() {
    std::string orders = "customer_id,at,amount,note,count,seen\n";
    std::string places = "place_id,at,risk,open\n";
    const char* amounts[] = {"0", "-3.5", "1e300", "0.1", "nan", "inf", "12345.678"};
    const char* notes[] = {"a", "Grün", "x y", "long note"};
    const char* counts[] = {"3", "0", "9223372036854775807", "-4", "9007199254740993"};
    for (int i = 0; i < 300; ++i) {
      const std::string day = std::to_string(10 + below(19));
      orders += std::to_string(below(60)) + ",2026-01-" + day + "T03:04:05.678901234Z," +
                maybe(amounts[below(7)]) + "," + maybe(notes[below(4)]) + "," +
                maybe(counts[below(5)]) + "," + maybe("2025-12-" + day + "T01:02:03.000000001Z") +
                "\n";
      places += "p" + std::to_string(below(20)) + ",2026-01-" + day + "," +
                maybe(std::to_string(below(9))) + "," + maybe(below(2) == 0 ? "true" : "false") +
                "\n";
    }
    ASSERT_TRUE(world_.append("orders", orders).ok());
    ASSERT_TRUE(world_.append("places", places).ok());
  }

  Result<table::Batch> freeze(const std::string& spine) {
    FreezeOptions options;
    const TextReader file{spine};
    options.spine_file = &file;
    options.spine_format = table::Format::kCsv;
    const auto manifest = world_.training_sets->freeze(world_.context, "set", options);
    if (!manifest.ok()) return manifest.error();
    const auto bytes = world_.blobs->open(owner_of(*manifest), manifest->data);
    return table::read_all(**bytes, table::Format::kParquet);
  }

  std::mt19937_64 random_{20'261'116};
  FeatureWorld world_;
};

// The bits of a value as an answer holds them.
std::uint64_t word_at(const table::Column& column, std::size_t row) {
  switch (column.type()) {
    case Type::kFloat64:
      return std::bit_cast<std::uint64_t>(column.doubles()[row]);
    case Type::kBool:
      return column.bools()[row];
    default:
      return static_cast<std::uint64_t>(column.ints()[row]);
  }
}

TEST_F(OnDemandTest, a_frozen_row_and_an_online_read_are_equal_to_the_bit) {
  ingest();
  world_.clock.set(parse_timestamp("2026-02-03T04:05:06.000000007Z").value());
  std::string spine = "customer_id,home_id,shop_id,at,y\n";
  std::vector<KeyPart> keys;
  constexpr std::size_t kRows = 400;
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto customer = static_cast<std::int64_t>(below(70));  // Some are unknown.
    const std::string home = "p" + std::to_string(below(24));
    const std::string shop = "p" + std::to_string(below(24));
    spine +=
        std::to_string(customer) + "," + home + "," + shop + ",2026-02-03T04:05:06.000000007Z,1\n";
    keys.insert(keys.end(), {customer, home, shop});
  }
  const auto frozen = freeze(spine);
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  const auto plan = world_.online->plan(world_.context.project, "svc");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const std::vector<table::Field> wanted_keys{
      {"customer_id", Type::kInt64}, {"home_id", Type::kString}, {"shop_id", Type::kString}};
  ASSERT_EQ((*plan)->keys, wanted_keys);
  ASSERT_EQ((*plan)->columns.size(), 15u);
  OnlineAnswer answer;
  world_.online->read(**plan, keys, OnlineAsk{world_.clock.now(), {}}, answer);
  std::size_t present = 0;
  std::size_t nulls = 0;
  for (std::size_t c = 0; c < answer.columns; ++c) {
    const table::Field& field = (*plan)->columns[c];
    const table::Column* column = frozen->find(field.name);
    ASSERT_NE(column, nullptr) << field.name;
    ASSERT_EQ(column->type(), field.type) << field.name;
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::size_t cell = row * answer.columns + c;
      const bool there = answer.statuses[cell] == FeatureStatus::kPresent;
      ASSERT_EQ(there, !column->is_null(row)) << field.name << " of row " << row;
      (there ? present : nulls) += 1;
      if (!there) continue;
      if (field.type == Type::kString) {
        ASSERT_EQ(answer.text(answer.words[cell]), column->strings()[row]) << field.name;
      } else {
        ASSERT_EQ(answer.words[cell], word_at(*column, row)) << field.name << " of row " << row;
      }
    }
  }
  EXPECT_GT(present, 2000u);
  EXPECT_GT(nulls, 500u);
  // One row as numbers for a model: the same again.
  OnlineRow numbers;
  world_.online->read(**plan, std::span(keys).first(3), world_.clock.now(), numbers);
  for (std::size_t c = 0; c < answer.columns; ++c) {
    const double want = frozen->find((*plan)->columns[c].name)->number_at(0);
    EXPECT_EQ(std::isnan(numbers.numbers[c]), std::isnan(want)) << (*plan)->columns[c].name;
    if (std::isnan(want)) continue;
    EXPECT_EQ(numbers.numbers[c], want) << (*plan)->columns[c].name;
  }
}

TEST_F(OnDemandTest, a_key_map_reads_one_view_in_two_roles) {
  ASSERT_TRUE(world_
                  .append("places",
                          "place_id,at,risk,open\na,2026-01-10,1,true\n"
                          "b,2026-01-10,5,false\n")
                  .ok());
  const auto frozen = freeze(
      "customer_id,home_id,shop_id,at,y\n1,a,b,2026-02-03,1\n1,b,a,2026-02-03,0\n"
      "1,a,a,2026-02-03,0\n1,c,a,2026-02-03,0\n");
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  EXPECT_EQ(frozen->find("home_risk")->ints(), (std::vector<std::int64_t>{1, 5, 1, 0}));
  EXPECT_TRUE(frozen->find("home_risk")->is_null(3));
  EXPECT_EQ(frozen->find("shop_risk")->ints(), (std::vector<std::int64_t>{5, 1, 1, 1}));
  EXPECT_EQ(frozen->find("riskier")->bools(), (std::vector<std::uint8_t>{1, 0, 0, 0}));
  EXPECT_TRUE(frozen->find("riskier")->is_null(3));
  EXPECT_EQ(frozen->find("note"), nullptr) << "it is called remark here";
}

TEST_F(OnDemandTest, a_changed_expression_makes_another_training_set) {
  ingest();
  const std::string spine = "customer_id,home_id,shop_id,at,y\n1,p1,p2,2026-02-03,1\n";
  const auto first = freeze(spine);
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string id = world_.training_sets->latest(world_.context.project, "set")->id;
  ASSERT_TRUE(freeze(spine).ok());
  EXPECT_EQ(world_.training_sets->latest(world_.context.project, "set")->id, id);
  std::string changed = kService;
  changed.replace(changed.find("customer_id % 5"), 15, "customer_id % 7");
  world_.apply("FeatureService", "svc", changed);
  ASSERT_TRUE(freeze(spine).ok());
  EXPECT_NE(world_.training_sets->latest(world_.context.project, "set")->id, id);
}

TEST_F(OnDemandTest, a_name_that_the_set_has_already_is_refused) {
  world_.apply("FeatureService", "svc",
               R"({"features":["places"],"on_demand":[{"name":"y","type":"int64","expr":"1"}]})");
  const auto frozen = freeze("place_id,at,y\na,2026-02-03,1\n");
  ASSERT_FALSE(frozen.ok());
  EXPECT_EQ(frozen.error().id, ErrorId::kFeatureNameCollision);
  EXPECT_THAT(frozen.error().message, HasSubstr("\"y\" would be two columns"));
}

}  // namespace
}  // namespace falaj::features
