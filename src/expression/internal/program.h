// expression/internal/program.h — an expression as a list of kernel calls.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "expression/internal/kernels.h"
#include "expression/internal/syntax.h"
#include "table/schema.h"

namespace falaj::expression {

using Register = std::uint32_t;

struct Step {
  Kernel kernel;
  std::array<Register, kOperandsMax> operands;
  Register answer;
};

struct Constant {
  Register answer = 0;
  bool is_null = false;
  std::int64_t integer = 0;
  double number = 0;
  std::string text{};
};

// Registers 0…columns.size()-1 are the columns. Each of the others is written once, by a constant
// or a step.
struct Steps {
  std::vector<table::Field> columns;
  std::vector<Type> registers;
  std::vector<Constant> constants;
  std::vector<Step> steps;
  Register result = 0;
};

// Types the tree and lists its steps. FJ-3050 for a column or a function that there is not, or one
// that does not take what it is given.
Result<Steps> lower(const Node& node, std::string_view text, const table::Schema& schema,
                    std::string_view row_time);

}  // namespace falaj::expression
