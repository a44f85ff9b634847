// onnx/optimize/optimized.h — what was made of a model, and what was not.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace falaj::onnx {

struct NodeChange {
  std::string node;  // Its name, or that of its first output.
  std::string op;
  std::string what;              // "int8, 64 channels"
  std::size_t bytes_before = 0;  // Of its weights in the file.
  std::size_t bytes_after = 0;
};

// A node that could have been, and why it was left as it is.
struct NodeLeft {
  std::string node;
  std::string op;
  std::string why;
};

// With no change, the bytes are those that were given.
struct Optimized {
  std::string bytes;
  std::vector<NodeChange> changed;
  std::vector<NodeLeft> left;
};

}  // namespace falaj::onnx
