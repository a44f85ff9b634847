// cli/import/triton_config.h — what of a Triton model's config.pbtxt has a meaning here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace falaj::cli {

struct TritonTensor {
  std::string name;
  std::string datatype;             // "FP32"; BYTES for TYPE_STRING.
  std::vector<std::int64_t> shape;  // With the dimension of rows that max_batch_size implies.
  std::string label_file;           // "": none.
};

struct TritonConfig {
  std::string name;  // "": the folder's.
  std::vector<TritonTensor> inputs;
  std::vector<TritonTensor> outputs;
  std::string file = "model.onnx";  // In each version's folder.
  // Which versions are served. kLatest: the `latest` highest.
  enum class Policy : std::uint8_t { kLatest, kAll, kSpecific } policy = Policy::kLatest;
  std::int64_t latest = 1;
  std::vector<std::int64_t> versions;  // Of kSpecific.
  bool cached = false;                 // response_cache { enable: true }
  // Fields that change no answer and are not taken over, with why: "instance_group: …".
  std::vector<std::string> left_out;
};

// FJ-1002 and the like when the text cannot be read. kInvalidArgument names everything that would
// change answers and is not supported: another backend, ensembles, sequences, reshapes, optional
// inputs, decoupled models, and fields that are not known.
Result<TritonConfig> read_triton_config(std::string_view text);

// Whether a registered version takes and gives what the config says: `signature` as the server
// tells it ({"inputs": [{name, datatype, shape}], "outputs": …}). FJ-5004 naming the tensor.
// Tensors that the config does not name are not looked at.
Status check_signature(const TritonConfig& config, const Value& signature);

// The label of each class, one a line, as Triton's label_filename has them. 100,000 at most, each
// of 256 bytes at most (FJ-1006).
Result<std::vector<std::string>> read_labels(std::string_view text);

}  // namespace falaj::cli
