// The test program as the process of a model, for isolated_runtime_test.cc: "word-process LANES".
// Its models are words: "double" doubles the one input, every other word is a fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "serving/isolated/model_process.h"
#include "serving/testing/held_session.h"

namespace falaj::serving {
namespace {

class WordSession final : public Session {
 public:
  explicit WordSession(std::string word) : word_(std::move(word)) {}
  const registry::Signature& signature() const override { return signature_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    const float value = testing::value_of(inputs[0]);
    if (value < 0) return Error(ErrorId::kTensorMismatch, "below zero");
    if (value == 13) misbehave();
    Tensor output = testing::row(2 * value);
    output.name = std::string(1, word_ == "lie" ? 'z' : 'y');
    return std::vector<Tensor>{std::move(output)};
  }
  Status score(std::span<const float> matrix, std::size_t,
               std::vector<float>& scores) const override {
    if (word_ == "lie") return {};
    for (const float each : matrix) scores.push_back(2 * each);
    return {};
  }

 private:
  void misbehave() const {
    if (word_ == "crash") std::abort();
    if (word_ == "quit") std::_Exit(7);
    while (word_ == "hang") ::pause();
    while (word_ == "leak") std::memset(std::malloc(1 << 20), 1, 1 << 20);
  }

  const std::string word_;
  registry::Signature signature_{{{"x", "FP32", {-1, 1}}}, {{"y", "FP32", {-1, 1}}}, {}};
};

class WordRuntime final : public Runtime {
 public:
  Result<std::unique_ptr<Session>> load_bytes(std::string_view model) override {
    if (model == "none") return Error(ErrorId::kModelCorrupt, "no word of mine");
    if (model == "stillborn") std::_Exit(9);
    while (model == "slow") ::pause();
    return std::unique_ptr<Session>(std::make_unique<WordSession>(std::string(model)));
  }
  std::string version() const override { return "words"; }
};

void tell(const Value& value) {
  const std::string line = to_json(value) + "\n";
  if (::write(3, line.data(), line.size()) < 0) std::_Exit(1);
}

}  // namespace
}  // namespace falaj::serving

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "word-process") {
    falaj::serving::WordRuntime runtime;
    const auto lanes = static_cast<unsigned>(std::atoi(argv[2]));
    const auto ran =
        falaj::serving::isolated::run_model_process(runtime, lanes, falaj::serving::tell);
    return ran.ok() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
