#include "expression/expression.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "expression/internal/program.h"

namespace falaj::expression {
namespace {

using table::Batch;
using table::Column;

constexpr std::size_t kBlockRows = 1024;
// Where texts are computed: 512 operations of the longest texts still fit into 128 MiB.
constexpr std::size_t kTextRows = 64;

constexpr std::size_t kWidthMax = sizeof(std::string_view);

// A register's own memory, wide enough for any type.
struct Block {
  std::unique_ptr<std::byte[]> data;
  std::size_t rows = 0;  // That there is room for.
  std::vector<std::uint8_t> valid;
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.get());
  }
};

void put(Block& block, Type type, std::size_t row, const Cell& cell) {
  block.valid[row] = cell.is_null ? 0 : 1;
  switch (type) {
    case Type::kBool:
      block.as<std::uint8_t>()[row] = !cell.is_null && cell.integer != 0 ? 1 : 0;
      break;
    case Type::kInt64:
    case Type::kTimestamp:
      block.as<std::int64_t>()[row] = cell.is_null ? 0 : cell.integer;
      break;
    case Type::kFloat64:
      block.as<double>()[row] = cell.is_null ? 0 : cell.number;
      break;
    case Type::kString:
      block.as<std::string_view>()[row] = cell.is_null ? std::string_view() : cell.text;
      break;
  }
}

}  // namespace

struct Expression::Program {
  std::string text;
  Steps steps;
};

struct Scratch::Impl {
  std::shared_ptr<const Expression::Program> program;
  std::size_t rows = 0;  // That the blocks have room for.
  std::vector<Block> blocks;
  std::vector<Operand> operands;  // What each register is now: its block, or a column's values.
  TextRoom room;

  void prepare(const std::shared_ptr<const Expression::Program>& wanted, std::size_t count) {
    room.clear();
    if (program == wanted && rows >= count) return;
    const Steps& steps = wanted->steps;
    program = wanted;
    rows = std::max(rows, count);
    blocks.resize(std::max(blocks.size(), steps.registers.size()));
    operands.resize(blocks.size());
    for (std::size_t i = 0; i < steps.registers.size(); ++i) {
      if (blocks[i].rows < rows) {
        blocks[i].data = std::make_unique_for_overwrite<std::byte[]>(rows * kWidthMax);
        blocks[i].rows = rows;
      }
      blocks[i].valid.assign(rows, 1);
      operands[i] = {blocks[i].data.get(), blocks[i].valid.data()};
    }
    for (const Constant& each : steps.constants) {
      const Cell cell{each.is_null, each.integer, each.number, each.text};
      for (std::size_t row = 0; row < rows; ++row) {
        put(blocks[each.answer], steps.registers[each.answer], row, cell);
      }
    }
  }

  // Makes register `place` rows [begin, begin + count) of a column.
  void point_to(Register place, const Column& column, bool nulls, std::size_t begin,
                std::size_t count) {
    Block& block = blocks[place];
    Operand& operand = operands[place];
    switch (column.type()) {
      case Type::kBool:
        operand.data = column.bools().data() + begin;
        break;
      case Type::kInt64:
      case Type::kTimestamp:
        operand.data = column.ints().data() + begin;
        break;
      case Type::kFloat64:
        operand.data = column.doubles().data() + begin;
        break;
      case Type::kString:
        for (std::size_t i = 0; i < count; ++i) {
          block.as<std::string_view>()[i] = column.strings()[begin + i];
        }
        break;
    }
    if (!nulls) return;
    for (std::size_t i = 0; i < count; ++i) block.valid[i] = column.is_null(begin + i) ? 0 : 1;
  }
};

Scratch::Scratch() : impl_(std::make_unique<Impl>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

namespace {

void append(const Operand& result, Type type, std::size_t rows, Column& out) {
  for (std::size_t i = 0; i < rows; ++i) {
    if (result.valid[i] == 0) {
      out.push_null();
      continue;
    }
    switch (type) {
      case Type::kBool:
        out.push_bool(result.as<std::uint8_t>()[i] != 0);
        break;
      case Type::kInt64:
      case Type::kTimestamp:
        out.push_int(result.as<std::int64_t>()[i]);
        break;
      case Type::kFloat64:
        out.push_double(result.as<double>()[i]);
        break;
      case Type::kString:
        out.push_string(result.as<std::string_view>()[i]);
        break;
    }
  }
}

}  // namespace

Result<Expression> Expression::compile(std::string_view text, const table::Schema& columns,
                                       std::string_view row_time) {
  const Node node = FALAJ_TRY(parse(text));
  Steps steps = FALAJ_TRY(lower(node, text, columns, row_time));
  return Expression(std::make_shared<const Program>(Program{std::string(text), std::move(steps)}));
}

table::Type Expression::type() const { return program_->steps.registers[program_->steps.result]; }
const std::vector<table::Field>& Expression::columns() const { return program_->steps.columns; }
const std::string& Expression::text() const { return program_->text; }

void Expression::run(Scratch& scratch, std::size_t rows) const {
  Scratch::Impl& memory = *scratch.impl_;
  std::array<Operand, kOperandsMax> operands;
  for (const Step& step : program_->steps.steps) {
    for (std::size_t i = 0; i < kOperandsMax; ++i) {
      operands[i] = memory.operands[step.operands[i]];
    }
    Block& block = memory.blocks[step.answer];
    step.kernel(operands.data(), rows, {block.data.get(), block.valid.data(), &memory.room});
  }
}

Column Expression::evaluate(const Batch& rows) const {
  std::vector<const Column*> columns;
  for (const table::Field& field : program_->steps.columns) {
    columns.push_back(rows.find(field.name));
    FALAJ_CHECK(columns.back() != nullptr);
  }
  return evaluate(columns, rows.rows());
}

Column Expression::evaluate(std::span<const Column* const> columns, std::size_t rows) const {
  const Steps& steps = program_->steps;
  FALAJ_CHECK(columns.size() == steps.columns.size());
  std::vector<bool> nulls;  // Which of them have any.
  for (std::size_t i = 0; i < columns.size(); ++i) {
    FALAJ_CHECK(columns[i]->type() == steps.columns[i].type && columns[i]->size() == rows);
    nulls.push_back(columns[i]->null_count() > 0);
  }
  Column out(type());
  out.reserve(rows);
  Scratch scratch;
  const bool texts = std::any_of(steps.steps.begin(), steps.steps.end(), [&](const Step& step) {
    return steps.registers[step.answer] == Type::kString;
  });
  const std::size_t block = texts ? kTextRows : kBlockRows;
  for (std::size_t begin = 0; begin < rows; begin += block) {
    const std::size_t count = std::min(block, rows - begin);
    scratch.impl_->prepare(program_, count);
    for (Register i = 0; i < columns.size(); ++i) {
      scratch.impl_->point_to(i, *columns[i], nulls[i], begin, count);
    }
    run(scratch, count);
    append(scratch.impl_->operands[steps.result], type(), count, out);
  }
  return out;
}

Cell Expression::evaluate(std::span<const Cell> row, Scratch& scratch) const {
  const Steps& steps = program_->steps;
  FALAJ_CHECK(row.size() == steps.columns.size());
  Scratch::Impl& memory = *scratch.impl_;
  memory.prepare(program_, 1);
  for (std::size_t i = 0; i < row.size(); ++i) {
    put(memory.blocks[i], steps.registers[i], 0, row[i]);
  }
  run(scratch, 1);
  const Operand& result = memory.operands[steps.result];
  Cell out;
  if (result.valid[0] == 0) return out;
  out.is_null = false;
  switch (type()) {
    case Type::kBool:
      out.integer = result.as<std::uint8_t>()[0];
      break;
    case Type::kInt64:
    case Type::kTimestamp:
      out.integer = result.as<std::int64_t>()[0];
      break;
    case Type::kFloat64:
      out.number = result.as<double>()[0];
      break;
    case Type::kString:
      out.text = result.as<std::string_view>()[0];
      break;
  }
  return out;
}

}  // namespace falaj::expression
