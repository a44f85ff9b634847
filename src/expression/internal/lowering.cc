#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/decode.h"
#include "expression/internal/program.h"

namespace falaj::expression {
namespace {

// A lowered node. No type: the word null, which becomes what its neighbours are.
struct Lowered {
  const Node* node = nullptr;
  std::optional<Type> type;
  Register place = 0;
};

std::string name_of(const std::optional<Type>& type) {
  return type ? std::string(table::type_name(*type)) : "null";
}

std::string names_of(const std::vector<Type>& types) {
  std::string out = "(";
  for (const Type type : types) {
    out.append(out.size() == 1 ? "" : ", ").append(table::type_name(type));
  }
  return out + ")";
}

bool widens(Type from, Type to) { return from == Type::kInt64 && to == Type::kFloat64; }

// How many changes make the operands fit; none when they cannot.
std::optional<int> cost_of(const Overload& overload, const std::vector<Lowered>& operands) {
  if (overload.takes.size() != operands.size()) return std::nullopt;
  int out = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].type || *operands[i].type == overload.takes[i]) continue;
    if (!widens(*operands[i].type, overload.takes[i])) return std::nullopt;
    ++out;
  }
  return out;
}

constexpr std::array<std::string_view, 5> kOwnForms = {"bucket", "clamp", "row_time", "in", "if"};

class Lowering {
 public:
  Lowering(std::string_view text, const table::Schema& schema, std::string_view row_time)
      : text_(text), schema_(schema), row_time_(row_time) {}

  // Columns first: their registers are the lowest.
  Status find_columns(const Node& node) {
    const bool time = node.kind == NodeKind::kCall && node.text == "row_time";
    if (node.kind == NodeKind::kColumn || time) FALAJ_TRY(column_of(node));
    for (const Node& child : node.children) FALAJ_TRY(find_columns(child));
    return {};
  }

  Result<Steps> run(const Node& node) {
    FALAJ_TRY(find_columns(node));
    const Lowered result = FALAJ_TRY(lower(node));
    if (!result.type) return fault(text_, node.at, "the expression is always null");
    out_.result = result.place;
    return std::move(out_);
  }

 private:
  Error at(const Node& node, const std::string& problem) const {
    return fault(text_, node.at, problem);
  }

  Result<Register> column_of(const Node& node) {
    const bool time = node.kind == NodeKind::kCall;
    const std::string_view name = time ? row_time_ : std::string_view(node.text);
    if (time && !node.children.empty()) return at(node, "row_time() takes nothing");
    if (time && name.empty()) return at(node, "rows have no time here");
    const auto place = schema_.find(name);
    if (!place) return unknown_column(node);
    const table::Field& field = schema_.fields[*place];
    const auto known = std::find(out_.columns.begin(), out_.columns.end(), field);
    if (known != out_.columns.end()) return static_cast<Register>(known - out_.columns.begin());
    out_.columns.push_back(field);
    return place_of(field.type);
  }

  Error unknown_column(const Node& node) const {
    std::vector<std::string> names;
    for (const table::Field& field : schema_.fields) {
      if (!field.name.starts_with("__")) names.push_back(field.name);  // Those are ours.
    }
    const std::string near = nearest_name(node.text, names);
    std::string problem = "there is no column \"" + node.text + "\"";
    if (!near.empty()) return at(node, problem + ": did you mean \"" + near + "\"?");
    for (std::size_t i = 0; i < names.size() && i < 10; ++i) {
      problem.append(i == 0 ? "; there are " : ", ").append(names[i]);
    }
    return at(node, problem + (names.size() > 10 ? ", …" : ""));
  }

  Register place_of(Type type) {
    out_.registers.push_back(type);
    return static_cast<Register>(out_.registers.size() - 1);
  }

  Register constant(Type type, const Node* node) {
    Constant value;
    value.answer = place_of(type);
    value.is_null = node == nullptr;
    if (node != nullptr) {
      value.integer = node->integer;
      value.number = node->number;
      value.text = node->text;
    }
    out_.constants.push_back(std::move(value));
    return out_.constants.back().answer;
  }

  Register emit(const Overload& overload, const std::vector<Register>& operands) {
    Step step{overload.kernel, {}, place_of(overload.gives)};
    std::copy(operands.begin(), operands.end(), step.operands.begin());
    out_.steps.push_back(step);
    return step.answer;
  }

  // The overload that takes exactly these: the caller has made them fit.
  static const Overload& exactly(std::string_view name, const std::vector<Type>& takes) {
    const auto& all = overloads();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Overload& each) {
      return each.name == name && each.takes == takes;
    });
    FALAJ_CHECK(found != all.end());
    return *found;
  }

  Lowered call(const Node& node, std::string_view name, const std::vector<Lowered>& operands) {
    std::vector<Type> takes;
    std::vector<Register> places;
    for (const Lowered& each : operands) {
      takes.push_back(*each.type);
      places.push_back(each.place);
    }
    const Overload& overload = exactly(name, takes);
    return {&node, overload.gives, emit(overload, places)};
  }

  Lowered converted(const Lowered& from, Type type) {
    if (!from.type) return {from.node, type, constant(type, nullptr)};
    if (*from.type == type) return from;
    return {from.node, type, emit(exactly("float64", {*from.type}), {from.place})};
  }

  Result<std::vector<Lowered>> lower_all(const std::vector<Node>& nodes) {
    std::vector<Lowered> out;
    for (const Node& node : nodes) out.push_back(FALAJ_TRY(lower(node)));
    return out;
  }

  // Makes all of them one type, from `first` on, in steps of `stride`.
  Status unify(const Node& node, std::vector<Lowered>& operands) {
    std::optional<Type> common;
    for (const Lowered& each : operands) {
      if (!each.type || common == each.type) continue;
      if (!common || widens(*common, *each.type)) {
        common = each.type;
      } else if (!widens(*each.type, *common)) {
        return at(*each.node, "this is " + name_of(each.type) + ", but what it stands beside is " +
                                  name_of(common) + ": convert one of them");
      }
    }
    if (!common) return at(node, "all of its values are null");
    for (Lowered& each : operands) each = converted(each, *common);
    return {};
  }

  Status want_count(const Node& node, bool right, const std::string& wanted) const {
    if (right) return {};
    return at(node,
              node.text + "() takes " + wanted + ", not " + std::to_string(node.children.size()));
  }

  // f(a, b, c) is f(f(a, b), c).
  Result<Lowered> folded(const Node& node) {
    FALAJ_TRY(want_count(node, node.children.size() >= 2, "two values or more"));
    std::vector<Lowered> operands = FALAJ_TRY(lower_all(node.children));
    FALAJ_TRY(unify(node, operands));
    if (node.text == "concat" && *operands[0].type != Type::kString) {
      return at(node, "concat() takes texts, not " + name_of(operands[0].type) +
                          ": make texts of them with string()");
    }
    Lowered out = operands[0];
    for (std::size_t i = 1; i < operands.size(); ++i) {
      out = call(node, node.text, {out, operands[i]});
    }
    return out;
  }

  Result<Lowered> alike(const Node& node) {
    FALAJ_TRY(want_count(node, node.children.size() == 2, "two values"));
    std::vector<Lowered> operands = FALAJ_TRY(lower_all(node.children));
    FALAJ_TRY(unify(node, operands));
    return call(node, node.text, operands);
  }

  Result<Lowered> one_of(const Node& node) {
    std::vector<Lowered> operands = FALAJ_TRY(lower_all(node.children));
    FALAJ_TRY(unify(node, operands));
    Lowered out = call(node, "==", {operands[0], operands[1]});
    for (std::size_t i = 2; i < operands.size(); ++i) {
      out = call(node, "or", {out, call(node, "==", {operands[0], operands[i]})});
    }
    return out;
  }

  // if(c1, v1, c2, v2, …, otherwise)
  Result<Lowered> chosen(const Node& node) {
    const std::size_t count = node.children.size();
    FALAJ_TRY(want_count(node, count >= 3 && count % 2 == 1,
                         "a condition and its value, more of such pairs, and a value otherwise"));
    std::vector<Lowered> conditions;
    std::vector<Lowered> values;
    for (std::size_t i = 0; i < count; ++i) {
      Lowered each = FALAJ_TRY(lower(node.children[i]));
      if (i % 2 == 1 || i + 1 == count) {
        values.push_back(each);
        continue;
      }
      if (each.type && *each.type != Type::kBool) {
        return at(*each.node, "a condition is a bool, but this is " + name_of(each.type));
      }
      conditions.push_back(converted(each, Type::kBool));
    }
    FALAJ_TRY(unify(node, values));
    Lowered out = values.back();
    for (std::size_t i = conditions.size(); i-- > 0;) {
      out = call(node, "if", {conditions[i], values[i], out});
    }
    return out;
  }

  Result<Lowered> clamped(const Node& node) {
    FALAJ_TRY(want_count(node, node.children.size() == 3, "a value, the least and the most"));
    std::vector<Lowered> operands = FALAJ_TRY(lower_all(node.children));
    FALAJ_TRY(unify(node, operands));
    const Lowered raised = call(node, "max", {operands[0], operands[1]});
    return call(node, "min", {raised, operands[2]});
  }

  Result<Lowered> hashed(const Node& node, std::span<const Node> children) {
    std::optional<Lowered> out;
    for (const Node& child : children) {
      const Lowered value = FALAJ_TRY(lower(child));
      if (!value.type) return at(child, "null has no hash");
      const Lowered hash = call(node, "hash", {value});
      out = out ? call(node, "hash both", {*out, hash}) : hash;
    }
    return *out;
  }

  Result<Lowered> bucketed(const Node& node) {
    FALAJ_TRY(want_count(node, node.children.size() == 2, "a value and how many buckets"));
    const Lowered hash = FALAJ_TRY(hashed(node, std::span(node.children).first(1)));
    const Lowered count = FALAJ_TRY(lower(node.children[1]));
    if (count.type != Type::kInt64) return at(*count.node, "how many buckets must be an int64");
    return call(node, "bucket of", {hash, count});
  }

  Result<Lowered> lower_call(const Node& node) {
    static const std::set<std::string_view> kFolded{"min", "max", "coalesce", "concat"};
    static const std::set<std::string_view> kAlike{"==", "!=", "<", "<=", ">", ">=", "nullif"};
    if (node.text == "row_time") {
      const auto place = FALAJ_TRY(column_of(node));
      return Lowered{&node, Type::kTimestamp, place};
    }
    if (kFolded.contains(node.text)) return folded(node);
    if (kAlike.contains(node.text)) return alike(node);
    if (node.text == "in") return one_of(node);
    if (node.text == "if") return chosen(node);
    if (node.text == "clamp") return clamped(node);
    if (node.text == "bucket") return bucketed(node);
    if (node.text == "hash") {
      FALAJ_TRY(want_count(node, !node.children.empty(), "one value or more"));
      return hashed(node, node.children);
    }
    return plain_call(node);
  }

  Result<Lowered> plain_call(const Node& node) {
    std::vector<Lowered> operands = FALAJ_TRY(lower_all(node.children));
    const Overload* best = nullptr;
    int least = 0;
    for (const Overload& each : overloads()) {
      if (each.name != node.text) continue;
      const std::optional<int> cost = cost_of(each, operands);
      if (!cost || (best != nullptr && *cost >= least)) continue;
      best = &each;
      least = *cost;
    }
    if (best == nullptr) return no_such_call(node, operands);
    std::vector<Register> places;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      places.push_back(converted(operands[i], best->takes[i]).place);
    }
    return Lowered{&node, best->gives, emit(*best, places)};
  }

  Error no_such_call(const Node& node, const std::vector<Lowered>& operands) const {
    std::vector<std::string> names(kOwnForms.begin(), kOwnForms.end());
    std::string takes;
    for (const Overload& each : overloads()) {
      names.emplace_back(each.name);
      if (each.name == node.text) takes += (takes.empty() ? "" : " or ") + names_of(each.takes);
    }
    if (takes.empty()) {
      const std::string near = nearest_name(node.text, names);
      return at(node, "there is no function \"" + node.text + "\"" +
                          (near.empty() ? std::string() : ": did you mean " + near + "()?"));
    }
    std::string given;
    for (const Lowered& each : operands) given += (given.empty() ? "" : ", ") + name_of(each.type);
    return at(node, "\"" + node.text + "\" takes " + takes + ", not (" + given + ")");
  }

  Result<Lowered> lower(const Node& node) {
    switch (node.kind) {
      case NodeKind::kNull:
        return Lowered{&node, std::nullopt, 0};
      case NodeKind::kBool:
        return Lowered{&node, Type::kBool, constant(Type::kBool, &node)};
      case NodeKind::kInt:
        return Lowered{&node, Type::kInt64, constant(Type::kInt64, &node)};
      case NodeKind::kFloat:
        return Lowered{&node, Type::kFloat64, constant(Type::kFloat64, &node)};
      case NodeKind::kText:
        return Lowered{&node, Type::kString, constant(Type::kString, &node)};
      case NodeKind::kColumn: {
        const Register place = FALAJ_TRY(column_of(node));
        return Lowered{&node, out_.registers[place], place};
      }
      case NodeKind::kCall:
        break;
    }
    return lower_call(node);
  }

  std::string_view text_;
  const table::Schema& schema_;
  std::string_view row_time_;
  Steps out_;
};

}  // namespace

Result<Steps> lower(const Node& node, std::string_view text, const table::Schema& schema,
                    std::string_view row_time) {
  return Lowering(text, schema, row_time).run(node);
}

}  // namespace falaj::expression
