// The test program is also its own training process, as the real program is: `engine train`
// trains, with our own walk over the exported arrays in the place of ONNX Runtime.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/json.h"
#include "training/engine_process.h"
#include "training/testing/samples.h"

namespace falaj::training::testing {
namespace {

int train() {
  const auto open = [](Descriptor file, const std::string&) {
    return open_descriptor(std::move(file));
  };
  const Status status = run_engine_process(open, walking_runner(), [](const Value& report) {
    const std::string line = to_json(report) + "\n";
    if (::write(3, line.data(), line.size()) < 0) std::perror("report");
  });
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace falaj::training::testing

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "engine" && std::string_view(argv[2]) == "train") {
    return falaj::training::testing::train();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
