// onnx/optimize/edit.h — the bytes of a model.onnx with some of its nodes and constants exchanged.
//
// Everything that is not touched is copied as it stands: names, shapes, metadata, nodes that are
// not known here. The bytes are foreign: every length is checked, memory is in proportion to them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace falaj::onnx {

// TensorProto.DataType, those that are written here.
inline constexpr std::int64_t kUint8 = 2;
inline constexpr std::int64_t kInt8 = 3;
inline constexpr std::int64_t kInt32 = 6;
inline constexpr std::int64_t kHalf = 10;

struct FloatTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// A node to be written.
struct NewNode {
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, std::int64_t>> integers = {};  // Attributes.
  std::vector<std::string> attributes = {};                         // As AttributeProto bytes.
};

// Not thread-safe; views point into the bytes that were read.
class ModelEdit {
 public:
  struct Node {
    std::string_view name;
    std::string_view op;
    std::string_view domain;
    std::vector<std::string_view> inputs;
    std::vector<std::string_view> outputs;
    std::vector<std::string_view> attributes;  // AttributeProto bytes; whole ones.
    // For a person: the name, or that of the first output.
    std::string title() const;
    // Of the default domain.
    bool is(std::string_view wanted) const;
    std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
    float number(std::string_view attribute, float fallback) const;
  };

  // FJ-5002 when the bytes are damaged, hold no graph or two, or over a hundred thousand nodes.
  static Result<ModelEdit> read(std::string_view bytes);

  std::span<const Node> nodes() const { return nodes_; }
  // The version of the default operators; 0 when the model names none.
  std::int64_t opset() const { return opset_; }
  // The names of float constants that no caller can replace, in the order of the file.
  std::vector<std::string> float_constants() const;
  // A constant of floats inside the file that no caller can replace; nullopt for anything else.
  // FJ-5002 when it has another number of values than its shape says.
  Result<std::optional<FloatTensor>> floats(std::string_view name) const;
  // Bytes that the constant takes in the file; 0 for none.
  std::size_t constant_bytes(std::string_view name) const;
  // How many nodes read the value; an output of the graph counts as one more.
  std::size_t uses(std::string_view name) const;
  // Whether a node holds a graph of its own, which may read any value of this one.
  bool has_nested() const { return nested_; }
  bool is_output(std::string_view name) const { return outputs_.contains(name); }

  // `with` stands where the node stood. Its outputs must be produced by one of them.
  void replace(std::size_t node, std::vector<NewNode> with);
  // Before every other node.
  void put_first(NewNode node);
  // Gives the node's NodeProto bytes directly.
  void replace_bytes(std::size_t node, std::string bytes);
  // A new constant under a name that is not in use yet, made from `stem`.
  std::string add_constant(std::string_view stem, std::int64_t element,
                           std::span<const std::int64_t> shape, std::string_view raw);
  // Takes away a constant; the name is free for a node or for put_constant.
  void drop_constant(std::string_view name);
  // Takes the place of one that was put or added under this name before.
  void put_constant(std::string_view name, std::int64_t element,
                    std::span<const std::int64_t> shape, std::string_view raw);
  // Forgets the noted shapes of values between nodes, for who changes them; runtimes find them.
  void forget_shapes() { shapes_ = false; }
  // One more output of the graph, of floats, with this value; its name is a fresh one.
  void show(std::string_view value);
  // A name that is not in use yet.
  std::string fresh(std::string_view stem);

  // The new bytes. Constants that nothing reads any more are left out, unless a nested graph may.
  std::string finish() const;

 private:
  struct Constant {
    std::int64_t element = 0;
    std::vector<std::int64_t> shape;
    std::string_view bytes;           // TensorProto.
    std::optional<std::size_t> node;  // Of the Constant node that holds it.
  };
  Status read_graph(std::string_view graph);
  Status read_node(std::string_view bytes);
  Status read_constant(std::string_view bytes, std::optional<std::size_t> node,
                       std::string_view name);
  std::string graph_bytes() const;
  std::set<std::string_view> used_names() const;

  std::string_view model_;
  std::string_view graph_;
  std::int64_t opset_ = 0;
  bool nested_ = false;  // Some node holds a graph of its own.
  std::vector<Node> nodes_;
  std::vector<std::string_view> node_bytes_;
  std::map<std::string_view, Constant> constants_;
  std::vector<std::string_view> constant_order_;
  std::set<std::string_view> inputs_;
  std::set<std::string_view> outputs_;
  std::set<std::string, std::less<>> names_;
  std::map<std::string_view, std::size_t> uses_;

  bool shapes_ = true;
  std::vector<NewNode> first_;
  std::vector<NewNode> last_;
  std::map<std::size_t, std::vector<NewNode>> replaced_;
  std::map<std::size_t, std::string> replaced_bytes_;
  std::set<std::string, std::less<>> dropped_;
  std::vector<std::pair<std::string, std::string>> added_;  // Name, TensorProto.
};

}  // namespace falaj::onnx
