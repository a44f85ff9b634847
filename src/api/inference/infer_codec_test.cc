#include "api/inference/infer_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "api/inference/internal/json_data.h"
#include "base/json.h"

namespace falaj::api {
namespace {

using serving::Tensor;

template <class T>
std::vector<T> values(const Tensor& tensor) {
  std::vector<T> read(tensor.bytes.size() / sizeof(T));
  if (!read.empty()) std::memcpy(read.data(), tensor.bytes.data(), tensor.bytes.size());
  return read;
}

template <class T>
std::string bytes_of(const std::vector<T>& of) {
  return std::string(reinterpret_cast<const char*>(of.data()), of.size() * sizeof(T));
}

std::string with_input(const std::string& members) {
  return R"({"inputs":[{"name":"x",)" + members + "}]}";
}

// The message of a refusal, or "accepted".
std::string refusal(const std::string& body, std::optional<std::size_t> json_bytes = {}) {
  const auto request = parse_infer(body, json_bytes);
  if (request.ok()) return "accepted";
  EXPECT_EQ(request.error().code, Code::kInvalidArgument);
  return request.error().message;
}

TEST(ParseInfer, reads_a_flat_tensor) {
  const auto request =
      parse_infer(R"({"id":"42","model_name":"ignored","inputs":[)"
                  R"({"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2.5,-3,1e3]}],)"
                  R"("outputs":[{"name":"y"},{"name":"z","parameters":{"binary_data":true}}]})",
                  std::nullopt);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->id, "42");
  ASSERT_EQ(request->inputs.size(), 1U);
  EXPECT_EQ(request->inputs[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(values<float>(request->inputs[0]), (std::vector<float>{1, 2.5F, -3, 1000}));
  ASSERT_EQ(request->outputs.size(), 2U);
  EXPECT_EQ(request->outputs[0].encoding, Encoding::kJson);
  EXPECT_EQ(request->outputs[1].encoding, Encoding::kBinary);
}

TEST(ParseInfer, reads_members_in_any_order_and_nested_data) {
  const auto request = parse_infer(
      R"({"outputs":[{"name":"y"}],"parameters":{"binary_data_output":true,"custom":1},)"
      R"("inputs":[{"data":[[1,2],[3,4]],"datatype":"INT64","shape":[2,2],"name":"x"}]})",
      std::nullopt);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_FALSE(request->id.has_value());
  EXPECT_EQ(values<std::int64_t>(request->inputs[0]), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(request->outputs[0].encoding, Encoding::kBinary);
}

TEST(ParseInfer, reads_every_datatype_at_its_bounds) {
  const auto one = [](const std::string& type, const std::string& data) {
    return parse_infer(with_input(R"("shape":[2],"datatype":")" + type + R"(","data":)" + data),
                       std::nullopt);
  };
  EXPECT_EQ(values<std::uint8_t>(one("BOOL", "[true,false]")->inputs[0]),
            (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(values<std::int8_t>(one("INT8", "[-128,127]")->inputs[0]),
            (std::vector<std::int8_t>{-128, 127}));
  EXPECT_EQ(values<std::uint8_t>(one("UINT8", "[0,255]")->inputs[0]),
            (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(
      values<std::int64_t>(one("INT64", "[-9223372036854775808,9223372036854775807]")->inputs[0]),
      (std::vector<std::int64_t>{INT64_MIN, INT64_MAX}));
  EXPECT_EQ(values<std::uint64_t>(one("UINT64", "[0,18446744073709551615]")->inputs[0]),
            (std::vector<std::uint64_t>{0, UINT64_MAX}));
  EXPECT_EQ(values<double>(one("FP64", "[1e308,-2]")->inputs[0]), (std::vector<double>{1e308, -2}));
  EXPECT_TRUE(std::isnan(values<float>(one("FP32", "[null,1]")->inputs[0])[0]));
  for (const auto& [type, data] :
       std::vector<std::pair<std::string, std::string>>{{"INT8", "[1,128]"},
                                                        {"UINT8", "[-1,0]"},
                                                        {"UINT64", "[-1,0]"},
                                                        {"INT32", "[1.5,0]"},
                                                        {"INT32", "[1.0,0]"},
                                                        {"INT32", "[null,0]"},
                                                        {"INT64", "[9223372036854775808,0]"},
                                                        {"FP32", "[1e300,0]"},
                                                        {"FP32", "[true,0]"},
                                                        {"FP32", "[\"1\",0]"},
                                                        {"FP32", "[{},0]"},
                                                        {"BOOL", "[1,0]"},
                                                        {"BOOL", "[null,true]"}}) {
    const auto answer = one(type, data);
    EXPECT_FALSE(answer.ok()) << type << " " << data;
  }
}

TEST(ParseInfer, refuses_what_it_cannot_carry_by_name) {
  const std::string shape = R"("shape":[1],)";
  EXPECT_NE(refusal(with_input(shape + R"("datatype":"BYTES","data":[7])")).find("a text"),
            std::string::npos);
  for (const char* half : {"FP16", "BF16"}) {
    EXPECT_NE(refusal(with_input(shape + R"("datatype":")" + half + R"(","data":[1])"))
                  .find("use the binary data format"),
              std::string::npos);
  }
  EXPECT_NE(refusal(with_input(shape + R"("datatype":"FP99","data":[1])")).find("FP99"),
            std::string::npos);
  EXPECT_NE(refusal(with_input(shape + R"("datatype":"FP32",)"
                                       R"("parameters":{"shared_memory_region":"r"})"))
                .find("shared memory"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":-3}}]})")
                .find("classification"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"inputs":[],"outputs":[{"name":"y",)"
                    R"("parameters":{"shared_memory_region":"r"}}]})")
                .find("shared memory"),
            std::string::npos);
  EXPECT_EQ(parse_infer(R"({"inputs":[],"parameters":{"sequence_id":7}})", {}).error().code,
            Code::kUnimplemented);
  EXPECT_EQ(parse_infer(R"({"inputs":[],"parameters":{"sequence_id":"a"}})", {}).error().code,
            Code::kUnimplemented);
  EXPECT_EQ(refusal(R"({"inputs":[],"parameters":{"sequence_id":0,"sequence_start":false}})"),
            "accepted");
  EXPECT_NE(refusal(R"({"inputs":[],"parameters":{"triton_x":1}})").find("reserved"),
            std::string::npos);
}

TEST(ParseInfer, packs_texts_as_binary_bytes_are_packed) {
  const auto json =
      parse_infer(with_input(R"("shape":[2],"datatype":"BYTES","data":["ab",""])"), {});
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_EQ(json->inputs[0].bytes, std::string("\2\0\0\0ab\0\0\0\0", 10));
  const std::string head =
      with_input(R"("shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":10})");
  const auto binary = parse_infer(head + json->inputs[0].bytes, head.size());
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  EXPECT_EQ(binary->inputs[0].bytes, json->inputs[0].bytes);
  // The lengths inside must add up.
  EXPECT_NE(refusal(head + std::string("\2\0\0\0ab\1\0\0\0", 10), head.size())
                .find("unexpected size for input 'x'"),
            std::string::npos);
  EXPECT_NE(refusal(head + std::string("\6\0\0\0abcdef", 10), head.size())
                .find("unexpected size for input 'x'"),
            std::string::npos);
}

TEST(ParseInfer, reads_how_long_and_how_urgent) {
  const auto request =
      parse_infer(R"({"inputs":[],"parameters":{"timeout":2500,"priority":1,"mine":1.5}})", {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->timeout.nanos, 2'500'000);
  EXPECT_EQ(request->priority, 1U);
  EXPECT_NE(refusal(R"({"inputs":[],"parameters":{"timeout":-1}})"), "accepted");
  EXPECT_NE(refusal(R"({"inputs":[],"parameters":{"timeout":"1s"}})"), "accepted");
  EXPECT_NE(refusal(R"({"inputs":[],"parameters":{"priority":1.5}})"), "accepted");
}

TEST(ParseInfer, wants_exactly_one_place_for_the_data) {
  const std::string head = R"("shape":[1],"datatype":"FP32")";
  EXPECT_NE(refusal(with_input(head)).find("it has none"), std::string::npos);
  EXPECT_NE(refusal(with_input(head + R"(,"data":[1],"parameters":{"binary_data_size":4})"))
                .find("'data' 'binary_data_size'"),
            std::string::npos);
}

TEST(ParseInfer, counts_elements_against_the_shape) {
  const auto count = [](const std::string& shape, const std::string& data) {
    return refusal(with_input(R"("datatype":"FP32","shape":)" + shape + R"(,"data":)" + data));
  };
  EXPECT_EQ(count("[2]", "[1,2]"), "accepted");
  EXPECT_EQ(count("[]", "[1]"), "accepted");
  EXPECT_EQ(count("[0,4]", "[]"), "accepted");
  EXPECT_NE(count("[3]", "[1,2]").find("has 2 elements, its shape [3] needs 3"), std::string::npos);
  EXPECT_NE(count("[1]", "[1,2]"), "accepted");
  EXPECT_NE(count("[-1]", "[1]"), "accepted");
  EXPECT_NE(count("[1.5]", "[1]"), "accepted");
  EXPECT_NE(count("[4294967296,4294967296]", "[1]"), "accepted");
  EXPECT_NE(count("[9223372036854775807]", "[1]"), "accepted");
  EXPECT_NE(count("3", "[1]"), "accepted");
  EXPECT_NE(count("[1]", "1"), "accepted");
}

TEST(ParseInfer, bounds_nesting_and_numbers_of_tensors) {
  const auto nested = [](std::size_t levels) {
    return refusal(with_input(R"("datatype":"FP32","shape":[1],"data":)" +
                              std::string(levels, '[') + "1" + std::string(levels, ']')));
  };
  EXPECT_EQ(nested(100), "accepted");
  EXPECT_NE(nested(101).find("nested over 100"), std::string::npos);
  EXPECT_NE(nested(100'000), "accepted");
  std::string many = R"({"inputs":[)";
  for (int i = 0; i < 1025; ++i) {
    many +=
        std::string(i > 0 ? "," : "") + R"({"name":"x","shape":[0],"datatype":"FP32","data":[]})";
  }
  EXPECT_NE(refusal(many + "]}").find("over 1024"), std::string::npos);
}

TEST(ParseInfer, refuses_malformed_text) {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("nonsense"), std::string("{}"),
        std::string("[]"), std::string("null"), std::string(R"({"inputs":3})"),
        std::string(R"({"inputs":[3]})"), std::string(R"({"inputs":[{}]})"),
        std::string(R"({"inputs":[{"name":3}]})"), std::string("{\"inputs\":[\"\xff\"]}"),
        std::string("{\"inputs\":[]}\0", 14), std::string(R"({"inputs":[]}{})"),
        std::string(R"({"id":7,"inputs":[]})"), std::string(R"({"inputs":[],"outputs":[{}]})"),
        std::string(R"({"inputs":[],"parameters":[]})"),
        std::string(R"({"inputs":[],"parameters":{"a":{}}})"),
        std::string(R"({"inputs":[],"parameters":{"binary_data_output":1}})")}) {
    EXPECT_NE(refusal(body), "accepted") << body;
  }
  EXPECT_EQ(refusal(R"({"inputs":[]})"), "accepted");
}

TEST(ParseInfer, keeps_no_memory_of_large_texts_that_it_refused) {
  const std::string large(4 << 20, ' ');
  for (const std::string& wrong : {large + "{", large + "[]"}) {
    EXPECT_NE(refusal(wrong), "accepted");
    EXPECT_LT(kept_json_bytes(), std::size_t{1} << 20);
  }
}

TEST(ParseInfer, takes_binary_tensors_in_order) {
  const std::string json =
      R"({"inputs":[)"
      R"({"name":"a","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"b","shape":[1],"datatype":"INT64","data":[7]},)"
      R"({"name":"c","shape":[0],"datatype":"FP32","parameters":{"binary_data_size":0}},)"
      R"({"name":"d","shape":[1],"datatype":"FP16","parameters":{"binary_data_size":2}}]})";
  const std::string body = json + bytes_of<float>({1.5F, NAN}) + "hi";
  const auto request = parse_infer(body, json.size());
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(values<float>(request->inputs[0])[0], 1.5F);
  EXPECT_TRUE(std::isnan(values<float>(request->inputs[0])[1]));
  EXPECT_EQ(values<std::int64_t>(request->inputs[1]), (std::vector<std::int64_t>{7}));
  EXPECT_TRUE(request->inputs[2].bytes.empty());
  EXPECT_EQ(request->inputs[3].bytes, "hi");

  EXPECT_NE(refusal(body + "x", json.size()).find("unexpected additional input data"),
            std::string::npos);
  EXPECT_NE(refusal(body.substr(0, body.size() - 1), json.size()).find("has 1 left"),
            std::string::npos);
  EXPECT_NE(refusal(body, body.size() + 1).find("Inference-Header-Content-Length"),
            std::string::npos);
  EXPECT_NE(refusal(body, json.size() - 1), "accepted");
  EXPECT_NE(refusal(body), "accepted");  // Without the header, the tensors are no JSON.
}

TEST(ParseInfer, checks_the_announced_size_against_the_shape) {
  const std::string json =
      with_input(R"("shape":[2],"datatype":"FP32","parameters":{"binary_data_size":4})");
  EXPECT_NE(refusal(json + "1234", json.size()).find("unexpected size for input 'x'"),
            std::string::npos);
  const std::string negative =
      with_input(R"("shape":[2],"datatype":"FP32","parameters":{"binary_data_size":-4})");
  EXPECT_NE(refusal(negative, negative.size()), "accepted");
}

TEST(ParseRawInfer, takes_the_body_as_one_row_of_the_only_input) {
  const registry::Signature signature{{{"x", "FP32", {-1, 2}}}, {{"y", "FP32", {-1, 1}}}, {}};
  const auto request = parse_raw_infer(bytes_of<float>({3, 4}), signature);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->inputs[0].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(request->outputs_default, Encoding::kBinary);
  EXPECT_FALSE(parse_raw_infer("12345", signature).ok());
  EXPECT_FALSE(parse_raw_infer("", signature).ok());

  const registry::Signature open{{{"x", "FP32", {-1, -1}}}, {}, {}};
  EXPECT_EQ(parse_raw_infer(bytes_of<float>({3, 4, 5}), open)->inputs[0].shape,
            (std::vector<std::int64_t>{1, 3}));
  EXPECT_FALSE(parse_raw_infer("12345", open).ok());
  const registry::Signature two_open{{{"x", "FP32", {-1, -1, -1}}}, {}, {}};
  EXPECT_FALSE(parse_raw_infer(bytes_of<float>({3}), two_open).ok());
  const registry::Signature none{};
  EXPECT_FALSE(parse_raw_infer("", none).ok());
}

TEST(CheckInputs, speaks_in_the_words_that_tooling_looks_for) {
  const registry::Signature signature{{{"x", "FP32", {-1, 2}}}, {}, {}};
  const auto said = [&](std::vector<Tensor> inputs) {
    InferRequest request;
    request.inputs = std::move(inputs);
    const Status checked = check_inputs(request, signature, "fraud");
    if (checked.ok()) return std::string("fits");
    EXPECT_EQ(checked.error().id, ErrorId::kTensorMismatch);
    return checked.error().message;
  };
  EXPECT_EQ(said({{"x", "FP32", {5, 2}, ""}}), "fits");
  EXPECT_EQ(said({{"x", "FP32", {1, 3}, ""}}),
            "unexpected shape for input 'x' for model 'fraud'. Expected [-1,2], got [1,3]");
  EXPECT_NE(said({{"x", "FP32", {2}, ""}}).find("unexpected shape"), std::string::npos);
  EXPECT_NE(said({{"w", "FP32", {1, 2}, ""}}).find("unexpected inference input 'w'"),
            std::string::npos);
  EXPECT_NE(said({{"x", "INT64", {1, 2}, ""}}).find("data-type"), std::string::npos);
  EXPECT_NE(said({}).find("expected 1 inputs but got 0"), std::string::npos);
  EXPECT_EQ(said({{"x", "FP32", {(1 << 20) + 1, 2}, ""}}),
            "inference request batch-size must be <= 1048576 for 'fraud'");
  const registry::Signature two{{{"x", "FP32", {-1}}, {"y", "FP32", {-1}}}, {}, {}};
  InferRequest twice;
  twice.inputs = {{"x", "FP32", {1}, ""}, {"x", "FP32", {1}, ""}};
  EXPECT_NE(check_inputs(twice, two, "m").error().message.find("'x' stands twice"),
            std::string::npos);
}

TEST(ChooseOutputs, gives_the_highest_of_each_row_as_value_and_index) {
  InferRequest request;
  request.outputs = {{"y", Encoding::kJson, 2}};
  const std::vector<Tensor> outputs{
      {"y", "FP32", {2, 3}, bytes_of<float>({0.25F, 0.5F, 0.25F, NAN, -1, 1e20F})}};
  const auto chosen = choose_outputs(request, outputs, "m", Rows::kFirstDimension).value();
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].tensor.datatype, "BYTES");
  EXPECT_EQ(chosen[0].tensor.shape, (std::vector<std::int64_t>{2, 2}));
  InferReply reply{"m", "1", &request, outputs};
  EXPECT_NE(write_infer_reply(reply)->body.find(
                R"(["0.500000:1","0.250000:0","100000002004087734272.000000:2","-1.000000:1"])"),
            std::string::npos);
  // Names, where there are some.
  const serving::Labels labels{{"y", {"no", "yes"}}, {"z", {"other"}}};
  reply.labels = &labels;
  EXPECT_NE(write_infer_reply(reply)->body.find(
                R"(["0.500000:1:yes","0.250000:0:no","100000002004087734272.000000:2",)"
                R"("-1.000000:1:yes"])"),
            std::string::npos);
  // Without rows it is one list; more classes than there are give all of them.
  request.outputs = {{"y", Encoding::kJson, 99}};
  const std::vector<Tensor> flat{{"y", "INT64", {3}, bytes_of<std::int64_t>({-1, 7, 7})}};
  const auto one = choose_outputs(request, flat, "m", Rows::kNone).value();
  EXPECT_EQ(one[0].tensor.shape, (std::vector<std::int64_t>{3}));
  EXPECT_NE(one[0].tensor.bytes.find("7:1"), std::string::npos);
  const auto refused =
      choose_outputs(request, {{"y", "BYTES", {0}, ""}}, "m", Rows::kNone).error().message;
  EXPECT_NE(refused.find("unsupported type 'BYTES'"), std::string::npos);
  EXPECT_EQ(choose_outputs(request, {{"y", "FP32", {0, 3}, ""}}, "m", Rows::kFirstDimension)
                ->at(0)
                .tensor.shape,
            (std::vector<std::int64_t>{0, 0}));
}

TEST(ChooseOutputs, refuses_an_output_that_is_asked_for_twice) {
  InferRequest request;
  request.outputs = {{"y", Encoding::kJson}, {"z", Encoding::kJson}, {"y", Encoding::kBinary}};
  const std::vector<Tensor> outputs{{"y", "INT64", {1}, bytes_of<std::int64_t>({5})},
                                    {"z", "INT64", {1}, bytes_of<std::int64_t>({6})}};
  const auto refused = choose_outputs(request, outputs, "m", Rows::kNone);
  ASSERT_FALSE(refused.ok()) << "each would be a copy: a short request, a reply of gigabytes";
  EXPECT_EQ(refused.error().message, "output 'y' is asked for twice for model 'm'");
  request.outputs.pop_back();
  const auto chosen = choose_outputs(request, outputs, "m", Rows::kNone).value();
  EXPECT_EQ(chosen[0].tensor.bytes, outputs[0].bytes);
  EXPECT_EQ(chosen[1].tensor.bytes, outputs[1].bytes);
}

TEST(WriteInferReply, writes_json_that_reads_back_to_the_same_bits) {
  std::mt19937 random(7);
  std::vector<float> floats{0, -0.0F, 1e-45F, 3.4028235e38F, 0.1F};
  while (floats.size() < 5000) {
    const auto candidate = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(candidate)) floats.push_back(candidate);
  }
  InferRequest request;
  const Tensor tensor{"x", "FP32", {static_cast<std::int64_t>(floats.size())}, bytes_of(floats)};
  const EncodedReply reply = write_infer_reply({"m", "3", &request, {tensor}}).value();
  EXPECT_FALSE(reply.json_bytes.has_value());
  const Value read = parse_json(reply.body).value();
  EXPECT_EQ(read.text("model_name"), "m");
  EXPECT_EQ(read.text("model_version"), "3");
  EXPECT_FALSE(read.has("id"));
  const Value::Array& data = read["outputs"].as_array()[0]["data"].as_array();
  ASSERT_EQ(data.size(), floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(static_cast<float>(data[i].as_double()), floats[i]) << i;
  }
  EXPECT_NE(reply.body.find("[0,-0.0,"), std::string::npos) << "others take -0 for an integer";
  // And through our own parser.
  const std::string body = R"({"inputs":)" + to_json(read["outputs"]) + "}";
  const auto again = parse_infer(body, std::nullopt);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(values<float>(again->inputs[0]), floats);
}

TEST(WriteInferReply, appends_binary_tensors_after_the_json) {
  InferRequest request;
  request.id = "a\"b";
  request.outputs = {{"y", Encoding::kBinary}, {"z", Encoding::kJson}, {"e", Encoding::kBinary}};
  const std::vector<Tensor> outputs{{"z", "INT64", {1}, bytes_of<std::int64_t>({-5})},
                                    {"y", "FP32", {1, 2}, bytes_of<float>({NAN, 2})},
                                    {"e", "FP32", {0}, ""},
                                    {"unasked", "FP32", {1}, bytes_of<float>({1})}};
  const EncodedReply reply = write_infer_reply({"m", "1", &request, outputs}).value();
  ASSERT_TRUE(reply.json_bytes.has_value());
  EXPECT_EQ(reply.body.substr(0, *reply.json_bytes),
            R"({"id":"a\"b","model_name":"m","model_version":"1","outputs":[)"
            R"({"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}},)"
            R"({"name":"z","datatype":"INT64","shape":[1],"data":[-5]},)"
            R"({"name":"e","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}}]})");
  EXPECT_EQ(reply.body.substr(*reply.json_bytes), outputs[1].bytes);
}

TEST(WriteInferReply, is_plain_json_when_every_binary_output_is_empty) {
  InferRequest request;
  request.outputs_default = Encoding::kBinary;
  const EncodedReply reply =
      write_infer_reply({"m", "1", &request, {{"e", "FP32", {0}, ""}}}).value();
  EXPECT_FALSE(reply.json_bytes.has_value());
  EXPECT_NE(reply.body.find(R"("binary_data_size":0)"), std::string::npos);
}

TEST(WriteInferReply, says_to_use_binary_for_what_json_cannot_carry) {
  InferRequest request;
  for (const Tensor& tensor :
       {Tensor{"y", "FP32", {1}, bytes_of<float>({NAN})},
        Tensor{"y", "FP64", {1}, bytes_of<double>({-INFINITY})}, Tensor{"y", "FP16", {1}, "ab"}}) {
    const auto reply = write_infer_reply({"m", "1", &request, {tensor}});
    ASSERT_FALSE(reply.ok());
    EXPECT_NE(reply.error().message.find("binary_data"), std::string::npos);
  }
  request.outputs = {{"nothing", Encoding::kJson}};
  EXPECT_NE(write_infer_reply({"m", "1", &request, {}})
                .error()
                .message.find("unexpected inference output 'nothing'"),
            std::string::npos);
}

TEST(WriteInferReply, writes_truth_values_as_such) {
  InferRequest request;
  const EncodedReply reply =
      write_infer_reply({"m", "1", &request, {{"b", "BOOL", {2}, std::string("\1\0", 2)}}}).value();
  EXPECT_NE(reply.body.find("[true,false]"), std::string::npos);
}

}  // namespace
}  // namespace falaj::api
