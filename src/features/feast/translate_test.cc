#include "features/feast/translate.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "features/feast/testing/registry_bytes.h"

namespace falaj::features::feast {
namespace {

Translation translated(const Message& registry) {
  const auto read = read_registry(registry.str());
  EXPECT_TRUE(read.ok()) << read.error().message;
  return read.ok() ? translate(*read, {"rides", "repo"}) : Translation{};
}

// The object's specification as JSON, "" when there is none.
std::string spec_of(const Translation& in, std::string_view kind, std::string_view name) {
  for (const Value& object : in.objects) {
    if (object.text("kind") == kind && object["metadata"].text("name") == name) {
      return to_json(object["spec"]);
    }
  }
  return {};
}

std::string why(const std::vector<Remark>& remarks, std::string_view what) {
  for (const Remark& each : remarks) {
    if (each.what == what) return each.why;
  }
  return {};
}

const ViewWords kStats{"stats",
                       {"driver"},
                       {{"driver_id", kInt64}},
                       {{"conv", kFloat}, {"trips", kInt32}, {"city", kString}}};

TEST(FeastRegistry, refuses_what_is_no_registry) {
  for (const std::string_view bytes : {"project: rides\n", "\x0a\x05xy", "SQLite format 3"}) {
    const auto read = read_registry(bytes);
    ASSERT_FALSE(read.ok()) << bytes;
    EXPECT_EQ(read.error().id, ErrorId::kMalformedTable);
  }
  EXPECT_FALSE(read_registry(Message().in(1, entity("\xff", "id")).str()).ok());
  const Message ages = Message().text(1, "v").in(6, Message().number(1, -5));
  EXPECT_FALSE(read_registry(Message().in(6, spec(ages)).str()).ok());
  EXPECT_TRUE(read_registry("").ok());
}

TEST(FeastTranslation, a_view_with_its_entity_and_file) {
  Message stats = view(kStats);
  stats.in(6, Message().number(1, 172'800)).pair(5, "team", "ml").text(11, "o@example.org");
  const Translation out =
      translated(Message().in(1, entity("driver", "driver_id")).in(6, spec(stats)));
  EXPECT_TRUE(out.left_out.empty());
  EXPECT_EQ(spec_of(out, "Entity", "driver"), R"({"keys":[{"name":"driver_id","type":"int64"}]})");
  EXPECT_EQ(spec_of(out, "Source", "drivers"),
            R"({"event_time":"event_timestamp","format":"parquet","path":"repo/drivers.parquet"})");
  EXPECT_EQ(spec_of(out, "FeatureView", "stats"),
            R"({"entity":"driver","features":[{"name":"conv","type":"float64"},)"
            R"({"name":"trips","type":"int64"},{"name":"city","type":"string"}],)"
            R"("online":true,"source":"drivers","ttl":"2d"})");
  const Value& labels = out.objects.back()["metadata"]["labels"];
  EXPECT_EQ(to_json(labels), R"({"owner":"o@example.org","team":"ml"})");
  ASSERT_EQ(out.views.size(), 1u);
  EXPECT_EQ(out.views[0].singles, std::vector<std::string>{"conv"});
}

TEST(FeastTranslation, several_entities_become_one_with_several_keys) {
  const Message pair =
      view({"pair", {"a", "b"}, {{"b_id", kString}, {"a_id", kInt64}}, {{"score", kDouble}}});
  Message registry;
  registry.in(1, entity("a", "a_id")).in(1, entity("b", "b_id")).in(6, spec(pair));
  const Translation out = translated(registry);
  EXPECT_EQ(spec_of(out, "Entity", "a_b"),
            R"({"keys":[{"name":"a_id","type":"int64"},{"name":"b_id","type":"string"}]})");
  EXPECT_TRUE(out.left_out.empty()) << out.left_out[0].what;
}

TEST(FeastTranslation, a_push_source_keeps_its_name) {
  Message stats = view(kStats);
  stats.in(9, Message().number(1, 9).text(3, "event_timestamp").text(20, "driver_push"));
  const Translation out =
      translated(Message().in(1, entity("driver", "driver_id")).in(6, spec(stats)));
  EXPECT_NE(spec_of(out, "Source", "driver_push"), "");
  EXPECT_NE(spec_of(out, "FeatureView", "stats").find(R"("source":"driver_push")"),
            std::string::npos);
}

TEST(FeastTranslation, says_what_it_leaves_out) {
  ViewWords embedded = kStats;
  embedded.features.emplace_back("embedding", 16);
  ViewWords coded = kStats;
  coded.name = "coded";
  ViewWords floating = kStats;
  floating.name = "floating";
  floating.keys = {{"driver_id", kDouble}};
  ViewWords bare = kStats;
  bare.name = "bare";
  bare.entities = {"__dummy"};
  Message registry;
  registry.in(1, entity("driver", "driver_id")).in(1, entity("__dummy", "__dummy_id"));
  registry.in(6, spec(view(embedded))).in(6, spec(view(coded).in(15, Message())));
  registry.in(6, spec(view(floating))).in(6, spec(view(bare)));
  registry.in(8, spec(Message().text(1, "live").text(2, "rides")));
  registry.in(16, spec(Message().text(1, "readers").text(2, "rides")));
  registry.in(6, spec(Message().text(1, "x").text(2, "freight")));
  registry.in(1, spec(Message().text(1, "truck").text(9, "freight")));
  const Translation out = translated(registry);
  EXPECT_NE(why(out.left_out, "feature embedding of FeatureView stats").find("FLOAT_LIST"),
            std::string::npos);
  EXPECT_NE(why(out.left_out, "FeatureView coded").find("Python"), std::string::npos);
  EXPECT_NE(why(out.left_out, "FeatureView floating").find("DOUBLE"), std::string::npos);
  EXPECT_NE(why(out.left_out, "FeatureView bare").find("no entity"), std::string::npos);
  EXPECT_NE(why(out.left_out, "OnDemandFeatureView live").find("Python"), std::string::npos);
  EXPECT_NE(why(out.left_out, "Permission readers").find("Grant"), std::string::npos);
  EXPECT_NE(why(out.left_out, "project freight").find("2 objects"), std::string::npos);
  EXPECT_EQ(out.left_out.size(), 7u);
  EXPECT_EQ(out.views.size(), 1u);
}

TEST(FeastTranslation, rows_that_are_elsewhere_are_named_and_the_view_is_declared) {
  ViewWords far = kStats;
  far.source = Message().number(1, 2).text(3, "at").text(20, "warehouse").pair(2, "c", "conv");
  Message inside = view(far);
  inside.in(9, Message().number(1, 3).text(20, "topic"));
  const Translation out =
      translated(Message().in(1, entity("driver", "driver_id")).in(6, spec(inside)));
  EXPECT_EQ(spec_of(out, "Source", "warehouse"), R"({"event_time":"at","format":"parquet"})");
  EXPECT_NE(why(out.left_out, "the rows of FeatureView stats").find("BigQuery"), std::string::npos);
  EXPECT_NE(why(out.left_out, "the stream of FeatureView stats").find("Kafka"), std::string::npos);
  EXPECT_NE(why(out.changed, "FeatureView stats").find("field_mapping"), std::string::npos);
}

TEST(FeastTranslation, a_service_is_whole_or_left_out) {
  Message taken;
  taken.text(1, "stats").text(3, "origin").in(2, field("conv", kFloat));
  taken.pair(4, "driver_id", "origin_id");
  const Message lost = Message().text(1, "live").in(2, field("y", kDouble));
  Message registry;
  registry.in(1, entity("driver", "driver_id")).in(6, spec(view(kStats)));
  registry.in(7, spec(Message().text(1, "whole").text(2, "rides").in(3, taken)));
  registry.in(7, spec(Message().text(1, "part").text(2, "rides").in(3, taken).in(3, lost)));
  const Translation out = translated(registry);
  EXPECT_EQ(spec_of(out, "FeatureService", "whole"),
            R"({"features":[{"stats":{"as":"origin","features":["conv"],)"
            R"("keys":{"driver_id":"origin_id"}}}]})");
  EXPECT_NE(why(out.left_out, "FeatureService part").find("live"), std::string::npos);
  EXPECT_EQ(spec_of(out, "FeatureService", "part"), "");
}

TEST(FeastTranslation, equal_bare_names_become_full_ones) {
  ViewWords other = kStats;
  other.name = "other";
  const auto taken = [](const char* name) {
    return Message().text(1, name).in(2, field("conv", kFloat));
  };
  Message registry;
  registry.in(1, entity("driver", "driver_id"));
  registry.in(6, spec(view(kStats))).in(6, spec(view(other)));
  registry.in(7, spec(Message().text(1, "both").in(3, taken("stats")).in(3, taken("other"))));
  const Translation out = translated(registry);
  EXPECT_NE(spec_of(out, "FeatureService", "both").find(R"("full_names":true)"), std::string::npos);
}

TEST(FeastTranslation, names_that_cannot_be_are_changed_and_said) {
  EXPECT_EQ(falaj_name("Driver.Stats v2"), "driver_stats_v2");
  EXPECT_EQ(falaj_name("__x-"), "x");
  EXPECT_EQ(falaj_name("..."), "unnamed");
  EXPECT_EQ(falaj_name(std::string(100, 'a')).size(), 63u);
  ViewWords upper = kStats;
  upper.name = "Stats";
  Message registry;
  registry.in(1, entity("driver", "driver_id"));
  registry.in(6, spec(view(kStats))).in(6, spec(view(upper)));
  const Translation out = translated(registry);
  EXPECT_NE(spec_of(out, "FeatureView", "stats_2"), "");
  EXPECT_NE(why(out.changed, "FeatureView Stats").find("stats_2"), std::string::npos);
}

}  // namespace
}  // namespace falaj::features::feast
