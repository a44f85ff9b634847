// Whatever the bytes: no crash, and what a rewriter gives can be read again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "onnx/optimize/edit.h"
#include "onnx/optimize/fp16.h"
#include "onnx/optimize/int8.h"
#include "onnx/optimize/prune.h"
#include "onnx/optimize/static_int8.h"
#include "onnx/optimize/trim.h"

namespace {

void check(const falaj::Result<falaj::onnx::Optimized>& made) {
  if (made.ok()) FALAJ_CHECK(falaj::onnx::ModelEdit::read(made->bytes).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  const Result<onnx::ModelEdit> edit = onnx::ModelEdit::read(model);
  if (edit.ok()) FALAJ_CHECK(onnx::ModelEdit::read(edit->finish()).ok());
  check(onnx::dynamic_int8(model, {1}));
  check(onnx::half_weights(model, {1}));
  check(onnx::prune_units(model, 0.5));
  check(onnx::prune_weights(model, 0.5));
  const Result<onnx::Watched> watched = onnx::watch_ranges(model, {1});
  if (watched.ok()) {
    onnx::Ranges ranges;
    for (const std::string& value : watched->values) ranges[value] = {-1, 2};
    check(onnx::static_int8(model, ranges, {1}));
  }
  const Result<onnx::Trees> trees = onnx::read_trees(model);
  if (!trees.ok() || !onnx::check_forest(*trees).ok()) return 0;
  const onnx::Trees merged = onnx::merge_leaves(onnx::first_trees(*trees, 1), 0.5F);
  FALAJ_CHECK(onnx::check_forest(merged).ok());
  check(onnx::with_trees(model, merged));
  return 0;
}
