// Field numbers are those of the published onnx.proto.
#include "onnx/optimize/edit.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "onnx/graph.h"
#include "onnx/wire.h"

namespace falaj::onnx {
namespace {

constexpr std::size_t kNodesMax = 100'000;
constexpr std::size_t kDimensionsMax = 16;

Error damaged(const std::string& what) {
  return Error(ErrorId::kModelCorrupt, "ONNX file: " + what);
}

// The last member with this number inside a message.
std::optional<WireField> member(std::string_view message, std::uint32_t number) {
  std::optional<WireField> found;
  WireReader reader(message);
  for (auto field = reader.next(); field.ok() && field->has_value(); field = reader.next()) {
    if ((*field)->number == number) found = **field;
  }
  return found;
}

std::optional<WireField> attribute_member(const std::vector<std::string_view>& attributes,
                                          std::string_view name, std::uint32_t number) {
  for (const std::string_view each : attributes) {
    const auto called = member(each, 1);
    if (called && called->bytes == name) return member(each, number);
  }
  return std::nullopt;
}

// Copies a field as it stands.
Status copy_field(const WireField& field, WireWriter& out) {
  switch (field.type) {
    case 0:
      out.integer(field.number, static_cast<std::int64_t>(field.integer));
      return {};
    case 2:
      out.bytes(field.number, field.bytes);
      return {};
    case 5:
      out.number(field.number, std::bit_cast<float>(static_cast<std::uint32_t>(field.integer)));
      return {};
    default:
      return damaged("field " + std::to_string(field.number) + " has a type that ONNX has not");
  }
}

// Whether every field can be copied; asked while reading, so that writing cannot fail.
Status check_copied(std::string_view message) {
  WireReader reader(message);
  while (const auto field = FALAJ_TRY(reader.next())) {
    WireWriter nowhere;
    if (field->type != 2) FALAJ_TRY(copy_field(*field, nowhere));
  }
  return {};
}

std::string node_proto(const NewNode& node) {
  WireWriter out;
  for (const std::string& input : node.inputs) out.bytes(1, input);
  for (const std::string& output : node.outputs) out.bytes(2, output);
  if (!node.outputs.empty()) out.bytes(3, node.outputs.front());
  out.bytes(4, node.op);
  for (const std::string& attribute : node.attributes) out.bytes(5, attribute);
  for (const auto& [name, value] : node.integers) {
    WireWriter attribute;
    attribute.bytes(1, name);
    attribute.integer(3, value);
    attribute.integer(20, 2);
    out.bytes(5, attribute.str());
  }
  return out.str();
}

std::string tensor_proto(std::string_view name, std::int64_t element,
                         std::span<const std::int64_t> shape, std::string_view raw) {
  WireWriter out;
  for (const std::int64_t size : shape) out.integer(1, size);
  out.integer(2, element);
  out.bytes(8, name);
  out.bytes(9, raw);
  return out.str();
}

// How many values the shape asks for; nullopt when that is no sensible number.
std::optional<std::size_t> count_of(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size != 0 && count > (std::size_t{1} << 40) / static_cast<std::size_t>(size)) {
      return std::nullopt;
    }
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

}  // namespace

std::string ModelEdit::Node::title() const {
  if (!name.empty()) return std::string(name);
  return outputs.empty() ? std::string("?") : std::string(outputs.front());
}

bool ModelEdit::Node::is(std::string_view wanted) const {
  return op == wanted && (domain.empty() || domain == "ai.onnx");
}

std::int64_t ModelEdit::Node::integer(std::string_view attribute, std::int64_t fallback) const {
  const auto found = attribute_member(attributes, attribute, 3);
  return found ? static_cast<std::int64_t>(found->integer) : fallback;
}

float ModelEdit::Node::number(std::string_view attribute, float fallback) const {
  const auto found = attribute_member(attributes, attribute, 2);
  if (!found || found->type != 5) return fallback;
  return std::bit_cast<float>(static_cast<std::uint32_t>(found->integer));
}

Result<ModelEdit> ModelEdit::read(std::string_view bytes) {
  ModelEdit edit;
  edit.model_ = bytes;
  bool found = false;
  FALAJ_TRY(check_copied(bytes));
  WireReader model(bytes);
  while (const auto field = FALAJ_TRY(model.next())) {
    if (field->number == 8) {
      const auto domain = member(field->bytes, 1);
      const auto version = member(field->bytes, 2);
      const bool standard = !domain || domain->bytes.empty() || domain->bytes == "ai.onnx";
      if (standard && version) edit.opset_ = static_cast<std::int64_t>(version->integer);
    }
    if (field->number != 7) continue;
    if (found) return damaged("it has two graphs");
    found = true;
    edit.graph_ = field->bytes;
  }
  if (!found) return damaged("it has no graph");
  FALAJ_TRY(edit.read_graph(edit.graph_));
  return edit;
}

Status ModelEdit::read_graph(std::string_view graph) {
  FALAJ_TRY(check_copied(graph));
  WireReader reader(graph);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) FALAJ_TRY(read_node(field->bytes));
    if (field->number == 5) FALAJ_TRY(read_constant(field->bytes, std::nullopt, ""));
    if (field->number != 11 && field->number != 12) continue;
    const auto name = member(field->bytes, 1);
    if (!name) continue;
    (field->number == 11 ? inputs_ : outputs_).insert(name->bytes);
    names_.emplace(name->bytes);
  }
  for (const std::string_view output : outputs_) ++uses_[output];
  return {};
}

Status ModelEdit::read_node(std::string_view bytes) {
  if (nodes_.size() == kNodesMax) return damaged("the graph has over 100000 nodes");
  Node node;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) node.inputs.push_back(field->bytes);
    if (field->number == 2) node.outputs.push_back(field->bytes);
    if (field->number == 3) node.name = field->bytes;
    if (field->number == 4) node.op = field->bytes;
    if (field->number == 7) node.domain = field->bytes;
    if (field->number != 5) continue;
    WireReader attribute(field->bytes);
    while (const auto part = FALAJ_TRY(attribute.next())) {
      if (part->number == 6 || part->number == 11) nested_ = true;
    }
    node.attributes.push_back(field->bytes);
  }
  for (const std::string_view input : node.inputs) {
    ++uses_[input];
    names_.emplace(input);
  }
  for (const std::string_view output : node.outputs) names_.emplace(output);
  if (node.is("Constant") && node.outputs.size() == 1) {
    const auto tensor = attribute_member(node.attributes, "value", 5);
    if (tensor) FALAJ_TRY(read_constant(tensor->bytes, nodes_.size(), node.outputs.front()));
  }
  node_bytes_.push_back(bytes);
  nodes_.push_back(std::move(node));
  return {};
}

Status ModelEdit::read_constant(std::string_view bytes, std::optional<std::size_t> node,
                                std::string_view name) {
  Constant constant;
  constant.bytes = bytes;
  constant.node = node;
  WireReader reader(bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    if (field->number == 1) FALAJ_TRY(append_integers(*field, constant.shape));
    if (field->number == 2) constant.element = static_cast<std::int64_t>(field->integer);
    if (field->number == 8 && !node) name = field->bytes;
    if (constant.shape.size() > kDimensionsMax) return damaged("a tensor has over 16 dimensions");
  }
  names_.emplace(name);
  if (!constants_.emplace(name, std::move(constant)).second) {
    return damaged("the constant '" + std::string(name) + "' stands twice");
  }
  constant_order_.push_back(name);
  return {};
}

std::vector<std::string> ModelEdit::float_constants() const {
  std::vector<std::string> names;
  for (const std::string_view name : constant_order_) {
    const Constant& constant = constants_.at(name);
    if (constant.element == kFloat && !inputs_.contains(name)) names.emplace_back(name);
  }
  return names;
}

Result<std::optional<FloatTensor>> ModelEdit::floats(std::string_view name) const {
  const auto found = constants_.find(name);
  if (found == constants_.end() || inputs_.contains(name) || found->second.element != kFloat) {
    return std::optional<FloatTensor>{};
  }
  FloatTensor tensor;
  tensor.shape = found->second.shape;
  WireReader reader(found->second.bytes);
  while (const auto field = FALAJ_TRY(reader.next())) {
    // Data outside the file is not looked for.
    if (field->number == 13 || (field->number == 14 && field->integer != 0)) {
      return std::optional<FloatTensor>{};
    }
    if (field->number == 4 || (field->number == 9 && !field->bytes.empty())) {
      FALAJ_TRY(append_numbers(*field, tensor.values));
    }
  }
  if (count_of(tensor.shape) != tensor.values.size()) {
    return damaged("the constant '" + std::string(name) +
                   "' has another number of values than its shape says");
  }
  return std::optional(std::move(tensor));
}

std::size_t ModelEdit::constant_bytes(std::string_view name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? 0 : found->second.bytes.size();
}

std::size_t ModelEdit::uses(std::string_view name) const {
  const auto found = uses_.find(name);
  return found == uses_.end() ? 0 : found->second;
}

void ModelEdit::replace(std::size_t node, std::vector<NewNode> with) {
  replaced_[node] = std::move(with);
}

void ModelEdit::replace_bytes(std::size_t node, std::string bytes) {
  replaced_bytes_[node] = std::move(bytes);
}

void ModelEdit::put_first(NewNode node) { first_.push_back(std::move(node)); }

void ModelEdit::show(std::string_view value) {
  last_.push_back({"Identity", {std::string(value)}, {fresh(std::string(value) + "_shown")}});
}

std::string ModelEdit::fresh(std::string_view stem) {
  std::string name = std::string(stem);
  for (std::size_t i = 2; names_.contains(name); ++i) {
    name = std::string(stem) + "_" + std::to_string(i);
  }
  names_.insert(name);
  return name;
}

std::string ModelEdit::add_constant(std::string_view stem, std::int64_t element,
                                    std::span<const std::int64_t> shape, std::string_view raw) {
  std::string name = fresh(stem);
  put_constant(name, element, shape, raw);
  return name;
}

void ModelEdit::drop_constant(std::string_view name) { dropped_.emplace(name); }

void ModelEdit::put_constant(std::string_view name, std::int64_t element,
                             std::span<const std::int64_t> shape, std::string_view raw) {
  std::string tensor = tensor_proto(name, element, shape, raw);
  const auto before = std::find_if(added_.begin(), added_.end(),
                                   [&](const auto& each) { return each.first == name; });
  if (before != added_.end()) {
    before->second = std::move(tensor);
  } else {
    added_.emplace_back(std::string(name), std::move(tensor));
  }
}

std::set<std::string_view> ModelEdit::used_names() const {
  std::set<std::string_view> used(outputs_.begin(), outputs_.end());
  const auto note = [&](const std::vector<NewNode>& nodes) {
    for (const NewNode& node : nodes) used.insert(node.inputs.begin(), node.inputs.end());
  };
  note(first_);
  note(last_);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto replaced = replaced_.find(i);
    if (replaced != replaced_.end()) {
      note(replaced->second);
    } else {
      used.insert(nodes_[i].inputs.begin(), nodes_[i].inputs.end());
    }
  }
  return used;
}

std::string ModelEdit::graph_bytes() const {
  const std::set<std::string_view> used = used_names();
  const auto gone = [&](std::string_view name) {
    if (dropped_.contains(name)) return true;
    return !nested_ && !used.contains(name) && !inputs_.contains(name);
  };
  WireWriter out;
  for (const NewNode& node : first_) out.bytes(1, node_proto(node));
  std::size_t at = 0;
  WireReader reader(graph_);
  // Read once already: it ends without an error.
  for (auto field = reader.next(); field.ok() && field->has_value(); field = reader.next()) {
    const WireField& each = **field;
    if (each.number == 5) {
      const auto name = member(each.bytes, 8);
      if (name && gone(name->bytes)) continue;
    }
    if (each.number == 13 && !shapes_) continue;
    if (each.number != 1) {
      (void)copy_field(each, out);
      continue;
    }
    const std::size_t index = at++;
    const Node& node = nodes_[index];
    if (const auto bytes = replaced_bytes_.find(index); bytes != replaced_bytes_.end()) {
      out.bytes(1, bytes->second);
    } else if (const auto with = replaced_.find(index); with != replaced_.end()) {
      for (const NewNode& made : with->second) out.bytes(1, node_proto(made));
    } else if (!node.is("Constant") || node.outputs.size() != 1 || !gone(node.outputs.front())) {
      out.bytes(1, each.bytes);
    }
  }
  for (const NewNode& node : last_) {
    out.bytes(1, node_proto(node));
    WireWriter element;
    element.integer(1, kFloat);
    WireWriter type;
    type.bytes(1, element.str());
    WireWriter info;
    info.bytes(1, node.outputs.front());
    info.bytes(2, type.str());
    out.bytes(12, info.str());
  }
  for (const auto& [name, tensor] : added_) out.bytes(5, tensor);
  return out.str();
}

std::string ModelEdit::finish() const {
  WireWriter out;
  WireReader reader(model_);
  for (auto field = reader.next(); field.ok() && field->has_value(); field = reader.next()) {
    if ((*field)->number == 7) {
      out.bytes(7, graph_bytes());
    } else {
      (void)copy_field(**field, out);
    }
  }
  return out.str();
}

}  // namespace falaj::onnx
