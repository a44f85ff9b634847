#include "serving/graph/declaration.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/decode.h"
#include "expression/expression.h"

namespace falaj::serving {
namespace {

constexpr std::size_t kSourcesMax = 256;
constexpr std::size_t kNameMax = 128;

Error invalid(const std::string& where, const std::string& what) {
  return Error(ErrorId::kInvalidArgument, where + ": " + what);
}

Status check_tensor(const std::string& where, std::string_view name) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || c == '-' || c == ':' || c == '/';
  };
  if (name.empty() || name.size() > kNameMax || !std::all_of(name.begin(), name.end(), plain)) {
    return invalid(where, "'" + std::string(name.substr(0, kNameMax)) + "' is no name of a tensor");
  }
  return {};
}

// "rows" or "rows[2]"
Result<GraphSource> decode_source(const Value& value, const std::string& where) {
  if (!value.is_string()) return invalid(where, "a source is a text such as rows or \"rows[2]\"");
  const std::string& text = value.as_string();
  const std::size_t open = text.find('[');
  GraphSource source{text.substr(0, open), std::nullopt};
  if (open != std::string::npos) {
    std::size_t element = 0;
    const char* const begin = text.data() + open + 1;
    const char* const end = text.data() + text.size();
    const auto [at, failure] = std::from_chars(begin, end, element);
    if (failure != std::errc() || at + 1 != end || *at != ']') {
      return invalid(where, "'" + text.substr(0, kNameMax) + "' is not NAME[NUMBER]");
    }
    source.element = element;
  }
  FALAJ_TRY(check_tensor(where, source.tensor));
  return source;
}

Result<std::vector<GraphSource>> decode_sources(const Value& value, const std::string& where) {
  std::vector<GraphSource> sources;
  if (!value.is_array()) {
    sources.push_back(FALAJ_TRY(decode_source(value, where)));
    return sources;
  }
  for (const Value& each : value.as_array()) {
    sources.push_back(FALAJ_TRY(decode_source(each, where)));
  }
  if (sources.empty() || sources.size() > kSourcesMax) {
    return invalid(where, "wants 1 to " + std::to_string(kSourcesMax) + " sources");
  }
  return sources;
}

Status check_step(const GraphStep& step, std::string_view model, const std::string& where) {
  if (step.inputs.empty()) return invalid(where, "'inputs' says what the step reads");
  if (step.model.empty() == step.rule.empty()) {
    return invalid(where, "give 'model' or 'rule', one of them");
  }
  if (!step.rule.empty()) {
    if (!step.outputs.empty() || !step.alias.empty() || step.version) {
      return invalid(where,
                     "a rule has no 'outputs', 'alias' or 'version': it gives one tensor, "
                     "named as the step");
    }
    for (const auto& [name, sources] : step.inputs) {
      if (sources.size() != 1) return invalid(where, "'" + name + "' of a rule has one source");
    }
    return {};
  }
  if (step.outputs.empty()) {
    return invalid(where, "'outputs' says which outputs of the model become which tensors");
  }
  if (!step.as.empty()) return invalid(where, "'as' is for rules");
  if (step.model == model && (!step.alias.empty() || step.version)) {
    return invalid(where,
                   "the deployment itself says which version of '" + step.model + "' serves");
  }
  if (!step.alias.empty() && step.version) return invalid(where, "give 'alias' or 'version'");
  return {};
}

const Value::Object& members(const Value& value) {
  static const Value::Object kNone;
  return value.is_object() ? value.as_object() : kNone;
}

Result<GraphStep> decode_step(const Value& value, std::string_view model,
                              const std::string& where) {
  Fields fields(value, where);
  GraphStep step;
  step.name = FALAJ_TRY(fields.required_text("name"));
  FALAJ_TRY(check_name("step", step.name));
  step.model = FALAJ_TRY(fields.text("model"));
  if (!step.model.empty()) FALAJ_TRY(check_name("model", step.model));
  step.alias = FALAJ_TRY(fields.text("alias"));
  if (!step.alias.empty()) FALAJ_TRY(check_name("alias", step.alias));
  if (value.has("version")) {
    step.version = FALAJ_TRY(fields.integer("version", 1, 1, 1'000'000'000));
  }
  step.rule = FALAJ_TRY(fields.text("rule"));
  if (step.rule.size() > expression::kLengthMax) return invalid(where, "the rule is too long");
  step.as = FALAJ_TRY(fields.choice("as", {"", "FP32", "FP64", "INT32", "INT64", "BOOL", "BYTES"}));
  const Value inputs = FALAJ_TRY(fields.object("inputs"));
  for (const auto& [name, sources] : members(inputs)) {
    step.inputs.emplace_back(name, FALAJ_TRY(decode_sources(sources, where + " " + name)));
  }
  const Value outputs = FALAJ_TRY(fields.object("outputs"));
  for (const auto& [name, tensor] : members(outputs)) {
    if (!tensor.is_string()) return invalid(where, "output '" + name + "' becomes a name");
    FALAJ_TRY(check_tensor(where, tensor.as_string()));
    step.outputs.emplace_back(name, tensor.as_string());
  }
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_step(step, model, where));
  if (!step.model.empty() && step.model != model && step.alias.empty() && !step.version) {
    step.alias = "champion";
  }
  return step;
}

std::vector<std::string> given_by(const GraphStep& step) {
  if (!step.rule.empty()) return {step.name};
  std::vector<std::string> names;
  for (const auto& [output, tensor] : step.outputs) names.push_back(tensor);
  return names;
}

// Names are given once, and before they are read. Finds what is read and given by nobody.
Status check_order(Graph& graph, const std::string& where) {
  std::set<std::string> all;
  std::set<std::string> names;
  for (const GraphStep& step : graph.steps) {
    if (!names.insert(step.name).second) {
      return invalid(where, "two steps are named '" + step.name + "'");
    }
    for (const std::string& tensor : given_by(step)) {
      if (!all.insert(tensor).second) {
        return invalid(where, "the tensor '" + tensor + "' is given twice");
      }
    }
  }
  std::set<std::string> given;
  std::set<std::string> inputs;
  for (const GraphStep& step : graph.steps) {
    for (const auto& [name, sources] : step.inputs) {
      for (const GraphSource& source : sources) {
        if (given.contains(source.tensor)) continue;
        if (all.contains(source.tensor)) {
          return invalid(where, "step '" + step.name + "' reads '" + source.tensor +
                                    "', which itself or a later step gives: put the steps in "
                                    "order; a cycle has none");
        }
        if (inputs.insert(source.tensor).second) graph.inputs.push_back(source.tensor);
      }
    }
    for (const std::string& tensor : given_by(step)) given.insert(tensor);
  }
  return {};
}

Status choose_answers(const Value& answers, Graph& graph, const std::string& where) {
  std::set<std::string> read;
  std::vector<std::string> given;
  for (const GraphStep& step : graph.steps) {
    for (const auto& [name, sources] : step.inputs) {
      for (const GraphSource& source : sources) read.insert(source.tensor);
    }
    for (const std::string& tensor : given_by(step)) given.push_back(tensor);
  }
  if (answers.is_null()) {
    for (const std::string& tensor : given) {
      if (!read.contains(tensor)) graph.answers.push_back(tensor);
    }
    return {};  // The last step's are read by nobody.
  }
  if (!answers.is_array() || answers.as_array().empty()) {
    return invalid(where, "'answers' is a list of tensors");
  }
  for (const Value& each : answers.as_array()) {
    if (!each.is_string() ||
        std::find(given.begin(), given.end(), each.as_string()) == given.end()) {
      return invalid(where, "'answers' names what no step gives");
    }
    if (std::find(graph.answers.begin(), graph.answers.end(), each.as_string()) !=
        graph.answers.end()) {
      return invalid(where, "'" + each.as_string() + "' is among 'answers' twice");
    }
    graph.answers.push_back(each.as_string());
  }
  return {};
}

}  // namespace

Result<Graph> decode_graph(const Value& steps, const Value& answers, std::string_view model,
                           const std::string& where) {
  if (!steps.is_array() || steps.as_array().empty() || steps.as_array().size() > kGraphStepsMax) {
    return Error(ErrorId::kOutOfRange, where + ": 'graph' is a list of 1 to " +
                                           std::to_string(kGraphStepsMax) + " steps");
  }
  Graph graph;
  bool own = false;
  for (const Value& each : steps.as_array()) {
    const std::string place = where + " graph step " + std::to_string(graph.steps.size() + 1);
    graph.steps.push_back(FALAJ_TRY(decode_step(each, model, place)));
    own = own || graph.steps.back().model == model;
  }
  if (!own) {
    return invalid(where,
                   "no step of 'graph' uses the deployment's model '" + std::string(model) + "'");
  }
  FALAJ_TRY(check_order(graph, where));
  FALAJ_TRY(choose_answers(answers, graph, where));
  return graph;
}

}  // namespace falaj::serving
