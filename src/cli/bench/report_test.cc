#include "cli/bench/report.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/bench/request.h"

namespace falaj::cli::bench {
namespace {

Ran sample() {
  Ran ran{"http://127.0.0.1:1/<x>", {4, 100, Duration::seconds(10), 0}, {}};
  const auto histogram = telemetry::make_histogram();
  for (int i = 1; i <= 1000; ++i) histogram->observe_nanos(i * 100'000);
  ran.result.latency = histogram->snapshot();
  ran.result.longest_nanos = 100'000'000;
  ran.result.answered = 1000;
  ran.result.seconds = 10;
  ran.result.errors = {{"503", 3}};
  ran.result.late = 2;
  return ran;
}

TEST(BenchReport, has_the_figures_for_programs) {
  const Value value = to_value(sample());
  EXPECT_EQ(value.text("loop"), "open");
  EXPECT_EQ(value.number("requests_per_second"), 100);
  EXPECT_EQ(value["errors"].integer("503"), 3);
  EXPECT_NEAR(value["latency_ms"].number("p50"), 50, 1.5);
  EXPECT_NEAR(value["latency_ms"].number("p90"), 90, 2.7);
  EXPECT_NEAR(value["latency_ms"].number("p99"), 99, 3);
  EXPECT_LE(value["latency_ms"].number("p99_9"), 100);
  EXPECT_EQ(value["latency_ms"].number("max"), 100);
  EXPECT_NEAR(value["latency_ms"].number("mean"), 50.05, 0.1);
  EXPECT_GT(value["histogram"].as_array().size(), 5u);
}

TEST(BenchReport, has_them_for_people) {
  const std::string text = to_text(sample());
  EXPECT_NE(text.find("open loop, 100 requests/s due, 4 clients: 1000 answered in 10.00 s, "
                      "3 × 503, 2 sent late"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("100 requests/s\n"), std::string::npos);
  EXPECT_NE(text.find("max 100 ms"), std::string::npos);
  EXPECT_NE(text.find("│█"), std::string::npos);
}

TEST(BenchReport, is_one_file_with_a_plot) {
  const std::string html = to_html(sample());
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  EXPECT_NE(html.find("<polyline"), std::string::npos);
  EXPECT_NE(html.find("&lt;x&gt;"), std::string::npos);
  EXPECT_EQ(html.find("<x>"), std::string::npos);
  for (const char* foreign : {"<script", "<link", "src=", "@import"}) {
    EXPECT_EQ(html.find(foreign), std::string::npos) << foreign;
  }
}

TEST(BenchReport, survives_a_load_without_answers) {
  const Ran none{"http://127.0.0.1:1/", {1, 0, Duration::seconds(1), 0}, {}};
  EXPECT_NE(to_text(none).find("closed loop, 1 clients: 0 answered"), std::string::npos);
  EXPECT_NE(to_html(none), "");
  EXPECT_EQ(to_value(none).integer("answered"), 0);
}

TEST(BenchAddress, is_split_before_its_path) {
  const Address address = split_address("http://127.0.0.1:7070/v2/models/a/infer?x=1").value();
  EXPECT_EQ(address.server, "http://127.0.0.1:7070");
  EXPECT_EQ(address.target, "/v2/models/a/infer?x=1");
  for (const char* wrong : {"", "127.0.0.1/x", "ftp://a/b", "http://a", "http:///x", "http://a/b c",
                            "http://a/b\r\nHost: c"}) {
    EXPECT_FALSE(split_address(wrong).ok()) << wrong;
  }
}

TEST(BenchAddress, knows_where_a_models_metadata_is) {
  EXPECT_EQ(metadata_target("/v2/models/a/infer?x=1"), "/v2/models/a");
  EXPECT_EQ(metadata_target("/v2/models/a/versions/3/infer"), "/v2/models/a/versions/3");
  for (const char* other : {"/v2/models/infer", "/v2/models/a", "/v2/health/live", "/", ""}) {
    EXPECT_EQ(metadata_target(other), "") << other;
  }
}

TEST(BenchBody, fits_the_model) {
  const Value metadata = parse_json(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]},)"
                                    R"({"name":"n","datatype":"INT8","shape":[-1]},)"
                                    R"({"name":"t","datatype":"BYTES","shape":[1]},)"
                                    R"({"name":"b","datatype":"BOOL","shape":[-1,-1]}]})")
                             .value();
  const Value body = parse_json(infer_body(metadata, 3).value()).value();
  const Value::Array& inputs = body["inputs"].as_array();
  ASSERT_EQ(inputs.size(), 4u);
  EXPECT_EQ(to_json(inputs[0]["shape"]), "[3,2]");
  EXPECT_EQ(inputs[0]["data"].as_array().size(), 6u);
  EXPECT_EQ(to_json(inputs[1]["shape"]), "[3]");
  EXPECT_TRUE(inputs[1]["data"].as_array()[0].is_int());
  EXPECT_TRUE(inputs[2]["data"].as_array()[0].is_string());
  EXPECT_EQ(to_json(inputs[3]["shape"]), "[3,1]");
  EXPECT_EQ(infer_body(metadata, 3).value(), infer_body(metadata, 3).value());
}

TEST(BenchBody, refuses_what_it_cannot_make) {
  for (const char* wrong :
       {"{}", R"({"inputs":[]})", R"({"inputs":[{"name":"x","datatype":"FP16","shape":[1]}]})",
        R"({"inputs":[{"name":"x","datatype":"FP32"}]})",
        R"({"inputs":[{"name":"x","datatype":"FP32","shape":["a"]}]})",
        R"({"inputs":[{"name":"x","datatype":"FP32","shape":[0]}]})",
        R"({"inputs":[{"name":"x","datatype":"FP32","shape":[2000,2000]}]})"}) {
    EXPECT_FALSE(infer_body(parse_json(wrong).value(), 1).ok()) << wrong;
  }
}

}  // namespace
}  // namespace falaj::cli::bench
