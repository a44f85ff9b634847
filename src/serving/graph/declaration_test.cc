#include "serving/graph/declaration.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::serving {
namespace {

Result<Graph> decoded(const std::string& steps, const std::string& answers = "null") {
  return decode_graph(parse_json(steps).value(), parse_json(answers).value(), "fraud", "here");
}

std::string refused(const std::string& steps, const std::string& answers = "null") {
  const Result<Graph> graph = decoded(steps, answers);
  return graph.ok() ? "taken" : graph.error().message;
}

bool says(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

const std::string kOwn =
    R"({"name":"score","model":"fraud","inputs":{"input":"rows"},"outputs":{"score":"p"}})";

TEST(DecodeGraph, finds_inputs_and_what_nobody_reads) {
  const auto graph = decoded(
      "[" + kOwn +
      R"(,{"name":"risky","rule":"p > 1","inputs":{"p":"p","amount":"rows[0]"},"as":"FP32"},)"
      R"({"name":"second","model":"review","version":3,"inputs":{"input":["rows","p[0]",)"
      R"("risky"],"other":"more"},"outputs":{"score":"verdict"}}])");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->inputs, (std::vector<std::string>{"rows", "more"}));
  EXPECT_EQ(graph->answers, std::vector<std::string>{"verdict"});
  ASSERT_EQ(graph->steps.size(), 3u);
  EXPECT_EQ(graph->steps[0].alias, "") << "as the deployment says";
  EXPECT_EQ(graph->steps[2].version, 3);
  EXPECT_EQ(graph->steps[2].inputs[0].second,
            (std::vector<GraphSource>{{"rows", {}}, {"p", 0}, {"risky", {}}}));
  EXPECT_EQ(graph->steps[1].as, "FP32");
}

TEST(DecodeGraph, answers_may_be_chosen_and_other_models_follow_the_champion) {
  const std::string steps =
      "[" + kOwn + R"(,{"name":"s","model":"review","inputs":{"x":"p"},"outputs":{"y":"q"}}])";
  const auto graph = decoded(steps, R"(["q","p"])");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->answers, (std::vector<std::string>{"q", "p"}));
  EXPECT_EQ(graph->steps[1].alias, "champion");
  EXPECT_TRUE(says(refused(steps, R"(["z"])"), "no step gives"));
  EXPECT_TRUE(says(refused(steps, R"(["rows"])"), "no step gives"));
  EXPECT_TRUE(says(refused(steps, R"(["p","p"])"), "twice"));
  EXPECT_TRUE(says(refused(steps, "[]"), "list"));
  EXPECT_TRUE(says(refused(steps, "7"), "list"));
}

TEST(DecodeGraph, a_cycle_has_no_order) {
  EXPECT_TRUE(
      says(refused(R"([{"name":"a","model":"fraud","inputs":{"x":"q"},"outputs":{"y":"p"}},)"
                   R"({"name":"b","rule":"p","inputs":{"p":"p"}},)"
                   R"({"name":"c","model":"m","inputs":{"x":"b"},"outputs":{"y":"q"}}])"),
           "cycle"));
  EXPECT_TRUE(says(refused(R"([{"name":"a","model":"fraud","inputs":{"x":"p"},)"
                           R"("outputs":{"y":"p"}}])"),
                   "cycle"));
}

TEST(DecodeGraph, refuses_by_place_what_makes_no_sense) {
  const auto one = [](const std::string& step) { return refused("[" + kOwn + "," + step + "]"); };
  EXPECT_TRUE(says(refused("[]"), "1 to 32"));
  EXPECT_TRUE(says(refused("{}"), "1 to 32"));
  std::string many = kOwn;
  for (int i = 0; i < 32; ++i) {
    many += R"(,{"name":"r)" + std::to_string(i) + R"(","rule":"p","inputs":{"p":"p"}})";
  }
  EXPECT_TRUE(says(refused("[" + many + "]"), "1 to 32"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p"})"), "graph step 2"));
  EXPECT_TRUE(says(one(R"({"name":"r","inputs":{"p":"p"}})"), "'model' or 'rule'"));
  EXPECT_TRUE(
      says(one(R"({"name":"r","rule":"p","model":"m","inputs":{"p":"p"}})"), "one of them"));
  EXPECT_TRUE(says(one(R"({"name":"score","rule":"p","inputs":{"p":"p"}})"), "two steps"));
  EXPECT_TRUE(says(one(R"({"name":"p","rule":"p","inputs":{"p":"p"}})"), "given twice"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":["p","p"]}})"), "one source"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":"p"},"outputs":{"a":"b"}})"),
                   "no 'outputs'"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":"p[x]"}})"), "NAME[NUMBER]"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":"p[1]]"}})"), "NAME[NUMBER]"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":"p["}})"), "NAME[NUMBER]"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":"a b"}})"), "no name of a tensor"));
  EXPECT_TRUE(says(one(R"({"name":"r","rule":"p","inputs":{"p":7}})"), "a source is a text"));
  EXPECT_TRUE(says(one(R"({"name":"r","model":"m","inputs":{"x":"p"}})"), "'outputs'"));
  EXPECT_TRUE(
      says(one(R"({"name":"r","model":"m","inputs":{"x":[]},"outputs":{"y":"z"}})"), "sources"));
  EXPECT_TRUE(says(one(R"({"name":"r","model":"m","inputs":{"x":"p"},"outputs":{"y":"z"},)"
                       R"("as":"FP32"})"),
                   "'as' is for rules"));
  EXPECT_TRUE(says(one(R"({"name":"r","model":"m","inputs":{"x":"p"},"outputs":{"y":"z"},)"
                       R"("alias":"a","version":2})"),
                   "'alias' or 'version'"));
  EXPECT_TRUE(says(one(R"({"name":"r","model":"fraud","version":2,"inputs":{"x":"p"},)"
                       R"("outputs":{"y":"z"}})"),
                   "the deployment itself"));
  EXPECT_TRUE(says(one(R"({"name":"r","rul":"p","inputs":{"p":"p"}})"), "rul"));
  EXPECT_TRUE(says(refused(R"([{"name":"r","model":"m","inputs":{"x":"p"},"outputs":{"y":"z"}}])"),
                   "'fraud'"));
}

}  // namespace
}  // namespace falaj::serving
