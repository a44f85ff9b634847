// onnx/internal/tree_node.h — a tree ensemble as the bytes of its one node.
#pragma once

#include <string>
#include <string_view>

#include "onnx/trees.h"

namespace falaj::onnx {

struct TreeNodeNames {
  std::string_view node = "trees";
  std::string_view input = "input";
  std::string_view label = "label";  // Of a classifier.
  std::string_view scores;
};
// NodeProto.
std::string tree_node(const Trees& trees, const TreeNodeNames& names);

}  // namespace falaj::onnx
