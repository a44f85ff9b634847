#include "onnx/optimize/static_int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "onnx/graph.h"
#include "onnx/internal/weights.h"

namespace falaj::onnx {
namespace {

constexpr std::int64_t kOpsetMin = 13;  // DequantizeLinear with a scale for each channel.
constexpr float kStepsOfByte = 255;

// The scale and zero of unsigned bytes over a range; zero itself is always held exactly.
struct Bytes {
  float scale = 1;
  std::uint8_t zero = 0;
};
Bytes bytes_of(const Range& range) {
  const float least = std::min(range.least, 0.0F);
  const float most = std::max(range.most, 0.0F);
  Bytes out;
  out.scale = most / kStepsOfByte - least / kStepsOfByte;
  if (!(out.scale >= 1e-37F)) out.scale = 1;
  out.zero =
      static_cast<std::uint8_t>(std::clamp(std::nearbyint(-least / out.scale), 0.0F, kStepsOfByte));
  return out;
}

// The weights of a Conv: [channels, …] with one scale for each channel.
struct Filters {
  FloatTensor weights;
  std::vector<float> bias;
};

class StaticInt8 {
 public:
  StaticInt8(ModelEdit& edit, const Ranges& ranges, const Int8Options& options, Optimized& out)
      : edit_(edit), ranges_(ranges), options_(options), out_(out) {}

  Status visit(std::size_t index) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    if (!node.is("MatMul") && !node.is("Gemm") && !node.is("Conv")) return {};
    const auto why = FALAJ_TRY(node.is("Conv") ? conv(index) : matmul(index));
    if (why.empty()) return {};
    out_.left.push_back({node.title(), std::string(node.op), why});
    return {};
  }
  // Instead of rewriting: what would have to be known. In the order of the nodes, each once.
  Result<std::vector<std::string>> wanted() {
    only_ask_ = true;
    for (std::size_t i = 0; i < edit_.nodes().size(); ++i) FALAJ_TRY(visit(i));
    return std::move(asked_);
  }

 private:
  // Whether the range is known; while asking, notes that it is wanted and says no.
  const Range* range_of(std::string_view value) {
    if (only_ask_) {
      if (std::find(asked_.begin(), asked_.end(), value) == asked_.end()) {
        asked_.emplace_back(value);
      }
      return nullptr;
    }
    const auto found = ranges_.find(value);
    const bool known = found != ranges_.end() && std::isfinite(found->second.least) &&
                       std::isfinite(found->second.most);
    return known ? &found->second : nullptr;
  }

  // "" when it was rewritten.
  Result<std::string> matmul(std::size_t index) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    if (edit_.opset() < kOpsetMin) return std::string("its operators are older than version 13");
    auto found = FALAJ_TRY(matrix_of(edit_, node));
    if (const auto* why = std::get_if<std::string>(&found)) return *why;
    const Matrix& matrix = std::get<Matrix>(found);
    if (matrix.values.size() < options_.weights_min) return std::string("it has few weights");
    if (FALAJ_TRY(edit_.floats(node.inputs[0]))) return std::string("both matrices are constant");
    if (matrix.alpha <= 0) return std::string("alpha is not positive, as a scale must be");
    const Range* range = range_of(node.inputs[0]);
    if (range == nullptr) return std::string("the range of what it reads is not known");
    const std::string stem = node.title();
    const auto bias = FALAJ_TRY(scaled_bias(edit_, matrix, stem + "_bias"));
    if (!bias) return std::string("its bias is computed and scaled");
    Int8Columns made = int8_columns(matrix);
    for (float& scale : made.scales) scale *= matrix.alpha;
    const std::int64_t shape[] = {static_cast<std::int64_t>(matrix.inputs),
                                  static_cast<std::int64_t>(matrix.outputs)};
    std::vector<NewNode> nodes;
    const std::string given = through_bytes(node.inputs[0], *range, nodes);
    const std::string weights = weights_of(stem, shape, made.values, made.scales, 1, nodes);
    const std::string output(node.outputs[0]);
    const std::string product = bias->empty() ? output : edit_.fresh(stem + "_product");
    nodes.push_back({"MatMul", {given, weights}, {product}});
    if (!bias->empty()) nodes.push_back({"Add", {product, *bias}, {output}});
    note(node, matrix.outputs, matrix.values.size());
    edit_.replace(index, std::move(nodes));
    return std::string();
  }

  Result<std::string> conv(std::size_t index) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    if (edit_.opset() < kOpsetMin) return std::string("its operators are older than version 13");
    Filters filters;
    const std::string why = FALAJ_TRY(filters_of(node, filters));
    if (!why.empty()) return why;
    const Range* in = range_of(node.inputs[0]);
    const Range* out = range_of(node.outputs[0]);
    if (in == nullptr || out == nullptr) {
      return std::string("the range of what it reads or gives is not known");
    }
    // As columns of a matrix, one for each channel.
    Matrix turned;
    turned.outputs = static_cast<std::size_t>(filters.weights.shape[0]);
    turned.inputs = filters.weights.values.size() / turned.outputs;
    turned.values.resize(filters.weights.values.size());
    for (std::size_t i = 0; i < turned.values.size(); ++i) {
      turned.values[(i % turned.inputs) * turned.outputs + i / turned.inputs] =
          filters.weights.values[i];
    }
    const Int8Columns made = int8_columns(turned);
    const auto sums = whole_bias(filters.bias, made.scales, bytes_of(*in).scale);
    if (!sums) return std::string("its bias is too large for its weights");
    std::string values(made.values.size(), '\0');
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = made.values[(i % turned.inputs) * turned.outputs + i / turned.inputs];
    }
    rewrite_conv(index, filters, values, made.scales, *sums);
    return std::string();
  }

  Result<std::string> filters_of(const ModelEdit::Node& node, Filters& filters) const {
    if (node.inputs.size() < 2 || node.outputs.size() != 1) return std::string("it has no weights");
    auto weights = FALAJ_TRY(edit_.floats(node.inputs[1]));
    if (!weights || weights->shape.size() < 3 || weights->values.empty()) {
      return std::string("its weights are no float constant of the file");
    }
    filters.weights = std::move(*weights);
    if (filters.weights.values.size() < options_.weights_min) {
      return std::string("it has few weights");
    }
    const auto channels = static_cast<std::size_t>(filters.weights.shape[0]);
    if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
      auto bias = FALAJ_TRY(edit_.floats(node.inputs[2]));
      if (!bias || bias->values.size() != channels) return std::string("its bias is no constant");
      filters.bias = std::move(bias->values);
    }
    const auto finite = [](float value) { return std::isfinite(value); };
    const bool all =
        std::all_of(filters.weights.values.begin(), filters.weights.values.end(), finite) &&
        std::all_of(filters.bias.begin(), filters.bias.end(), finite);
    return all ? std::string() : std::string("a weight is not finite");
  }

  // Bytes of int32 in steps of both scales; nullopt when one does not fit.
  static std::optional<std::string> whole_bias(const std::vector<float>& bias,
                                               const std::vector<float>& scales, float scale) {
    std::string raw(bias.size() * sizeof(std::int32_t), '\0');
    for (std::size_t i = 0; i < bias.size(); ++i) {
      const double steps =
          std::nearbyint(static_cast<double>(bias[i]) / (static_cast<double>(scales[i]) * scale));
      if (!(std::abs(steps) < double{1 << 30})) return std::nullopt;
      const auto whole = static_cast<std::int32_t>(steps);
      std::memcpy(raw.data() + i * sizeof whole, &whole, sizeof whole);
    }
    return raw;
  }

  void rewrite_conv(std::size_t index, const Filters& filters, const std::string& values,
                    const std::vector<float>& scales, const std::string& sums) {
    const ModelEdit::Node& node = edit_.nodes()[index];
    const std::string stem = node.title();
    const Range& in = ranges_.find(node.inputs[0])->second;
    const Range& out = ranges_.find(node.outputs[0])->second;
    std::vector<NewNode> nodes;
    NewNode conv{"Conv", {through_bytes(node.inputs[0], in, nodes)}, {}};
    conv.inputs.push_back(weights_of(stem, filters.weights.shape, values, scales, 0, nodes));
    if (!filters.bias.empty()) {
      std::vector<float> both = scales;
      for (float& scale : both) scale *= bytes_of(in).scale;
      conv.inputs.push_back(bias_of(stem, sums, both, nodes));
    }
    for (const std::string_view attribute : node.attributes)
      conv.attributes.emplace_back(attribute);
    const std::string real = edit_.fresh(stem + "_real");
    conv.outputs.push_back(real);
    nodes.push_back(std::move(conv));
    add_bytes(real, std::string(node.outputs[0]), out, nodes);
    note(node, scales.size(), values.size());
    edit_.replace(index, std::move(nodes));
  }

  // `value` rounded to bytes and back; made once for all that read it.
  std::string through_bytes(std::string_view value, const Range& range,
                            std::vector<NewNode>& nodes) {
    const auto [at, is_new] = rounded_.try_emplace(value);
    if (is_new) {
      at->second = edit_.fresh(std::string(value) + "_rounded");
      add_bytes(std::string(value), at->second, range, nodes);
    }
    return at->second;
  }

  void add_bytes(const std::string& from, const std::string& to, const Range& range,
                 std::vector<NewNode>& nodes) {
    const Bytes bytes = bytes_of(range);
    const std::string scale = edit_.add_constant(to + "_scale", kFloat, {}, raw_of({bytes.scale}));
    const std::string zero =
        edit_.add_constant(to + "_zero", kUint8, {}, std::string(1, static_cast<char>(bytes.zero)));
    const std::string between = edit_.fresh(to + "_uint8");
    nodes.push_back({"QuantizeLinear", {from, scale, zero}, {between}});
    nodes.push_back({"DequantizeLinear", {between, scale, zero}, {to}});
  }

  std::string weights_of(const std::string& stem, std::span<const std::int64_t> shape,
                         const std::string& values, const std::vector<float>& scales,
                         std::int64_t axis, std::vector<NewNode>& nodes) {
    const std::int64_t count[] = {static_cast<std::int64_t>(scales.size())};
    const std::string whole = edit_.add_constant(stem + "_int8", kInt8, shape, values);
    const std::string scale = edit_.add_constant(stem + "_scales", kFloat, count, raw_of(scales));
    const std::string zero =
        edit_.add_constant(stem + "_zeros", kInt8, count, std::string(scales.size(), '\0'));
    std::string real = edit_.fresh(stem + "_weights");
    nodes.push_back({"DequantizeLinear", {whole, scale, zero}, {real}, {{"axis", axis}}});
    return real;
  }

  std::string bias_of(const std::string& stem, const std::string& sums,
                      const std::vector<float>& scales, std::vector<NewNode>& nodes) {
    const std::int64_t count[] = {static_cast<std::int64_t>(scales.size())};
    const std::string whole = edit_.add_constant(stem + "_int32", kInt32, count, sums);
    const std::string scale =
        edit_.add_constant(stem + "_bias_scales", kFloat, count, raw_of(scales));
    std::string real = edit_.fresh(stem + "_bias");
    nodes.push_back({"DequantizeLinear", {whole, scale}, {real}, {{"axis", 0}}});
    return real;
  }

  void note(const ModelEdit::Node& node, std::size_t channels, std::size_t weights) {
    out_.changed.push_back({node.title(), std::string(node.op),
                            "int8 with known ranges, " + std::to_string(channels) + " channels",
                            weights * sizeof(float), weights + channels * (sizeof(float) + 1)});
  }

  ModelEdit& edit_;
  const Ranges& ranges_;
  const Int8Options& options_;
  Optimized& out_;
  bool only_ask_ = false;
  std::vector<std::string> asked_;
  std::map<std::string_view, std::string> rounded_;
};

}  // namespace

void Range::see(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
}

Result<Watched> watch_ranges(std::string_view model, const Int8Options& options) {
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized nothing;
  const Ranges none;
  Watched watched;
  watched.values = FALAJ_TRY(StaticInt8(edit, none, options, nothing).wanted());
  for (const std::string& value : watched.values) edit.show(value);
  watched.bytes = edit.finish();
  return watched;
}

Result<Optimized> static_int8(std::string_view model, const Ranges& ranges,
                              const Int8Options& options) {
  ModelEdit edit = FALAJ_TRY(ModelEdit::read(model));
  Optimized out;
  StaticInt8 work(edit, ranges, options, out);
  for (std::size_t i = 0; i < edit.nodes().size(); ++i) FALAJ_TRY(work.visit(i));
  out.bytes = out.changed.empty() ? std::string(model) : edit.finish();
  return out;
}

}  // namespace falaj::onnx
