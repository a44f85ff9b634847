// expression/testing/tree_walk.h — the language once more, as plainly as it can be said: one value
// at a time, straight down the tree. Too slow to use and too simple to be wrong in the same way.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "expression/internal/syntax.h"
#include "expression/testing/plain_functions.h"

namespace falaj::expression::testing {

class TreeWalk {
 public:
  explicit TreeWalk(const Row& row) : row_(row) {}

  // No value for the word null, whose type others decide.
  std::optional<Type> type_of(const Node& node) const {
    switch (node.kind) {
      case NodeKind::kNull:
        return std::nullopt;
      case NodeKind::kBool:
        return Type::kBool;
      case NodeKind::kInt:
        return Type::kInt64;
      case NodeKind::kFloat:
        return Type::kFloat64;
      case NodeKind::kText:
        return Type::kString;
      case NodeKind::kColumn:
        return row_.at(node.text).type;
      case NodeKind::kCall:
        break;
    }
    return evaluate(node).type;  // A call's value has its type whether or not it is null.
  }

  Plain evaluate(const Node& node) const {
    switch (node.kind) {
      case NodeKind::kNull:
        return Plain::none(Type::kInt64);
      case NodeKind::kBool:
        return Plain::of(Type::kBool, node.integer);
      case NodeKind::kInt:
        return Plain::of(Type::kInt64, node.integer);
      case NodeKind::kFloat:
        return Plain::of(node.number);
      case NodeKind::kText:
        return Plain::of(node.text);
      case NodeKind::kColumn:
        return row_.at(node.text);
      case NodeKind::kCall:
        break;
    }
    return call(node);
  }

 private:
  // The values of some children, all of one type.
  std::vector<Plain> alike(const std::vector<const Node*>& nodes) const {
    std::optional<Type> common;
    for (const Node* node : nodes) {
      const std::optional<Type> type = type_of(*node);
      if (type && (!common || *type == Type::kFloat64)) common = type;
    }
    std::vector<Plain> out;
    for (const Node* node : nodes) out.push_back(evaluate(*node).as(*common));
    return out;
  }
  static std::vector<const Node*> all(const Node& node) {
    std::vector<const Node*> out;
    for (const Node& child : node.children) out.push_back(&child);
    return out;
  }

  static int compare(const Plain& a, const Plain& b) {  // 2: neither.
    if (a.type == Type::kString) return a.s < b.s ? -1 : (a.s == b.s ? 0 : 1);
    if (a.type == Type::kFloat64) {
      if (std::isnan(a.d) || std::isnan(b.d)) return 2;
      return a.d < b.d ? -1 : (a.d == b.d ? 0 : 1);
    }
    return a.i < b.i ? -1 : (a.i == b.i ? 0 : 1);
  }

  static Plain extreme(const Plain& a, const Plain& b, int wanted) {
    if (a.null || b.null) return Plain::none(a.type);
    const int order = compare(a, b);
    if (order == 2) return Plain::of(std::nan(""));
    if (order == 0 && a.type == Type::kFloat64) return std::signbit(a.d) == (wanted < 0) ? a : b;
    return order == wanted ? a : b;
  }

  Plain logic(const Node& node, std::int64_t deciding) const {
    const Plain a = evaluate(node.children[0]);
    const Plain b = evaluate(node.children[1]);
    if ((!a.null && a.i == deciding) || (!b.null && b.i == deciding)) {
      return Plain::of(Type::kBool, deciding);
    }
    if (a.null || b.null) return Plain::none(Type::kBool);
    return Plain::of(Type::kBool, 1 - deciding);
  }

  Plain compared(const Node& node) const {
    const std::vector<Plain> values = alike(all(node));
    if (values[0].null || values[1].null) return Plain::none(Type::kBool);
    const int order = compare(values[0], values[1]);
    const std::string& op = node.text;
    if (op == "==") return Plain::flag(order == 0);
    if (op == "!=") return Plain::flag(order != 0);
    if (order == 2) return Plain::flag(false);
    if (op == "<") return Plain::flag(order < 0);
    if (op == "<=") return Plain::flag(order <= 0);
    if (op == ">") return Plain::flag(order > 0);
    return Plain::flag(order >= 0);
  }

  Plain special(const Node& node, bool& known) const {
    const std::string& name = node.text;
    known = true;
    if (name == "and") return logic(node, 0);
    if (name == "or") return logic(node, 1);
    if (name == "is_null") return Plain::flag(evaluate(node.children[0]).null);
    if (name == "==" || name == "!=" || name[0] == '<' || name[0] == '>') return compared(node);
    if (name == "row_time") return row_.at("time");
    if (name == "coalesce") {
      std::vector<Plain> values = alike(all(node));
      for (const Plain& value : values) {
        if (!value.null) return value;
      }
      return values[0];
    }
    if (name == "min" || name == "max" || name == "clamp") {
      std::vector<Plain> values = alike(all(node));
      if (name == "clamp") return extreme(extreme(values[0], values[1], 1), values[2], -1);
      Plain out = values[0];
      for (std::size_t i = 1; i < values.size(); ++i) {
        out = extreme(out, values[i], name == "min" ? -1 : 1);
      }
      return out;
    }
    if (name == "nullif") {
      const std::vector<Plain> values = alike(all(node));
      if (values[0].null || values[1].null) return Plain::none(values[0].type);
      return compare(values[0], values[1]) == 0 ? Plain::none(values[0].type) : values[0];
    }
    if (name == "in") {
      const std::vector<Plain> values = alike(all(node));
      bool unknown = values[0].null;
      for (std::size_t i = 1; i < values.size(); ++i) {
        if (values[i].null) unknown = true;
        if (!values[0].null && !values[i].null && compare(values[0], values[i]) == 0) {
          return Plain::flag(true);
        }
      }
      return unknown ? Plain::none(Type::kBool) : Plain::flag(false);
    }
    if (name == "if") {
      std::vector<const Node*> branches;
      const std::size_t count = node.children.size();
      for (std::size_t i = 1; i < count; i += 2) branches.push_back(&node.children[i]);
      branches.push_back(&node.children.back());
      const std::vector<Plain> values = alike(branches);
      for (std::size_t i = 0; i + 1 < count; i += 2) {
        const Plain met = evaluate(node.children[i]);
        if (!met.null && met.i != 0) return values[i / 2];
      }
      return values.back();
    }
    known = false;
    return {};
  }

  // The quotient, mended by one where it leaves less than nothing of `a`, or where one more would
  // not. What is left is rounded once, so its sign is exact.
  static double floored(double a, double b) {
    const double guess = std::floor(a / b);
    if (!std::isfinite(b) || !(std::fabs(a / b) < 0x1p50)) return guess;
    const auto leaves_enough = [&](double whole) {
      const double left = std::fma(-whole, b, a);
      return left == 0 || std::signbit(left) == std::signbit(b);
    };
    if (!leaves_enough(guess)) return guess - 1;
    return (leaves_enough(guess + 1) ? guess + 1 : guess) + 0.0;
  }

  static Plain arithmetic(const std::string& op, Plain a, Plain b) {
    const bool floats = a.type == Type::kFloat64 || b.type == Type::kFloat64 || op == "/";
    const Type type = floats ? Type::kFloat64 : Type::kInt64;
    if (a.null || b.null) return Plain::none(type);
    a = a.as(type);
    b = b.as(type);
    const bool divides = op == "/" || op == "//" || op == "%";
    if (divides && (floats ? b.d == 0 : b.i == 0)) return Plain::none(type);
    if (floats) {
      if (op == "+") return Plain::of(a.d + b.d);
      if (op == "-") return Plain::of(a.d - b.d);
      if (op == "*") return Plain::of(a.d * b.d);
      if (op == "/") return Plain::of(a.d / b.d);
      if (op == "//") return Plain::of(floored(a.d, b.d));
      double rest = std::fmod(a.d, b.d);
      if (rest != 0 && std::signbit(rest) != std::signbit(b.d)) rest += b.d;
      return Plain::of(rest);
    }
    const Wide x = a.i;
    const Wide y = b.i;
    if (op == "+") return Plain::whole(x + y);
    if (op == "-") return Plain::whole(x - y);
    if (op == "*") return Plain::whole(x * y);
    Wide quotient = x / y;
    if (quotient * y != x && (x < 0) != (y < 0)) --quotient;
    return Plain::whole(op == "//" ? quotient : x - quotient * y);
  }

  Plain call(const Node& node) const {
    bool known = false;
    Plain out = special(node, known);
    if (known) return out;
    std::vector<Plain> v;
    for (const Node& child : node.children) v.push_back(evaluate(child));
    const std::string& name = node.text;
    if (name == "+" || name == "-" || name == "*" || name == "/" || name == "//" || name == "%") {
      return arithmetic(name, v[0], v[1]);
    }
    bool null = false;
    for (const Plain& each : v) null = null || each.null;
    if (name == "not") return null ? Plain::none(Type::kBool) : Plain::flag(v[0].i == 0);
    if (const auto number = number_call(name, v, null)) return *number;
    if (const auto text = text_call(name, v, null)) return *text;
    return time_call(name, v, null);
  }

  const Row& row_;
};

}  // namespace falaj::expression::testing
