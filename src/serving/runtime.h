// serving/runtime.h — what can run a model: the port in front of ONNX Runtime and of libraries of
// others (plugin/plugin_runtime.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "registry/models.h"

namespace falaj::serving {

// A tensor with its own bytes; little-endian, row-major. Of BYTES they are packed
// (serving/packed_texts.h).
struct Tensor {
  std::string name;
  std::string datatype;  // "FP32", "FP64", "INT64", "INT32", "BOOL", …
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// Tells exactly what each feature of a row added to its score. Thread-safe.
class RowExplainer {
 public:
  // Whether the score is the logistic of what is explained, or is that itself.
  enum class Scale : std::uint8_t { kLogOdds, kSum };

  virtual ~RowExplainer() = default;
  virtual Scale scale() const = 0;
  virtual std::size_t explained_features() const = 0;
  virtual std::size_t explained_column() const = 0;  // Of the output of floats.
  virtual double base() const = 0;                   // With nothing known of a row.
  // As CompiledTrees::explain (trees/compiled_trees.h).
  virtual Status explain(std::span<const float> row, std::span<double> contributions,
                         const std::function<bool()>& late) const = 0;
};

// A loaded model. run() is thread-safe.
class Session {
 public:
  virtual ~Session() = default;
  virtual const registry::Signature& signature() const = 0;
  // All outputs in signature order. FJ-5004 names the tensor that does not fit.
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const = 0;
  // The short cut for one float input of shape [rows, columns]: the score per row (last column of
  // the float output, or its only one). No allocation beyond `scores` on the hot path.
  virtual Status score(std::span<const float> matrix, std::size_t columns,
                       std::vector<float>& scores) const = 0;
  // For rows of its one input of floats; lives as long as the session. Null: not for this model.
  virtual const RowExplainer* explainer() const { return nullptr; }
  // Whether a call may wait for something else than the processor: then not on an event loop.
  virtual bool may_wait() const { return false; }
};

struct RuntimeOptions {
  std::string library;   // libonnxruntime.so.1, with its path.
  unsigned threads = 1;  // That run one request. ONNX Runtime's are a pool for all models.
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  // From memory: what was hashed is what is loaded. The bytes are not kept. FJ-5002 when they are
  // no valid model.
  virtual Result<std::unique_ptr<Session>> load_bytes(std::string_view model) = 0;
  virtual std::string version() const = 0;
};

// Opens the library by its C ABI. FJ-5005 with the path when it cannot.
Result<std::unique_ptr<Runtime>> open_onnx_runtime(const RuntimeOptions& options);

// One that is opened at the first load: keeps start under its budget. Tries again at each load
// while it cannot be opened: it may be installed meanwhile.
using OpenRuntime = Result<std::unique_ptr<Runtime>> (*)(const RuntimeOptions& options);
std::unique_ptr<Runtime> lazy_runtime(OpenRuntime open, const RuntimeOptions& options);

}  // namespace falaj::serving
