#include "onnx/foreign.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_set>
#include <vector>

#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

constexpr std::size_t kDepthMax = 16;  // Graphs inside nodes of graphs.
constexpr std::size_t kNodesMax = 100'000;
constexpr std::size_t kTensorsMax = 100'000;
constexpr std::size_t kNameBytesMax = 4'096;
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kFixed32 = 5;

Error refused(std::string what) {
  return Error{ErrorId::kModelFormatRefused, "the ONNX file is refused: " + std::move(what)};
}

// A field's number, how it stands on the wire, and whether a packed list may replace single values.
struct Known {
  std::uint32_t number;
  std::uint32_t type;
};

Status expect_known(const WireField& field, std::initializer_list<Known> known,
                    const char* message) {
  for (const Known& each : known) {
    if (each.number == field.number && (each.type == field.type || field.type == kBytes)) return {};
  }
  return refused("field " + std::to_string(field.number) + " is not one that ONNX defines for " +
                 message);
}

// "name" → "'name'", cut and without control characters: foreign text in our message.
std::string shown(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 64)) out += c >= ' ' && c < 0x7f ? c : '?';
  return out + (text.size() > 64 ? "…'" : "'");
}

// Bytes of one element of a TensorProto.DataType; 0: not one that is accepted. Strings have none.
std::uint64_t element_bytes(std::uint64_t type) {
  switch (type) {
    case 1:   // float
    case 6:   // int32
    case 12:  // uint32
      return 4;
    case 2:  // uint8
    case 3:  // int8
    case 9:  // bool
      return 1;
    case 4:   // uint16
    case 5:   // int16
    case 10:  // float16
    case 16:  // bfloat16
      return 2;
    case 7:   // int64
    case 11:  // double
    case 13:  // uint64
      return 8;
    default:
      return 0;
  }
}

using Names = std::unordered_set<std::string_view>;

class Checker {
 public:
  explicit Checker(std::size_t file_bytes) : file_bytes_(file_bytes) {}

  Status model(std::string_view bytes);
  const ForeignModel& found() const { return found_; }
  bool has_graph() const { return graphs_ > 0; }

 private:
  Status opset(std::string_view bytes);
  Status graph(std::string_view bytes, const std::vector<const Names*>& outer);
  Status value_info(std::string_view bytes, std::string_view& name);
  Status node(std::string_view bytes, Names& computed, const std::vector<const Names*>& outer);
  Status attribute(std::string_view bytes, std::vector<std::string_view>& graphs);
  Status tensor(std::string_view bytes, std::string_view& name);
  Status sparse(std::string_view bytes, std::string_view& name);

  std::size_t file_bytes_;
  std::size_t graphs_ = 0;
  ForeignModel found_;
};

bool standard_domain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "ai.onnx.ml";
}

Status Checker::model(std::string_view bytes) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field,
                           {{1, kVarint},
                            {2, kBytes},
                            {3, kBytes},
                            {4, kBytes},
                            {5, kVarint},
                            {6, kBytes},
                            {7, kBytes},
                            {8, kBytes},
                            {14, kBytes},
                            {20, kBytes},
                            {25, kBytes}},
                           "a model"));
    if (field->number == 1) found_.ir_version = static_cast<std::int64_t>(field->integer);
    if (field->number == 8) FALAJ_TRY(opset(field->bytes));
    if (field->number == 20) return refused("it carries a training program");
    if (field->number == 25) return refused("it defines functions of its own");
    if (field->number != 7) continue;
    if (has_graph()) return refused("it holds two graphs");
    FALAJ_TRY(graph(field->bytes, {}));
  }
  if (!has_graph()) return refused("it holds no graph");
  if (found_.ir_version < 3 || found_.ir_version > 20) {
    return refused("IR version " + std::to_string(found_.ir_version) + " is not from 3 to 20");
  }
  return {};
}

Status Checker::opset(std::string_view bytes) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field, {{1, kBytes}, {2, kVarint}}, "an operator set"));
    if (field->number == 1 && !standard_domain(field->bytes)) {
      return refused("operator set " + shown(field->bytes) +
                     " is not standard; only ai.onnx and ai.onnx.ml are accepted");
    }
  }
  return {};
}

Status Checker::value_info(std::string_view bytes, std::string_view& name) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field, {{1, kBytes}, {2, kBytes}, {3, kBytes}, {4, kBytes}},
                           "an input or output"));
    if (field->number == 1) name = field->bytes;
  }
  if (name.size() > kNameBytesMax) return refused("a name is longer than 4096 bytes");
  return {};
}

// Nodes stand after what they need: the reader sees names before their use, so a cycle cannot be
// written. Inputs and constants may stand behind the nodes in the file: they are read first.
Status Checker::graph(std::string_view bytes, const std::vector<const Names*>& outer) {
  ++graphs_;
  if (outer.size() >= kDepthMax) return refused("graphs are nested deeper than 16");
  Names computed;
  std::vector<std::string_view> nodes;
  std::vector<std::string_view> outputs;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field,
                           {{1, kBytes},
                            {2, kBytes},
                            {5, kBytes},
                            {10, kBytes},
                            {11, kBytes},
                            {12, kBytes},
                            {13, kBytes},
                            {14, kBytes},
                            {15, kBytes},
                            {16, kBytes}},
                           "a graph"));
    std::string_view name;
    if (field->number == 1) nodes.push_back(field->bytes);
    if (field->number == 11) FALAJ_TRY(value_info(field->bytes, name));
    if (field->number == 5) FALAJ_TRY(tensor(field->bytes, name));
    if (field->number == 15) FALAJ_TRY(sparse(field->bytes, name));
    if (!name.empty()) computed.insert(name);  // An input may have a constant as its default.
    if (field->number == 12) {
      FALAJ_TRY(value_info(field->bytes, name));
      outputs.push_back(name);
    }
  }
  for (const std::string_view each : nodes) FALAJ_TRY(node(each, computed, outer));
  for (const std::string_view each : outputs) {
    const bool known = computed.contains(each) ||
                       std::any_of(outer.begin(), outer.end(),
                                   [&](const Names* names) { return names->contains(each); });
    if (!known) return refused("the output " + shown(each) + " is never computed");
  }
  return {};
}

Status Checker::node(std::string_view bytes, Names& computed,
                     const std::vector<const Names*>& outer) {
  if (++found_.nodes > kNodesMax) return refused("it has more than 100000 nodes");
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> graphs;
  std::vector<std::string_view> inputs;
  std::string_view op;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field,
                           {{1, kBytes},
                            {2, kBytes},
                            {3, kBytes},
                            {4, kBytes},
                            {5, kBytes},
                            {6, kBytes},
                            {7, kBytes},
                            {8, kBytes},
                            {9, kBytes}},
                           "a node"));
    if (field->bytes.size() > kNameBytesMax && field->number != 5 && field->number != 6 &&
        field->number != 9) {
      return refused("a name is longer than 4096 bytes");
    }
    if (field->number == 1) inputs.push_back(field->bytes);
    if (field->number == 2) outputs.push_back(field->bytes);
    if (field->number == 4) op = field->bytes;
    if (field->number == 5) FALAJ_TRY(attribute(field->bytes, graphs));
    if (field->number == 7 && !standard_domain(field->bytes)) {
      return refused("a node uses an operator of " + shown(field->bytes));
    }
  }
  for (const std::string_view input : inputs) {
    if (input.empty() || computed.contains(input)) continue;
    if (std::none_of(outer.begin(), outer.end(),
                     [&](const Names* names) { return names->contains(input); })) {
      return refused("the node " + shown(op) + " uses " + shown(input) +
                     ", which nothing before it computes");
    }
  }
  std::vector<const Names*> inside = outer;
  inside.push_back(&computed);
  for (const std::string_view each : graphs) FALAJ_TRY(graph(each, inside));
  for (const std::string_view output : outputs) {
    if (!output.empty() && !computed.insert(output).second) {
      return refused(shown(output) + " is computed twice");
    }
  }
  return {};
}

Status Checker::attribute(std::string_view bytes, std::vector<std::string_view>& graphs) {
  WireReader reader(bytes);
  std::string_view name;
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field,
                           {{1, kBytes},
                            {2, kFixed32},
                            {3, kVarint},
                            {4, kBytes},
                            {5, kBytes},
                            {6, kBytes},
                            {7, kFixed32},
                            {8, kVarint},
                            {9, kBytes},
                            {10, kBytes},
                            {11, kBytes},
                            {13, kBytes},
                            {14, kBytes},
                            {15, kBytes},
                            {20, kVarint},
                            {21, kBytes},
                            {22, kBytes},
                            {23, kBytes}},
                           "an attribute"));
    if (field->number == 5 || field->number == 10) FALAJ_TRY(tensor(field->bytes, name));
    if (field->number == 22 || field->number == 23) FALAJ_TRY(sparse(field->bytes, name));
    if (field->number == 6 || field->number == 11) graphs.push_back(field->bytes);
    if (field->number == 21) return refused("an attribute refers to a function's");
  }
  return {};
}

Status Checker::sparse(std::string_view bytes, std::string_view& name) {
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field, {{1, kBytes}, {2, kBytes}, {3, kVarint}}, "a sparse tensor"));
    std::string_view ignored;
    if (field->number == 1) FALAJ_TRY(tensor(field->bytes, name));
    if (field->number == 2) FALAJ_TRY(tensor(field->bytes, ignored));
  }
  return {};
}

// Elements that the dimensions announce; nullopt when the product leaves 63 bits.
std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& dims) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count)) return std::nullopt;
  }
  return count >> 62 == 0 ? std::optional(count) : std::nullopt;
}

Status Checker::tensor(std::string_view bytes, std::string_view& name) {
  if (++found_.tensors > kTensorsMax) return refused("it has more than 100000 constants");
  std::vector<std::int64_t> dims;
  std::uint64_t type = 0;
  std::optional<std::string_view> raw;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    FALAJ_TRY(expect_known(*field,
                           {{1, kVarint},
                            {2, kVarint},
                            {4, kFixed32},
                            {5, kVarint},
                            {6, kBytes},
                            {7, kVarint},
                            {8, kBytes},
                            {9, kBytes},
                            {10, 1},
                            {11, kVarint},
                            {12, kBytes},
                            {13, kBytes},
                            {14, kVarint},
                            {16, kBytes}},
                           "a tensor"));
    if (field->number == 1) FALAJ_TRY(append_integers(*field, dims));
    if (field->number == 2) type = field->integer;
    if (field->number == 8) name = field->bytes;
    if (field->number == 9) raw = field->bytes;
    if (field->number == 13 || (field->number == 14 && field->integer != 0)) {
      return refused("the tensor " + shown(name) + " keeps its data outside the file");
    }
    if (dims.size() > 32) return refused("a tensor has more than 32 dimensions");
  }
  constexpr std::uint64_t kStrings = 8;
  const auto count = element_count(dims);
  const std::uint64_t width = element_bytes(type);
  if (width == 0 && type != kStrings) {
    return refused("the tensor " + shown(name) + " has the element type " + std::to_string(type));
  }
  // Typed lists take at least a byte an element, raw data exactly its width.
  if (!count || *count > file_bytes_) {
    return refused("the tensor " + shown(name) + " announces more elements than the file holds");
  }
  if (raw && raw->size() != *count * width) {
    return refused("the tensor " + shown(name) + " announces " + std::to_string(*count * width) +
                   " bytes and brings " + std::to_string(raw->size()));
  }
  found_.tensor_bytes += *count * std::max<std::uint64_t>(width, 1);
  return {};
}

}  // namespace

Result<ForeignModel> check_foreign(std::string_view bytes) {
  Checker checker(bytes.size());
  const Status status = checker.model(bytes);
  if (status.ok()) return checker.found();
  if (status.error().id == ErrorId::kModelFormatRefused) return status.error();
  return refused("its bytes are no ONNX message (" + status.error().message + ")");
}

}  // namespace falaj::onnx
