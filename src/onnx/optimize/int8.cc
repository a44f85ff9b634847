#include "onnx/optimize/int8.h"

#include <map>

#include "onnx/graph.h"
#include "onnx/internal/weights.h"

namespace falaj::onnx {
namespace {

constexpr std::int64_t kOpsetMin = 11;  // DynamicQuantizeLinear.

// A value quantised in each call.
struct Quantised {
  std::string values;
  std::string scale;
  std::string zero;
};

class DynamicInt8 {
 public:
  DynamicInt8(ModelEdit& edit, const Int8Options& options, Optimized& out)
      : edit_(edit), options_(options), out_(out) {}

  Status visit(std::size_t index) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    if (!node.is("MatMul") && !node.is("Gemm")) return {};
    if (edit_.opset() < kOpsetMin) return leave(node, "its operators are older than version 11");
    auto found = FALAJ_TRY(matrix_of(edit_, node));
    if (const auto* why = std::get_if<std::string>(&found)) return leave(node, *why);
    const Matrix& matrix = std::get<Matrix>(found);
    if (matrix.values.size() < options_.weights_min) return leave(node, "it has few weights");
    if (FALAJ_TRY(edit_.floats(node.inputs[0]))) return leave(node, "both matrices are constant");
    const std::string stem = node.title();
    const auto bias = FALAJ_TRY(scaled_bias(edit_, matrix, stem + "_bias"));
    if (!bias) return leave(node, "its bias is computed and scaled");
    rewrite(index, matrix, *bias);
    return {};
  }

 private:
  Status leave(const ModelEdit::Node& node, const std::string& why) {
    out_.left.push_back({node.title(), std::string(node.op), why});
    return {};
  }

  void rewrite(std::size_t index, const Matrix& matrix, const std::string& bias) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    const std::string stem = node.title();
    const std::string output(node.outputs[0]);
    Int8Columns made = int8_columns(matrix);
    for (float& scale : made.scales) scale *= matrix.alpha;
    const std::int64_t shape[] = {static_cast<std::int64_t>(matrix.inputs),
                                  static_cast<std::int64_t>(matrix.outputs)};
    const std::string weights = edit_.add_constant(stem + "_int8", kInt8, shape, made.values);
    const std::string scales = edit_.add_constant(stem + "_scales", kFloat,
                                                  std::span(shape).subspan(1), raw_of(made.scales));
    std::vector<NewNode> nodes;
    const Quantised& given = quantised(node.inputs[0], nodes);
    const std::string whole = edit_.fresh(stem + "_whole");
    const std::string real = edit_.fresh(stem + "_real");
    const std::string both = edit_.fresh(stem + "_scale");
    const std::string product = bias.empty() ? output : edit_.fresh(stem + "_product");
    nodes.push_back({"MatMulInteger", {given.values, weights, given.zero}, {whole}});
    nodes.push_back({"Cast", {whole}, {real}, {{"to", kFloat}}});
    nodes.push_back({"Mul", {given.scale, scales}, {both}});
    nodes.push_back({"Mul", {real, both}, {product}});
    if (!bias.empty()) nodes.push_back({"Add", {product, bias}, {output}});
    out_.changed.push_back({stem, std::string(node.op),
                            "int8, " + std::to_string(matrix.outputs) + " channels",
                            matrix.values.size() * sizeof(float),
                            made.values.size() + made.scales.size() * sizeof(float)});
    edit_.replace(index, std::move(nodes));
  }

  // Nodes stand in the order of their needs: the first that reads the value quantises it for all.
  const Quantised& quantised(std::string_view name, std::vector<NewNode>& nodes) {
    const auto [at, is_new] = quantised_.try_emplace(name);
    if (!is_new) return at->second;
    const std::string stem(name);
    at->second = {edit_.fresh(stem + "_uint8"), edit_.fresh(stem + "_scale"),
                  edit_.fresh(stem + "_zero")};
    nodes.push_back(
        {"DynamicQuantizeLinear", {stem}, {at->second.values, at->second.scale, at->second.zero}});
    return at->second;
  }

  ModelEdit& edit_;
  const Int8Options& options_;
  Optimized& out_;
  std::map<std::string_view, Quantised> quantised_;
};

}  // namespace

Result<Optimized> dynamic_int8(std::string_view model, const Int8Options& options) {
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized out;
  DynamicInt8 work(edit, options, out);
  for (std::size_t i = 0; i < edit.nodes().size(); ++i) FALAJ_TRY(work.visit(i));
  out.bytes = out.changed.empty() ? std::string(model) : edit.finish();
  return out;
}

}  // namespace falaj::onnx
