#include "cli/batch/tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"

namespace falaj::cli::batch {
namespace {

using table::Type;

table::Batch sample() {
  table::Batch batch(table::Schema{
      {{"a", Type::kFloat64}, {"b", Type::kInt64}, {"yes", Type::kBool}, {"city", Type::kString}}});
  batch.columns[0].push_double(0.1);
  batch.columns[0].push_null();
  batch.columns[0].push_double(3);
  for (const std::int64_t each : {7, 300, -1}) batch.columns[1].push_int(each);
  for (const bool each : {true, false, true}) batch.columns[2].push_bool(each);
  for (const char* each : {"Dubai", "", "Al Ain"}) batch.columns[3].push_string(each);
  return batch;
}
const std::vector<std::uint64_t> kLines{2, 3, 4};

Result<std::vector<InputPlan>> planned(const TensorForm& form, const Naming& naming) {
  return plan_inputs({form}, naming, sample().schema);
}

Result<std::string> bytes_of(const TensorForm& form, const std::vector<std::string>& columns,
                             std::size_t from = 0, std::size_t count = 3) {
  const table::Batch batch = sample();
  std::string out;
  FALAJ_TRY(append_input({form, columns}, {batch, kLines, from, count}, out));
  return out;
}

template <class Number>
std::vector<Number> numbers_in(const std::string& bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

TEST(PlanInputs, takes_what_is_given_then_features_then_its_own_name) {
  const TensorForm pair{"input", "FP32", {-1, 2}};
  EXPECT_EQ(planned(pair, {{"b", "a"}, {"input=a,b"}}).value()[0].columns,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(planned(pair, {{"b", "a"}, {}}).value()[0].columns,
            (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(planned({"a", "FP64", {-1}}, {}).value()[0].columns, std::vector<std::string>{"a"});
  EXPECT_EQ(planned({"a", "FP64", {-1, 1}}, {}).value()[0].columns, std::vector<std::string>{"a"});
}

TEST(PlanInputs, finds_the_one_open_dimension) {
  const auto plans = planned({"input", "FP32", {-1, -1}}, {{}, {"input=a,b,yes"}});
  ASSERT_TRUE(plans.ok()) << plans.error().message;
  EXPECT_EQ(plans.value()[0].form.shape, (std::vector<std::int64_t>{-1, 3}));
  EXPECT_EQ(planned({"input", "FP32", {-1, -1, -1}}, {{}, {"input=a,b"}}).error().id,
            ErrorId::kUsage);
}

TEST(PlanInputs, says_what_is_missing_or_cannot_be) {
  const TensorForm pair{"input", "FP32", {-1, 2}};
  EXPECT_EQ(planned(pair, {}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned(pair, {{}, {"input=a"}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned(pair, {{}, {"input"}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned(pair, {{}, {"input="}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned(pair, {{}, {"other=a,b"}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned(pair, {{}, {"input=a,b", "input=a,b"}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned({"input", "FP32", {2}}, {{}, {"input=a,b"}}).error().id, ErrorId::kUsage);
  EXPECT_EQ(planned({"a", "FP16", {-1}}, {}).error().id, ErrorId::kUsage);
  const Error lacks = planned(pair, {{}, {"input=a,c"}}).error();
  EXPECT_EQ(lacks.id, ErrorId::kSchemaMismatch);
  EXPECT_NE(lacks.message.find("'c'"), std::string::npos);
  EXPECT_EQ(planned(pair, {{}, {"input=a,city"}}).error().id, ErrorId::kSchemaMismatch);
  EXPECT_EQ(planned({"a", "BYTES", {-1}}, {}).error().id, ErrorId::kSchemaMismatch);
}

TEST(AppendInput, floats_are_row_by_row_and_missing_ones_are_nan) {
  const auto floats = numbers_in<float>(bytes_of({"i", "FP32", {-1, 2}}, {"a", "b"}).value());
  ASSERT_EQ(floats.size(), 6u);
  EXPECT_EQ(floats[0], 0.1f);
  EXPECT_EQ(floats[1], 7.0f);
  EXPECT_TRUE(std::isnan(floats[2]));
  EXPECT_EQ(floats[5], -1.0f);
  EXPECT_EQ(numbers_in<double>(bytes_of({"i", "FP64", {-1}}, {"a"}, 2, 1).value()),
            std::vector<double>{3});
}

TEST(AppendInput, whole_numbers_fit_or_are_refused_by_line) {
  EXPECT_EQ(numbers_in<std::int16_t>(bytes_of({"i", "INT16", {-1}}, {"b"}).value()),
            (std::vector<std::int16_t>{7, 300, -1}));
  EXPECT_EQ(numbers_in<std::uint64_t>(bytes_of({"i", "UINT64", {-1}}, {"b"}, 0, 2).value()),
            (std::vector<std::uint64_t>{7, 300}));
  EXPECT_EQ(bytes_of({"i", "BOOL", {-1}}, {"yes"}).value(), std::string("\1\0\1", 3));
  EXPECT_NE(bytes_of({"i", "INT8", {-1}}, {"b"}).error().message.find("line 3, column 'b'"),
            std::string::npos);
  EXPECT_NE(bytes_of({"i", "UINT32", {-1}}, {"b"}).error().message.find("line 4"),
            std::string::npos);
  EXPECT_NE(bytes_of({"i", "INT64", {-1}}, {"a"}).error().message.find("line 2"), std::string::npos)
      << "0.1 is no whole number";
  EXPECT_NE(bytes_of({"i", "INT64", {-1}}, {"a"}, 1, 1).error().message.find("line 3"),
            std::string::npos)
      << "nothing is there";
  EXPECT_EQ(numbers_in<std::int64_t>(bytes_of({"i", "INT64", {-1}}, {"a"}, 2, 1).value()),
            std::vector<std::int64_t>{3});
}

TEST(AppendInput, texts_have_their_length_before_them) {
  EXPECT_EQ(bytes_of({"i", "BYTES", {-1}}, {"city"}, 0, 2).value(),
            std::string("\5\0\0\0Dubai\0\0\0\0", 13));
}

TEST(InferHead, has_one_length_whatever_the_sizes) {
  const std::vector<InputPlan> plans{{{"in \"x\"", "FP32", {-1, 2}}, {"a", "b"}},
                                     {{"n", "INT64", {-1}}, {"c"}}};
  for (const std::size_t rows : {std::size_t{1}, std::size_t{64}, std::size_t{1} << 20}) {
    const std::string head = infer_head(plans, rows, {rows * 8, rows * 8});
    EXPECT_EQ(head.size(), head_bytes(plans));
    const Result<Value> value = parse_json(head);
    ASSERT_TRUE(value.ok()) << head;
    const Value& first = (*value)["inputs"].as_array()[0];
    EXPECT_EQ(first.text("name"), "in \"x\"");
    EXPECT_EQ(first["shape"].as_array()[0].as_int(), static_cast<std::int64_t>(rows));
    EXPECT_EQ(first["parameters"].integer("binary_data_size"), static_cast<std::int64_t>(rows) * 8);
    EXPECT_EQ((*value)["inputs"].as_array()[1]["shape"].as_array().size(), 1u);
    EXPECT_EQ((*value)["parameters"]["binary_data_output"], Value(true));
  }
}

// An answer of one output.
Result<Answer> answered(const std::string& output, const std::string& bytes) {
  static std::string body;
  body = R"({"model_version":"3","outputs":[)" + output + "]}";
  const std::string length = std::to_string(body.size());
  body += bytes;
  return read_answer(body, length);
}

TEST(ReadAnswer, finds_the_bytes_of_each_output) {
  const auto answer =
      answered(R"({"name":"s","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
               R"({"name":"l","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2}})",
               "01234567ab");
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->version, "3");
  ASSERT_EQ(answer->outputs.size(), 2u);
  EXPECT_EQ(answer->outputs[0].bytes, "01234567");
  EXPECT_EQ(answer->outputs[1].bytes, "ab");
}

TEST(ReadAnswer, refuses_what_does_not_add_up) {
  const std::string form = R"({"name":"s","datatype":"FP32","shape":[2],"parameters":)";
  EXPECT_FALSE(answered(form + R"({"binary_data_size":8}})", "0123456").ok()) << "cut off";
  EXPECT_FALSE(answered(form + R"({"binary_data_size":8}})", "012345678").ok()) << "left over";
  EXPECT_FALSE(answered(form + R"({"binary_data_size":-8}})", "").ok());
  EXPECT_FALSE(answered(form + R"({}})", "").ok());
  EXPECT_FALSE(answered(R"({"name":"s","datatype":"FP32","shape":["x"]})", "").ok());
  EXPECT_FALSE(read_answer("{}", "").ok());
  EXPECT_FALSE(read_answer("{}", "3").ok());
  EXPECT_FALSE(read_answer("{}", "2x").ok());
  EXPECT_FALSE(read_answer("{}", "-1").ok());
  EXPECT_FALSE(read_answer("{}", "2").ok()) << "no outputs";
}

TEST(OutputFields, several_elements_are_numbered) {
  const auto fields = output_fields({{"label", "INT64", {5}},
                                     {"one", "FP64", {5, 1}},
                                     {"p", "FP32", {5, 2}},
                                     {"word", "BYTES", {5}},
                                     {"yes", "BOOL", {5}}},
                                    5);
  ASSERT_TRUE(fields.ok()) << fields.error().message;
  EXPECT_EQ(*fields, (std::vector<table::Field>{{"label", Type::kInt64},
                                                {"one", Type::kFloat64},
                                                {"p_0", Type::kFloat64},
                                                {"p_1", Type::kFloat64},
                                                {"word", Type::kString},
                                                {"yes", Type::kBool}}));
  EXPECT_FALSE(output_fields({{"p", "FP32", {4, 2}}}, 5).ok());
  EXPECT_FALSE(output_fields({{"p", "FP32", {}}}, 5).ok());
  EXPECT_FALSE(output_fields({{"p", "FP32", {5, -1}}}, 5).ok());
  EXPECT_FALSE(output_fields({{"p", "FP32", {5, 1 << 20, 1 << 20, 1 << 30}}}, 5).ok());
  EXPECT_FALSE(output_fields({{"p", "ODD", {5}}}, 5).ok());
}

template <class Number>
std::string packed(std::initializer_list<Number> numbers) {
  std::string bytes;
  for (const Number number : numbers) {
    char each[sizeof number];
    std::memcpy(each, &number, sizeof number);
    bytes.append(each, sizeof each);
  }
  return bytes;
}

// The one column that an output of `rows` rows becomes.
Result<table::Column> column_of(const std::string& datatype, std::int64_t rows,
                                const std::string& bytes) {
  const TensorForm form{"o", datatype, {rows}};
  std::vector<table::Column> columns;
  for (const table::Field& field : FALAJ_TRY(output_fields({form}, rows))) {
    columns.emplace_back(field.type);
  }
  FALAJ_TRY(append_outputs({{form, bytes}}, static_cast<std::size_t>(rows), columns));
  return columns[0];
}

TEST(AppendOutputs, every_type_keeps_its_value) {
  const float tenth = 0.1f;
  EXPECT_EQ(column_of("FP32", 1, packed({tenth})).value().doubles()[0], static_cast<double>(tenth));
  EXPECT_EQ(column_of("FP64", 1, packed({1e300})).value().doubles()[0], 1e300);
  EXPECT_EQ(column_of("INT8", 2, packed<std::int8_t>({-128, 127})).value().ints(),
            (std::vector<std::int64_t>{-128, 127}));
  EXPECT_EQ(
      column_of("INT64", 1, packed({std::numeric_limits<std::int64_t>::min()})).value().ints()[0],
      std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(column_of("UINT32", 1, packed<std::uint32_t>({4294967295u})).value().ints()[0],
            4294967295);
  EXPECT_EQ(column_of("BOOL", 2, std::string("\1\0", 2)).value().bools(),
            (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(column_of("BYTES", 2, std::string("\2\0\0\0ab\0\0\0\0", 10)).value().strings()[0],
            "ab");
  // One, a subnormal, minus infinity; and one as a brain float.
  const auto halves = column_of("FP16", 3, packed<std::uint16_t>({0x3C00, 0x0001, 0xFC00})).value();
  EXPECT_EQ(halves.doubles()[0], 1);
  EXPECT_EQ(halves.doubles()[1], std::ldexp(1, -24));
  EXPECT_EQ(halves.doubles()[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(column_of("BF16", 1, packed<std::uint16_t>({0x3F80})).value().doubles()[0], 1);
}

TEST(AppendOutputs, refuses_what_it_cannot_keep) {
  EXPECT_FALSE(column_of("UINT64", 1, packed({~std::uint64_t{0}})).ok()) << "beyond int64";
  EXPECT_FALSE(column_of("FP32", 2, packed({0.1f})).ok()) << "cut off";
  EXPECT_FALSE(column_of("FP32", 1, packed({0.1f, 0.2f})).ok()) << "too long";
  EXPECT_FALSE(column_of("BYTES", 1, std::string("\5\0\0\0ab", 6)).ok());
  EXPECT_FALSE(column_of("BYTES", 1, std::string("\5\0", 2)).ok());
  EXPECT_FALSE(column_of("BYTES", 1, std::string("\1\0\0\0\xff", 5)).ok()) << "no text";
}

TEST(AppendOutputs, an_answer_of_another_form_than_before_is_refused) {
  std::vector<table::Column> columns{table::Column(Type::kFloat64)};
  const std::string two = packed({0.1f, 0.2f});
  EXPECT_TRUE(append_outputs({{{"o", "FP32", {2}}, two}}, 2, columns).ok());
  EXPECT_FALSE(append_outputs({{{"o", "FP32", {1, 2}}, two}}, 1, columns).ok());
  EXPECT_FALSE(append_outputs({{{"o", "INT32", {2}}, two}}, 2, columns).ok());
  EXPECT_FALSE(append_outputs({}, 2, columns).ok());
}

TEST(TogetherOf, only_where_every_first_dimension_is_open) {
  EXPECT_EQ(together_of({{"i", "FP32", {-1, 2}}}, {{"o", "FP32", {-1}}}), Together::kYes);
  EXPECT_EQ(together_of({{"i", "FP32", {1, 2}}}, {{"o", "FP32", {-1}}}), Together::kNo);
  EXPECT_EQ(together_of({{"i", "FP32", {-1, 2}}}, {{"o", "FP32", {1}}}), Together::kNo);
}

}  // namespace
}  // namespace falaj::cli::batch
