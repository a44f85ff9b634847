// The test program is also its own training process, as the real program is: `engine train FOLDER`
// trains there, with our own walk over the exported arrays in the place of ONNX Runtime.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/json.h"
#include "training/testing/samples.h"

namespace falaj::training::testing {
namespace {

int train(const char* folder) {
  const Status status = run_engine(folder, walking_runner(), [](const Value& report) {
    const std::string line = to_json(report) + "\n";
    if (::write(3, line.data(), line.size()) < 0) std::perror("report");
  });
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace falaj::training::testing

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "engine" && std::string_view(argv[2]) == "train") {
    return falaj::training::testing::train(argv[3]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
