// expression/internal/syntax.h — an expression as a tree, as it was written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::expression {

enum class NodeKind : std::uint8_t { kNull, kBool, kInt, kFloat, kText, kColumn, kCall };

// Operators are calls too: "+", "negate", "and", "==", "in", …
struct Node {
  NodeKind kind = NodeKind::kNull;
  std::size_t at = 0;  // Byte where it begins; of an operator its own place.
  std::string text;    // Of a text, the column's or the function's name.
  std::int64_t integer = 0;
  double number = 0;
  std::vector<Node> children;
};

// FJ-3050 when it is not an expression, or larger than expression.h allows.
Result<Node> parse(std::string_view text);

// FJ-3050 with the problem, the place in words, the line and a caret below it.
Error fault(std::string_view text, std::size_t at, const std::string& problem);

}  // namespace falaj::expression
