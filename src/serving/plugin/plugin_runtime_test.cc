#include "serving/plugin/plugin_runtime.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "storage/testing/temp_folder.h"

namespace falaj::serving {
namespace {

// A copy in a folder that is ours alone, whatever the umask of the build was. Never removed while
// the process runs: what was opened stays open.
std::string library(const std::string& path) {
  static const storage::TempFolder folder;
  std::string copy = folder / std::filesystem::path(path).filename().string();
  std::filesystem::copy_file(path, copy, std::filesystem::copy_options::skip_existing);
  EXPECT_EQ(::chmod(copy.c_str(), 0755), 0);
  return copy;
}

std::string built(const std::string& name) { return library(FALAJ_TEST_RUNTIMES + name); }

std::unique_ptr<Runtime> sum_runtime() {
  return open_plugin_runtime({built("sum_runtime.so"), 1}).value();
}

Tensor floats(std::string name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  Tensor tensor{std::move(name), "FP32", std::move(shape), {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::string why_unavailable(const std::string& path) {
  const auto runtime = open_plugin_runtime({path, 1});
  if (runtime.ok()) return "opened";
  EXPECT_EQ(runtime.error().id, ErrorId::kRuntimeUnavailable);
  EXPECT_NE(runtime.error().message.find(path), std::string::npos) << runtime.error().message;
  return runtime.error().message;
}

TEST(PluginRuntime, runs_what_the_library_runs) {
  const auto runtime = sum_runtime();
  EXPECT_EQ(runtime->version(), "sum 1.0");
  const auto session = runtime->load_bytes("sum").value();
  EXPECT_EQ(session->signature().inputs,
            (std::vector<registry::TensorSpec>{{"x", "FP32", {-1, 3}}}));
  const Tensor input = floats("x", {2, 3}, {1, 2, 3, 10, 20, 30});
  const std::vector<Tensor> answer = session->run({&input, 1}).value();
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].name, "sum");
  EXPECT_EQ(answer[0].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(answer[0].bytes, floats("", {}, {6, 60}).bytes);
}

TEST(PluginRuntime, runs_no_rows_and_more_than_one_bulk) {
  const auto session = sum_runtime()->load_bytes("sum").value();
  const Tensor none = floats("x", {0, 3}, {});
  EXPECT_TRUE(session->run({&none, 1}).value()[0].bytes.empty());
  std::vector<float> matrix;
  std::vector<float> expected;
  for (int row = 0; row < 10'000; ++row) {
    matrix.insert(matrix.end(), {static_cast<float>(row), 1, 1});
    expected.push_back(static_cast<float>(row + 2));
  }
  std::vector<float> scores;
  ASSERT_TRUE(session->score(matrix, 3, scores).ok());
  EXPECT_EQ(scores, expected);
  EXPECT_EQ(session->score(matrix, 4, scores).error().id, ErrorId::kTensorMismatch);
}

TEST(PluginRuntime, refuses_what_does_not_fit_before_the_library_sees_it) {
  const auto session = sum_runtime()->load_bytes("sum").value();
  const Tensor narrow = floats("x", {1, 2}, {1, 2});
  const Tensor lying = floats("x", {2, 3}, {1, 2, 3});
  const Tensor other = floats("y", {1, 3}, {1, 2, 3});
  for (const Tensor* each : {&narrow, &lying, &other}) {
    const auto answer = session->run({each, 1});
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().id, ErrorId::kTensorMismatch);
  }
  EXPECT_EQ(session->run({}).error().id, ErrorId::kTensorMismatch);
}

TEST(PluginRuntime, tells_why_a_model_is_not_loaded) {
  const auto runtime = sum_runtime();
  const std::pair<const char*, const char*> cases[] = {
      {"", "no word of mine"},     {"unsaid", "xxx"},       {"shy", "I do not tell"},
      {"texts", "'x' is 'BYTES'"}, {"deep", "has no form"}, {"no-inputs", "no inputs"},
      {"crowd", "or too many"},
  };
  for (const auto& [word, why] : cases) {
    const auto session = runtime->load_bytes(word);
    ASSERT_FALSE(session.ok()) << word;
    EXPECT_EQ(session.error().id, ErrorId::kModelCorrupt) << word;
    EXPECT_NE(session.error().message.find(why), std::string::npos) << session.error().message;
  }
  EXPECT_EQ(runtime->load_bytes("endless").value()->signature().inputs[0].name,
            std::string(256, 'n'));
}

TEST(PluginRuntime, believes_no_answer_that_is_not_as_declared) {
  const auto runtime = sum_runtime();
  const std::pair<const char*, const char*> cases[] = {
      {"fails", "I will not"},   {"silent", "'sum' was not given"}, {"short", "other bytes"},
      {"typed", "is not FP32"},  {"nothing", "is no tensor"},       {"ranked", "is no tensor"},
      {"twice", "more outputs"},
  };
  for (const auto& [word, why] : cases) {
    const auto session = runtime->load_bytes(word);  // One row warms it: there it shows.
    ASSERT_FALSE(session.ok()) << word;
    EXPECT_EQ(session.error().id, ErrorId::kInternal) << word;
    EXPECT_NE(session.error().message.find(why), std::string::npos) << session.error().message;
  }
}

TEST(PluginRuntime, keeps_rows_of_many_threads_apart) {
  const auto session = sum_runtime()->load_bytes("sum").value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> scores;
      for (int i = 0; i < 500; ++i) {
        const float row[3] = {static_cast<float>(t * 1000), static_cast<float>(i), 0};
        if (!session->score(row, 3, scores).ok() || scores[0] != row[0] + row[1]) ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PluginRuntime, opens_only_what_speaks_its_language) {
  EXPECT_NE(why_unavailable(built("next_runtime.so")).find("version 2"), std::string::npos);
  EXPECT_NE(why_unavailable(built("half_runtime.so")).find("leaves out"), std::string::npos);
  EXPECT_NE(why_unavailable(library(FALAJ_TEST_LIBS "libonnxruntime.so.1")).find("falaj_runtime"),
            std::string::npos);
  EXPECT_NE(why_unavailable("/nowhere/lib.so").find("No such file"), std::string::npos);
}

TEST(PluginRuntime, opens_nothing_that_others_may_write) {
  const storage::TempFolder folder;
  const std::string copy = folder / "copy.so";
  std::filesystem::copy_file(built("sum_runtime.so"), copy);
  ASSERT_EQ(::chmod(copy.c_str(), 0666), 0);
  EXPECT_NE(why_unavailable(copy).find("chmod go-w " + copy), std::string::npos);
  ASSERT_EQ(::chmod(copy.c_str(), 0644), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_NE(why_unavailable(copy).find("others may write"), std::string::npos);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
  EXPECT_EQ(why_unavailable(copy), "opened");
}

TEST(RuntimesSetting, names_libraries) {
  EXPECT_TRUE(runtimes_of("").value().empty());
  const std::map<std::string, std::string> two{{"openvino", "/opt/a.so"}, {"b", "/opt/b=1.so"}};
  EXPECT_EQ(runtimes_of("openvino=/opt/a.so:b=/opt/b=1.so").value(), two);
  for (const char* const text :
       {"openvino", "=/a.so", "a=b.so", "a=", ":", "A b=/x", "a=/x:a=/y"}) {
    const auto named = runtimes_of(text);
    ASSERT_FALSE(named.ok()) << text;
    EXPECT_NE(named.error().message.find("serving.runtimes"), std::string::npos);
  }
}

}  // namespace
}  // namespace falaj::serving
