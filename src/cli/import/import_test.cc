#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "cli/import/models_import.h"
#include "cli/import/pbtxt.h"

namespace falaj::cli {
namespace {

namespace fs = std::filesystem;

std::string json_of(std::string_view text) {
  const auto parsed = parse_pbtxt(text);
  return parsed.ok() ? to_json(*parsed) : parsed.error().message;
}

TEST(Pbtxt, reads_every_form_of_a_value) {
  EXPECT_EQ(json_of("a: 1 a: -0x10, b: 017; c: 1.5e1f # a comment\nd: true e: KIND_CPU"),
            R"({"a":[1,-16],"b":[15],"c":[15.0],"d":[true],"e":["KIND_CPU"]})");
  EXPECT_EQ(json_of("a { b: [ 1, 2 ] } a < c: 'x' > d: { } e: []"),
            R"({"a":[{"b":[1,2]},{"c":["x"]}],"d":[{}],"e":[]})");
  EXPECT_EQ(json_of(R"(a: "two " 'pieces' "\x41\102\n\"")"), R"({"a":["two piecesAB\n\""]})");
  EXPECT_EQ(json_of("a: [ { b: 1 }, { b: 2 } ]"), R"({"a":[{"b":[1]},{"b":[2]}]})");
  EXPECT_EQ(json_of("a: -9223372036854775808"), R"({"a":[-9223372036854775808]})");
  EXPECT_EQ(json_of(""), "{}");
}

TEST(Pbtxt, says_where_it_cannot_be_read) {
  EXPECT_EQ(json_of("a: 1\nb 2"), "line 2: 'b' has neither ':' nor a message");
  EXPECT_EQ(json_of("a {\n"), "line 2: a message is not closed with '}'");
  EXPECT_EQ(json_of("a: \"x"), "line 1: a text is not closed");
  EXPECT_EQ(json_of("a: 1.2.3"), "line 1: '1.2.3' is no number");
  EXPECT_EQ(json_of("a: 09"), "line 1: '09' is no number");
  EXPECT_EQ(json_of("a: [1 2]"), "line 1: a list goes on with ',' or ends with ']'");
  EXPECT_EQ(json_of("[x.y]: 1"), "line 1: names of extensions are not read");
  EXPECT_EQ(json_of("a: '\\q'"), "line 1: unknown escape '\\q'");
  EXPECT_EQ(json_of("}"), "line 1: the name of a field is missing");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "a{";
  EXPECT_EQ(parse_pbtxt(deep).error().id, ErrorId::kTooDeep);
  EXPECT_EQ(parse_pbtxt(std::string(kPbtxtBytesMax + 1, ' ')).error().id, ErrorId::kBodyTooLarge);
}

constexpr std::string_view kFlowers = R"(
name: "flowers"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" } ]
instance_group [ { kind: KIND_CPU } ]
response_cache { enable: true }
)";

TEST(TritonConfig, takes_what_has_a_meaning_here) {
  const auto config = read_triton_config(kFlowers);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->name, "flowers");
  EXPECT_EQ(config->inputs.at(0).shape, (std::vector<std::int64_t>{-1, 4}));
  EXPECT_EQ(config->outputs.at(0).label_file, "labels.txt");
  EXPECT_EQ(config->policy, TritonConfig::Policy::kLatest);
  EXPECT_TRUE(config->cached);
  EXPECT_EQ(config->left_out,
            std::vector<std::string>{"instance_group: the server's threads serve all models"});
}

TEST(TritonConfig, names_everything_that_would_change_answers) {
  const auto refused = read_triton_config(R"(
platform: "pytorch_libtorch"
input { name: "x" data_type: TYPE_ODD dims: 1 reshape { shape: [ 1, 1 ] } optional: true }
output { name: "y" data_type: TYPE_FP32 is_shape_tensor: false }
sequence_batching { } ensemble_scheduling { } model_transaction_policy { decoupled: true })");
  ASSERT_FALSE(refused.ok());
  for (const char* what : {"platform 'pytorch_libtorch'", "input 'x' data_type 'TYPE_ODD'",
                           "input 'x' reshape", "input 'x' optional", "sequence_batching",
                           "ensemble_scheduling", "model_transaction_policy"}) {
    EXPECT_NE(refused.error().message.find(what), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(refused.error().message.find("is_shape_tensor"), std::string::npos);
}

TEST(TritonConfig, is_held_against_the_model) {
  const auto config = read_triton_config(kFlowers).value();
  Value signature = parse_json(R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,4]}],
                     "outputs":[{"name":"y","datatype":"FP32","shape":[-1,-1]}]})")
                        .value();
  EXPECT_TRUE(check_signature(config, signature).ok());
  signature["inputs"] = parse_json(R"([{"name":"x","datatype":"FP32","shape":[-1,5]}])").value();
  EXPECT_EQ(check_signature(config, signature).error().message,
            "config.pbtxt says input 'x' FP32[-1,4], but the model has FP32[-1,5]");
  signature["inputs"] = Value::array();
  EXPECT_EQ(check_signature(config, signature).error().id, ErrorId::kTensorMismatch);
}

TEST(TritonLabels, are_one_a_line) {
  EXPECT_EQ(read_labels("a\r\nb\n\nc").value(), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_TRUE(read_labels("").value().empty());
  EXPECT_EQ(read_labels(std::string(257, 'x')).error().id, ErrorId::kOutOfRange);
}

class ModelFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = (fs::temp_directory_path() / "falaj-import-XXXXXX").string();
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = made;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, std::string_view text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  Result<std::vector<FoundModel>> find(const std::string& name = "") const {
    return find_models((folder_ / name).string());
  }
  static std::vector<std::int64_t> versions(const FoundModel& found) {
    std::vector<std::int64_t> numbers;
    for (const auto& file : found.files) numbers.push_back(file.theirs);
    return numbers;
  }

  fs::path folder_;
};

TEST_F(ModelFolders, a_triton_model_has_the_versions_that_its_policy_serves) {
  for (const char* version : {"1", "2", "10", "03", "draft"}) {
    write(std::string("m/") + version + "/model.onnx", "x");
  }
  EXPECT_EQ(versions(find("m")->at(0)), std::vector<std::int64_t>{10}) << "no config: the latest";
  EXPECT_EQ(find("m")->at(0).name, "m");
  write("m/labels.txt", "rose\ntulip\n");
  write("m/config.pbtxt", kFlowers);
  const auto found = find("m");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->at(0).name, "flowers");
  EXPECT_EQ(found->at(0).labels.at("y"), (std::vector<std::string>{"rose", "tulip"}));
  write("m/config.pbtxt", "version_policy { latest { num_versions: 2 } }");
  EXPECT_EQ(versions(find("m")->at(0)), (std::vector<std::int64_t>{2, 10}));
  write("m/config.pbtxt", "version_policy { all { } }");
  EXPECT_EQ(versions(find("m")->at(0)), (std::vector<std::int64_t>{1, 2, 10}));
  write("m/config.pbtxt", "version_policy { specific { versions: [ 1, 7 ] } }");
  EXPECT_EQ(versions(find("m")->at(0)), std::vector<std::int64_t>{1});
  write("m/config.pbtxt", "version_policy { specific { versions: 7 } }");
  EXPECT_FALSE(find("m").ok());
}

TEST_F(ModelFolders, a_repository_is_all_of_its_models) {
  write("a/1/model.onnx", "x");
  write("b/config.pbtxt", "default_model_filename: 'net.onnx'");
  write("b/4/net.onnx", "x");
  write("notes/readme.txt", "none");
  const auto found = find();
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ(found->at(1).name, "b");
  EXPECT_TRUE(found->at(1).files.at(0).path.ends_with("b/4/net.onnx"));
  EXPECT_FALSE(find("notes").ok());
}

TEST_F(ModelFolders, names_no_file_outside) {
  write("secret", "x");
  write("m/1/model.onnx", "x");
  write("m/config.pbtxt", "output { name: 'y' data_type: TYPE_FP32 label_filename: '../secret' }");
  EXPECT_EQ(find("m").error().message, "label_filename '../secret' does not lie in the folder");
  write("m/config.pbtxt", "default_model_filename: '/etc/passwd'");
  EXPECT_FALSE(find("m").ok());
}

TEST_F(ModelFolders, mlflow_tells_the_file_of_its_flavor) {
  write("saved/MLmodel", "flavors:\n  onnx: {data: model.onnx}\n  python_function: {env: e}\n");
  write("saved/model.onnx", "x");
  const auto found = find("saved");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->at(0).files.at(0).path.ends_with("saved/model.onnx"));
  EXPECT_EQ(mlflow_file("flavors: {lightgbm: {data: model.lgb}}").value(), "model.lgb");
  EXPECT_EQ(mlflow_file("flavors: {sklearn: {}, python_function: {}}").error().message,
            "MLmodel: of the flavors onnx, lightgbm and xgboost it has none, but python_function, "
            "sklearn");
  EXPECT_FALSE(mlflow_file("flavors: {onnx: {data: ../model.onnx}}").ok());
  EXPECT_FALSE(mlflow_file("").ok());
}

TEST(ImportedDeployment, has_the_labels_and_the_cache) {
  FoundModel found;
  found.config = read_triton_config(kFlowers).value();
  found.labels["y"] = {"rose", "tulip"};
  found.name = "flowers";
  EXPECT_EQ(to_json(deployment_of(found, "shop")),
            R"({"apiVersion":"falaj.dev/v1","kind":"Deployment","metadata":{"name":"flowers",)"
            R"("project":"shop"},"spec":{"alias":"champion",)"
            R"("cache":{"bytes":"64Mi"},"labels":{"y":["rose","tulip"]},"model":"flowers"}})");
}

}  // namespace
}  // namespace falaj::cli
