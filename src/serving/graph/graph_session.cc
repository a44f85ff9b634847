#include "serving/graph/graph_session.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/hash.h"
#include "expression/expression.h"
#include "serving/datatypes.h"
#include "serving/graph/tensor_columns.h"

namespace falaj::serving {
namespace {

using registry::TensorSpec;

// A tensor, or one element of its rows.
struct Piece {
  std::size_t slot = 0;
  std::optional<std::size_t> element;
};
// What an input of a model is made of.
struct Feed {
  TensorSpec wanted;
  std::vector<Piece> pieces;
};
struct Rule {
  expression::Expression expression;
  std::vector<Piece> columns;  // In the order of expression.columns().
  std::string datatype;
};
struct Work {
  const Session* session = nullptr;  // Null: a rule.
  std::vector<Feed> feeds;
  std::vector<std::pair<std::size_t, std::size_t>> gives;  // Output of the model, slot.
  std::optional<Rule> rule;
  std::size_t slot = 0;  // Of the rule's answer.
};

Error clash(std::string text) { return Error(ErrorId::kTensorMismatch, std::move(text)); }

std::string spec_text(const TensorSpec& spec) {
  return spec.datatype + " " + shape_text(spec.shape);
}

// Elements of a row; nothing while a dimension is open.
std::optional<std::size_t> width_of(std::span<const std::int64_t> shape) {
  if (shape.empty()) return std::nullopt;
  const Result<std::size_t> width = element_count(shape.subspan(1));
  if (!width.ok()) return std::nullopt;
  return *width;
}

bool has_rows(const TensorSpec& spec) { return !spec.shape.empty() && spec.shape[0] < 0; }

// Whether a tensor of this form can be what is wanted: the same elements in each row.
bool fits(const TensorSpec& has, const TensorSpec& wanted) {
  if (has.datatype != wanted.datatype) return false;
  const auto width = width_of(has.shape);
  const auto wanted_width = width_of(wanted.shape);
  if (width && wanted_width) return *width == *wanted_width;
  if (has.shape.size() != wanted.shape.size()) return false;
  for (std::size_t i = 1; i < has.shape.size(); ++i) {
    if (has.shape[i] >= 0 && wanted.shape[i] >= 0 && has.shape[i] != wanted.shape[i]) return false;
  }
  return true;
}

// How many rows the tensors have: all the same.
Result<std::size_t> rows_in(std::span<const Tensor> tensors) {
  std::int64_t rows = -1;
  for (const Tensor& tensor : tensors) {
    if (tensor.shape.empty() || tensor.shape[0] < 0 || (rows >= 0 && tensor.shape[0] != rows)) {
      return clash("tensor '" + tensor.name + "' has shape " + shape_text(tensor.shape) +
                   "; the first dimension of every input counts the same rows");
    }
    rows = tensor.shape[0];
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(rows, 0));
}

Result<std::size_t> checked_width(const Tensor& tensor) {
  const std::size_t width =
      FALAJ_TRY(element_count(std::span<const std::int64_t>(tensor.shape).subspan(1)));
  const std::size_t bytes = element_bytes(FALAJ_TRY(parse_datatype(tensor.datatype)));
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  if (bytes > 0 && tensor.bytes.size() != rows * width * bytes) {
    return clash("tensor '" + tensor.name + "' has other bytes than its shape");
  }
  return width;
}

std::size_t element_in(const Piece& piece) { return piece.element.value_or(0); }

class Steps final : public GraphSession {
 public:
  Steps(Graph graph, std::vector<GraphPart> parts)
      : graph_(std::move(graph)), parts_(std::move(parts)), digest_(graph_digest(graph_, parts_)) {}

  Status build() {
    FALAJ_TRY(find_inputs());
    for (std::size_t i = 0; i < graph_.steps.size(); ++i) {
      const GraphStep& step = graph_.steps[i];
      const Status added = step.rule.empty() ? add_model(step, parts_[i]) : add_rule(step);
      if (!added.ok()) return added.error().within("graph step '" + step.name + "'");
    }
    for (const std::string& name : graph_.answers) {
      signature_.outputs.push_back(specs_[slots_.at(name)]);
    }
    return {};
  }

  const registry::Signature& signature() const override { return signature_; }
  const Graph& graph() const override { return graph_; }
  const std::vector<GraphPart>& parts() const override { return parts_; }
  bool may_wait() const override {
    return std::ranges::any_of(parts_, [](const GraphPart& part) {
      return part.session != nullptr && part.session->may_wait();
    });
  }
  const std::string& digest() const override { return digest_; }
  const std::string& features_of() const override { return features_of_; }

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) const override {
    std::vector<Tensor> slots(specs_.size());
    FALAJ_TRY(take_inputs(inputs, slots));
    const std::size_t rows =
        FALAJ_TRY(rows_in(std::span<const Tensor>(slots).first(graph_.inputs.size())));
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const Status done = work_[i].session != nullptr ? run_model(work_[i], rows, slots)
                                                      : run_rule(work_[i], rows, slots);
      if (!done.ok()) return done.error().within("graph step '" + graph_.steps[i].name + "'");
    }
    std::vector<Tensor> answers;
    for (const std::string& name : graph_.answers) {
      answers.push_back(std::move(slots[slots_.at(name)]));
    }
    return answers;
  }

  Status score(std::span<const float> matrix, std::size_t columns,
               std::vector<float>& scores) const override {
    if (signature_.inputs.size() != 1 || columns == 0) {
      return clash("a graph with several inputs has no score");
    }
    const TensorSpec& input = signature_.inputs.front();
    Tensor tensor{input.name, "FP32", {}, {}};
    tensor.shape = {static_cast<std::int64_t>(matrix.size() / columns),
                    static_cast<std::int64_t>(columns)};
    if (!matrix.empty()) {
      tensor.bytes.assign(reinterpret_cast<const char*>(matrix.data()), matrix.size_bytes());
    }
    const std::vector<Tensor> outputs = FALAJ_TRY(run(std::span<const Tensor>(&tensor, 1)));
    for (const Tensor& output : outputs) {
      if (output.datatype != "FP32" && output.datatype != "FP64") continue;
      const std::size_t width = FALAJ_TRY(checked_width(output));
      if (width == 0) break;
      const auto rows = static_cast<std::size_t>(output.shape[0]);
      const table::Column column = FALAJ_TRY(column_of(output, rows, width, width - 1));
      scores.clear();
      for (const double each : column.doubles()) scores.push_back(static_cast<float>(each));
      return {};
    }
    return clash("no answer of the graph has floats, so there is no score");
  }

 private:
  // What no step gives has the form in which a model reads it whole.
  Status find_inputs() {
    for (const std::string& name : graph_.inputs) {
      std::optional<TensorSpec> found;
      for (std::size_t i = 0; i < graph_.steps.size(); ++i) {
        FALAJ_TRY(see_reader(i, name, found));
      }
      if (!found) {
        return clash("no model of the graph reads the input '" + name +
                     "' whole, so its type is not known");
      }
      slots_[name] = specs_.size();
      specs_.push_back(*found);
    }
    signature_.inputs = specs_;
    if (signature_.inputs.size() == 1) signature_.features = features_;
    if (signature_.features.empty()) features_of_.clear();
    return {};
  }

  // Whether step `i` reads the input `name` whole, and as what.
  Status see_reader(std::size_t i, const std::string& name, std::optional<TensorSpec>& found) {
    if (parts_[i].session == nullptr) return {};
    for (const auto& [input, sources] : graph_.steps[i].inputs) {
      if (sources.size() != 1 || sources[0] != GraphSource{name, std::nullopt}) continue;
      for (TensorSpec spec : parts_[i].session->signature().inputs) {
        if (spec.name != input) continue;
        spec.name = name;
        if (!found) {
          found = spec;
          features_ = parts_[i].features;
          features_of_ = parts_[i].model;
        } else if (!fits(*found, spec)) {
          return clash("input '" + name + "' is " + spec_text(*found) + " for one step and " +
                       spec_text(spec) + " for step '" + graph_.steps[i].name + "'");
        } else if (!width_of(found->shape)) {
          found = spec;  // One that knows more.
        }
      }
    }
    return {};
  }

  Result<Piece> piece_of(const GraphSource& source) const {
    const auto slot = slots_.find(source.tensor);
    if (slot == slots_.end()) return clash("nobody gives '" + source.tensor + "'");
    const auto width = width_of(specs_[slot->second].shape);
    if (source.element && width && *source.element >= *width) {
      return clash("'" + source.tensor + "' has " + std::to_string(*width) +
                   " elements a row: there is no [" + std::to_string(*source.element) + "]");
    }
    return Piece{slot->second, source.element};
  }

  // Elements that a piece adds to a row; they have to be known.
  Result<std::size_t> width_of_piece(const Piece& piece) const {
    if (piece.element) return std::size_t{1};
    const auto width = width_of(specs_[piece.slot].shape);
    if (width) return *width;
    return clash("'" + specs_[piece.slot].name +
                 "' has no known width: " + spec_text(specs_[piece.slot]));
  }

  Status check_feed(const Feed& feed) const {
    if (!has_rows(feed.wanted)) {
      return clash("input '" + feed.wanted.name + "' is " + spec_text(feed.wanted) +
                   ": its first dimension does not count rows");
    }
    if (feed.pieces.size() == 1 && !feed.pieces[0].element) {
      const TensorSpec& has = specs_[feed.pieces[0].slot];
      if (fits(has, feed.wanted)) return {};
      return clash("input '" + feed.wanted.name + "' is " + spec_text(feed.wanted) + ", and '" +
                   has.name + "' is " + spec_text(has));
    }
    if (feed.wanted.datatype == "BYTES") {
      return clash("input '" + feed.wanted.name + "' is BYTES, which takes one tensor, whole");
    }
    std::size_t width = 0;
    for (const Piece& piece : feed.pieces) {
      if (specs_[piece.slot].datatype != feed.wanted.datatype) {
        return clash("input '" + feed.wanted.name + "' is " + feed.wanted.datatype + ", and '" +
                     specs_[piece.slot].name + "' is " + specs_[piece.slot].datatype);
      }
      width += FALAJ_TRY(width_of_piece(piece));
    }
    const auto wanted = width_of(feed.wanted.shape);
    if (wanted ? *wanted == width : feed.wanted.shape.size() == 2) return {};
    return clash("input '" + feed.wanted.name + "' is " + spec_text(feed.wanted) + ", and " +
                 std::to_string(width) + " elements a row are put together");
  }

  Status add_model(const GraphStep& step, const GraphPart& part) {
    Work work;
    work.session = part.session.get();
    const registry::Signature& signature = part.session->signature();
    for (const TensorSpec& wanted : signature.inputs) {
      const auto given = std::find_if(step.inputs.begin(), step.inputs.end(),
                                      [&](const auto& each) { return each.first == wanted.name; });
      if (given == step.inputs.end()) {
        return clash("input '" + wanted.name + "' of model '" + part.model + "' is given nothing");
      }
      Feed feed{wanted, {}};
      for (const GraphSource& source : given->second) {
        feed.pieces.push_back(FALAJ_TRY(piece_of(source)));
      }
      FALAJ_TRY(check_feed(feed));
      work.feeds.push_back(std::move(feed));
    }
    if (step.inputs.size() != signature.inputs.size()) {
      return clash("model '" + part.model + "' has " + std::to_string(signature.inputs.size()) +
                   " inputs, and " + std::to_string(step.inputs.size()) + " are given");
    }
    for (const auto& [output, tensor] : step.outputs) {
      std::size_t at = 0;
      while (at < signature.outputs.size() && signature.outputs[at].name != output) ++at;
      if (at == signature.outputs.size()) {
        return clash("model '" + part.model + "' has no output '" + output + "'");
      }
      if (!has_rows(signature.outputs[at])) {
        return clash("output '" + output + "' is " + spec_text(signature.outputs[at]) +
                     ": its first dimension does not count rows");
      }
      work.gives.emplace_back(at, add_slot(tensor, signature.outputs[at]));
    }
    work_.push_back(std::move(work));
    return {};
  }

  Status add_rule(const GraphStep& step) {
    table::Schema schema;
    std::map<std::string, Piece> pieces;
    for (const auto& [name, sources] : step.inputs) {
      const Piece piece = FALAJ_TRY(piece_of(sources[0]));
      if (FALAJ_TRY(width_of_piece(piece)) != 1) {
        return clash("'" + name + "' reads all of '" + sources[0].tensor +
                     "'; name one element of a row, such as \"" + sources[0].tensor + "[0]\"");
      }
      schema.fields.push_back({name, FALAJ_TRY(rule_type(specs_[piece.slot].datatype))});
      pieces[name] = piece;
    }
    expression::Expression compiled = FALAJ_TRY(expression::Expression::compile(step.rule, schema));
    std::string datatype = FALAJ_TRY(rule_datatype(compiled.type(), step.as));
    Work work;
    std::vector<Piece> columns;
    for (const table::Field& field : compiled.columns()) columns.push_back(pieces[field.name]);
    work.slot = add_slot(step.name, {step.name, datatype, {-1}});
    work.rule = Rule{std::move(compiled), std::move(columns), std::move(datatype)};
    work_.push_back(std::move(work));
    return {};
  }

  std::size_t add_slot(const std::string& name, TensorSpec spec) {
    spec.name = name;
    slots_[name] = specs_.size();
    specs_.push_back(std::move(spec));
    return specs_.size() - 1;
  }

  Status take_inputs(std::span<const Tensor> inputs, std::vector<Tensor>& slots) const {
    for (std::size_t i = 0; i < signature_.inputs.size(); ++i) {
      const TensorSpec& spec = signature_.inputs[i];
      const auto found = std::find_if(inputs.begin(), inputs.end(),
                                      [&](const Tensor& each) { return each.name == spec.name; });
      if (found == inputs.end()) return clash("input '" + spec.name + "' is missing");
      if (found->datatype != spec.datatype || found->shape.size() != spec.shape.size()) {
        return clash("input '" + spec.name + "' is " + found->datatype + " " +
                     shape_text(found->shape) + ", and the graph wants " + spec_text(spec));
      }
      slots[i] = *found;
      FALAJ_TRY(rows_in(std::span<const Tensor>(&slots[i], 1)));
      FALAJ_TRY(checked_width(slots[i]));
    }
    return {};
  }

  static Result<Tensor> fed(const Feed& feed, std::size_t rows, const std::vector<Tensor>& slots) {
    const auto wanted = width_of(feed.wanted.shape);
    if (feed.pieces.size() == 1 && !feed.pieces[0].element) {
      Tensor whole = slots[feed.pieces[0].slot];
      whole.name = feed.wanted.name;
      if (wanted && FALAJ_TRY(checked_width(whole)) == *wanted) {
        whole.shape = feed.wanted.shape;
        whole.shape[0] = static_cast<std::int64_t>(rows);
      }
      return whole;
    }
    Tensor joined{feed.wanted.name, feed.wanted.datatype, feed.wanted.shape, {}};
    const std::size_t bytes = element_bytes(FALAJ_TRY(parse_datatype(joined.datatype)));
    std::vector<std::size_t> widths;
    std::size_t total = 0;
    for (const Piece& piece : feed.pieces) {
      widths.push_back(FALAJ_TRY(checked_width(slots[piece.slot])));
      if (element_in(piece) >= widths.back())
        return clash("a row of '" + joined.name + "' is short");
      total += piece.element ? 1 : widths.back();
    }
    joined.bytes.reserve(rows * total * bytes);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < feed.pieces.size(); ++i) {
        const Piece& piece = feed.pieces[i];
        const std::size_t first = row * widths[i] + element_in(piece);
        joined.bytes.append(slots[piece.slot].bytes, first * bytes,
                            (piece.element ? 1 : widths[i]) * bytes);
      }
    }
    if (!wanted) joined.shape = {0, static_cast<std::int64_t>(total)};
    joined.shape[0] = static_cast<std::int64_t>(rows);
    return joined;
  }

  Status run_model(const Work& work, std::size_t rows, std::vector<Tensor>& slots) const {
    std::vector<Tensor> inputs;
    for (const Feed& feed : work.feeds) inputs.push_back(FALAJ_TRY(fed(feed, rows, slots)));
    std::vector<Tensor> outputs = FALAJ_TRY(work.session->run(inputs));
    for (const auto& [output, slot] : work.gives) {
      if (output >= outputs.size() || FALAJ_TRY(rows_in(std::span(&outputs[output], 1))) != rows) {
        return clash("the model answers with another number of rows than it was asked");
      }
      slots[slot] = outputs[output];
      slots[slot].name = specs_[slot].name;
    }
    return {};
  }

  Status run_rule(const Work& work, std::size_t rows, std::vector<Tensor>& slots) const {
    std::vector<table::Column> columns;
    for (const Piece& piece : work.rule->columns) {
      const std::size_t width = FALAJ_TRY(checked_width(slots[piece.slot]));
      if (element_in(piece) >= width) return clash("a row of its input is short");
      columns.push_back(FALAJ_TRY(column_of(slots[piece.slot], rows, width, element_in(piece))));
    }
    std::vector<const table::Column*> read;
    for (const table::Column& column : columns) read.push_back(&column);
    const table::Column answer = work.rule->expression.evaluate(read, rows);
    slots[work.slot] = FALAJ_TRY(tensor_of(answer, specs_[work.slot].name, work.rule->datatype));
    return {};
  }

  Graph graph_;
  std::vector<GraphPart> parts_;
  std::string digest_;
  registry::Signature signature_;
  std::string features_of_;
  std::vector<std::string> features_;
  std::map<std::string, std::size_t, std::less<>> slots_;
  std::vector<TensorSpec> specs_;  // Of each slot: the inputs first.
  std::vector<Work> work_;
};

void add_text(std::string& out, std::string_view text) {
  out += std::to_string(text.size()) + ":";
  out += text;
}

}  // namespace

std::string graph_digest(const Graph& graph, const std::vector<GraphPart>& parts) {
  std::string all;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const GraphStep& step = graph.steps[i];
    for (const std::string_view text :
         {std::string_view(step.name), std::string_view(step.model), std::string_view(step.rule),
          std::string_view(step.as), std::string_view(parts[i].onnx)}) {
      add_text(all, text);
    }
    for (const auto& [name, sources] : step.inputs) {
      add_text(all, name);
      all += std::to_string(sources.size()) + "(";
      for (const GraphSource& source : sources) {
        add_text(all, source.tensor);
        all += source.element ? std::to_string(*source.element) : "-";
      }
      all += ")";
    }
    for (const auto& [output, tensor] : step.outputs) {
      add_text(all, output);
      add_text(all, tensor);
    }
    all += ";";
  }
  for (const std::string& answer : graph.answers) add_text(all, answer);
  return sha256_hex(all);
}

Result<std::shared_ptr<GraphSession>> make_graph_session(const Graph& graph,
                                                         std::vector<GraphPart> parts) {
  if (parts.size() != graph.steps.size()) {
    return Error(Code::kInternal, "a graph of " + std::to_string(graph.steps.size()) +
                                      " steps with " + std::to_string(parts.size()) + " parts");
  }
  auto steps = std::make_shared<Steps>(graph, std::move(parts));
  FALAJ_TRY(steps->build());
  return std::shared_ptr<GraphSession>(std::move(steps));
}

}  // namespace falaj::serving
