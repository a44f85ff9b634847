#include "onnx/optimize/prune.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "onnx/graph.h"
#include "onnx/internal/weights.h"

namespace falaj::onnx {
namespace {

Status check_share(double share) {
  if (share > 0 && share < 1) return {};
  return Error(ErrorId::kOutOfRange, "the share to prune must lie between 0 and 1");
}

bool has_weights(const ModelEdit::Node& node) {
  return (node.is("MatMul") || node.is("Gemm") || node.is("Conv")) && node.inputs.size() >= 2;
}

// The numbers of the `count` smallest, ascending by their place.
std::vector<std::size_t> smallest(const std::vector<double>& sizes, std::size_t count) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] < sizes[b]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

// Operators that look at each number by itself, and have no other input.
bool is_pointwise(const ModelEdit::Node& node) {
  static constexpr std::array<std::string_view, 12> kOps{
      "Relu", "Tanh", "Sigmoid",  "LeakyRelu",   "Elu",      "Selu",
      "Gelu", "Abs",  "Identity", "HardSigmoid", "Softplus", "Softsign"};
  return node.inputs.size() == 1 && node.outputs.size() == 1 &&
         std::any_of(kOps.begin(), kOps.end(), [&](std::string_view op) { return node.is(op); });
}

// Two matrices with hidden units between them.
struct Pair {
  std::size_t first = 0;
  std::size_t second = 0;
  Matrix in;                             // [columns, units]
  Matrix out;                            // [units, outputs]
  std::vector<std::string_view> biases;  // Constants of one number a unit.
};

class Units {
 public:
  Units(ModelEdit& edit, double share, Optimized& out) : edit_(edit), share_(share), out_(out) {}

  Status visit(std::size_t index) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    if (!node.is("MatMul") && !node.is("Gemm")) return {};
    auto found = FALAJ_TRY(find(index));
    if (const auto* why = std::get_if<std::string>(&found)) {
      out_.left.push_back({node.title(), std::string(node.op), *why});
      return {};
    }
    return narrow(std::get<Pair>(found));
  }

 private:
  using Found = std::variant<Pair, std::string>;

  // Constants that others read too must keep their form.
  bool is_alone(std::string_view constant) const {
    return edit_.uses(constant) == 1 && !edit_.is_output(constant);
  }

  std::optional<std::size_t> reader_of(std::string_view value) const {
    if (edit_.uses(value) != 1 || edit_.is_output(value)) return std::nullopt;
    for (std::size_t i = 0; i < edit_.nodes().size(); ++i) {
      const auto& inputs = edit_.nodes()[i].inputs;
      if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) return i;
    }
    return std::nullopt;
  }

  // A constant with one number for each of `units`; `name` may be a bias of Gemm or Add.
  Result<bool> is_bias(std::string_view name, std::size_t units) const {
    const auto tensor = FALAJ_TRY(edit_.floats(name));
    return tensor && is_alone(name) && tensor->values.size() == units && !tensor->shape.empty() &&
           tensor->shape.back() == static_cast<std::int64_t>(units);
  }

  Result<Found> find(std::size_t index) const {
    const ModelEdit::Node& node = edit_.nodes()[index];
    auto first = FALAJ_TRY(matrix_of(edit_, node));
    if (const auto* why = std::get_if<std::string>(&first)) return Found(*why);
    Pair pair;
    pair.first = index;
    pair.in = std::move(std::get<Matrix>(first));
    if (edit_.has_nested()) return Found("a nested graph may read what it gives");
    if (!is_alone(node.inputs[1])) return Found("others read its weights");
    if (pair.in.bias.empty() && node.inputs.size() > 2) return Found("its bias counts for nothing");
    if (!pair.in.bias.empty()) {
      if (!FALAJ_TRY(is_bias(pair.in.bias, pair.in.outputs))) {
        return Found("its bias is not one constant number a unit");
      }
      pair.biases.push_back(pair.in.bias);
    }
    return follow(std::move(pair), node.outputs[0]);
  }

  // From the first matrix to the second; each step uses up a node, and a value is read once.
  Result<Found> follow(Pair pair, std::string_view value) const {
    for (std::size_t steps = 0; steps < edit_.nodes().size(); ++steps) {
      const auto at = reader_of(value);
      if (!at) return Found("what it gives is an output, or read by several");
      const ModelEdit::Node& node = edit_.nodes()[*at];
      if (node.is("Add") && node.inputs.size() == 2 && node.outputs.size() == 1) {
        const std::string_view other = node.inputs[node.inputs[0] == value ? 1 : 0];
        if (!FALAJ_TRY(is_bias(other, pair.in.outputs))) {
          return Found("something is added that is not one constant number a unit");
        }
        pair.biases.push_back(other);
      } else if (!is_pointwise(node)) {
        return finish(std::move(pair), *at, value);
      }
      value = node.outputs[0];
    }
    return Found("it leads nowhere");
  }

  Result<Found> finish(Pair pair, std::size_t at, std::string_view value) const {
    const ModelEdit::Node& node = edit_.nodes()[at];
    if ((!node.is("MatMul") && !node.is("Gemm")) || node.inputs.size() < 2 ||
        node.inputs[0] != value) {
      return Found("no matrix follows, but " + std::string(node.op));
    }
    auto second = FALAJ_TRY(matrix_of(edit_, node));
    if (const auto* why = std::get_if<std::string>(&second)) {
      return Found("the matrix after it is no constant that can be changed: " + *why);
    }
    pair.second = at;
    pair.out = std::move(std::get<Matrix>(second));
    if (!is_alone(node.inputs[1])) return Found("others read the weights after it");
    if (pair.out.inputs != pair.in.outputs) return Found("the matrix after it has another size");
    return Found(std::move(pair));
  }

  // After an earlier pair was narrowed, `matrix` is what stands in the edit: see current().
  Status narrow(Pair pair) {
    const std::size_t units = pair.in.outputs;
    current(pair.first, pair.in);
    const auto count = std::min(
        units - 1, static_cast<std::size_t>(std::floor(share_ * static_cast<double>(units))));
    const ModelEdit::Node& node = edit_.nodes()[pair.first];
    if (count == 0) {
      out_.left.push_back({node.title(), std::string(node.op), "it has too few units"});
      return {};
    }
    const std::vector<std::size_t> gone = smallest(weights_of(pair), count);
    const std::size_t before = (pair.in.values.size() + pair.out.values.size()) * sizeof(float);
    drop_columns(pair.in, gone);
    drop_rows(pair.out, gone);
    put(pair.first, pair.in);
    put(pair.second, pair.out);
    FALAJ_TRY(narrow_biases(pair, units, gone));
    out_.changed.push_back(
        {node.title(), std::string(node.op),
         std::to_string(units - count) + " of " + std::to_string(units) + " units", before,
         (pair.in.values.size() + pair.out.values.size()) * sizeof(float)});
    return {};
  }

  // A matrix in the middle lost rows as the second of a pair before it becomes the first of one.
  void current(std::size_t node, Matrix& matrix) const {
    const auto found = narrowed_.find(node);
    if (found == narrowed_.end()) return;
    matrix.inputs = found->second.inputs;
    matrix.values = found->second.values;
  }

  static std::vector<double> weights_of(const Pair& pair) {
    const std::size_t units = pair.in.outputs;
    std::vector<double> in(units, 0);
    std::vector<double> out(units, 0);
    for (std::size_t i = 0; i < pair.in.values.size(); ++i) {
      in[i % units] += std::pow(pair.in.values[i], 2);
    }
    for (std::size_t i = 0; i < pair.out.values.size(); ++i) {
      out[i / pair.out.outputs] += std::pow(pair.out.values[i], 2);
    }
    for (std::size_t i = 0; i < units; ++i) in[i] = std::sqrt(in[i] * out[i]);
    return in;
  }

  static void drop_columns(Matrix& matrix, const std::vector<std::size_t>& gone) {
    std::vector<float> kept;
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
      const std::size_t column = i % matrix.outputs;
      if (!std::binary_search(gone.begin(), gone.end(), column)) kept.push_back(matrix.values[i]);
    }
    matrix.values = std::move(kept);
    matrix.outputs -= gone.size();
  }

  static void drop_rows(Matrix& matrix, const std::vector<std::size_t>& gone) {
    std::vector<float> kept;
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
      const std::size_t row = i / matrix.outputs;
      if (!std::binary_search(gone.begin(), gone.end(), row)) kept.push_back(matrix.values[i]);
    }
    matrix.values = std::move(kept);
    matrix.inputs -= gone.size();
  }

  // As the node reads it: turned back where it has transB.
  void put(std::size_t index, const Matrix& matrix) {
    narrowed_[index] = matrix;
    const ModelEdit::Node& node = edit_.nodes()[index];
    std::int64_t shape[] = {static_cast<std::int64_t>(matrix.inputs),
                            static_cast<std::int64_t>(matrix.outputs)};
    std::vector<float> values = matrix.values;
    if (node.is("Gemm") && node.integer("transB", 0) != 0) {
      std::swap(shape[0], shape[1]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t in = i / matrix.outputs;
        const std::size_t out = i % matrix.outputs;
        values[out * matrix.inputs + in] = matrix.values[i];
      }
    }
    edit_.drop_constant(node.inputs[1]);
    edit_.put_constant(node.inputs[1], kFloat, shape, raw_of(values));
  }

  Status narrow_biases(const Pair& pair, std::size_t units, const std::vector<std::size_t>& gone) {
    for (const std::string_view name : pair.biases) {
      const auto tensor = FALAJ_TRY(edit_.floats(name));
      std::vector<float> kept;
      for (std::size_t i = 0; i < units; ++i) {
        if (!std::binary_search(gone.begin(), gone.end(), i)) kept.push_back(tensor->values[i]);
      }
      std::vector<std::int64_t> shape = tensor->shape;
      shape.back() = static_cast<std::int64_t>(kept.size());
      edit_.drop_constant(name);
      edit_.put_constant(name, kFloat, shape, raw_of(kept));
    }
    return {};
  }

  ModelEdit& edit_;
  double share_;
  Optimized& out_;
  std::map<std::size_t, Matrix> narrowed_;  // By node.
};

}  // namespace

Result<Optimized> prune_weights(std::string_view model, double share) {
  FALAJ_TRY(check_share(share));
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized out;
  std::set<std::string_view> done;
  for (const ModelEdit::Node& node : edit.nodes()) {
    if (!has_weights(node) || !done.insert(node.inputs[1]).second) continue;
    auto tensor = FALAJ_TRY(edit.floats(node.inputs[1]));
    if (!tensor) {
      out.left.push_back(
          {node.title(), std::string(node.op), "its weights are no float constant of the file"});
      continue;
    }
    std::vector<double> sizes;
    for (const float value : tensor->values) sizes.push_back(std::abs(value));
    const auto count =
        static_cast<std::size_t>(std::floor(share * static_cast<double>(sizes.size())));
    if (count == 0 || std::any_of(sizes.begin(), sizes.end(), [](double s) { return s != s; })) {
      out.left.push_back({node.title(), std::string(node.op), "it has few weights, or NaN"});
      continue;
    }
    for (const std::size_t at : smallest(sizes, count)) tensor->values[at] = 0;
    edit.drop_constant(node.inputs[1]);
    edit.put_constant(node.inputs[1], kFloat, tensor->shape, raw_of(tensor->values));
    const std::size_t bytes = tensor->values.size() * sizeof(float);
    out.changed.push_back(
        {node.title(), std::string(node.op),
         std::to_string(count) + " of " + std::to_string(sizes.size()) + " weights are zero", bytes,
         bytes});
  }
  out.bytes = out.changed.empty() ? std::string(model) : edit.finish();
  return out;
}

Result<Optimized> prune_units(std::string_view model, double share) {
  FALAJ_TRY(check_share(share));
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized out;
  Units units(edit, share, out);
  for (std::size_t i = 0; i < edit.nodes().size(); ++i) FALAJ_TRY(units.visit(i));
  edit.forget_shapes();
  out.bytes = out.changed.empty() ? std::string(model) : edit.finish();
  return out;
}

}  // namespace falaj::onnx
