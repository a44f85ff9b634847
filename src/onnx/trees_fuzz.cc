// Whatever the bytes: no crash, and trees that are accepted survive a round trip through the writer
// and never lead a walk out of their arrays.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "onnx/walker.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  const Result<onnx::Trees> trees = onnx::read_trees({reinterpret_cast<const char*>(data), size});
  if (!trees.ok()) return 0;
  const bool targets = trees->targets > 0 && trees->targets < (1 << 24);
  if (targets) {
    const std::string written = onnx::write_trees(*trees, {});
    const Result<onnx::Trees> again = onnx::read_trees(written);
    FALAJ_CHECK(again.ok());
    FALAJ_CHECK(onnx::write_trees(*again, {}) == written);
  }
  const Result<onnx::Walker> walker = onnx::Walker::build(*trees);
  if (!walker.ok() || trees->features > 1'000) return 0;
  const std::vector<float> row(trees->features, 0.25f);
  for (std::size_t tree = 0; tree < walker->trees(); ++tree) (void)walker->leaf(tree, row);
  return 0;
}
