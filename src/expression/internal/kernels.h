// expression/internal/kernels.h — what the functions of the language do, to blocks of values.
//
// A kernel is total: it answers for any operands, also for those of null rows, whose values mean
// nothing, and writes a value and a validity for each row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "table/schema.h"

namespace falaj::expression {

using table::Type;

// Bytes of computed texts, until it is emptied.
class TextRoom {
 public:
  // `size` bytes to be written to.
  char* take(std::size_t size);
  void clear();

 private:
  static constexpr std::size_t kPiece = 65'536;
  std::vector<std::unique_ptr<char[]>> pieces_;  // Each of kPiece bytes.
  std::size_t used_pieces_ = 0;
  std::size_t used_ = kPiece;  // Of the last piece in use.
};

// Values of a block: int64 (also of timestamps), double, uint8 (bool) or string_view.
struct Operand {
  const void* data = nullptr;
  const std::uint8_t* valid = nullptr;
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};
struct Answer {
  void* data = nullptr;
  std::uint8_t* valid = nullptr;
  TextRoom* room = nullptr;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};
using Kernel = void (*)(const Operand* operands, std::size_t rows, const Answer& answer);

inline constexpr std::size_t kOperandsMax = 3;

// One way to call a function.
struct Overload {
  std::string_view name;
  std::vector<Type> takes;  // At most kOperandsMax.
  Type gives;
  Kernel kernel;
};

// Null when an operand is, else F(operands…).
template <auto F, class R, class... A>
void total(const Operand* operands, std::size_t rows, const Answer& answer) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    R* out = answer.as<R>();
    for (std::size_t i = 0; i < rows; ++i) {
      answer.valid[i] = static_cast<std::uint8_t>((operands[I].valid[i] & ...));
      out[i] = static_cast<R>(F(operands[I].template as<A>()[i]...));
    }
  }(std::index_sequence_for<A...>());
}

// Null when an operand is, or when F(operands…, R& out) says that there is no answer.
template <auto F, class R, class... A>
void partial(const Operand* operands, std::size_t rows, const Answer& answer) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    R* out = answer.as<R>();
    for (std::size_t i = 0; i < rows; ++i) {
      out[i] = R{};
      const bool known = (operands[I].valid[i] & ...) != 0;
      answer.valid[i] = known && F(operands[I].template as<A>()[i]..., out[i]) ? 1 : 0;
    }
  }(std::index_sequence_for<A...>());
}

// The same for texts, whose bytes may need room: F(operands…, TextRoom&, string_view& out).
template <auto F, class... A>
void text(const Operand* operands, std::size_t rows, const Answer& answer) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    auto* out = answer.as<std::string_view>();
    for (std::size_t i = 0; i < rows; ++i) {
      out[i] = {};
      const bool known = (operands[I].valid[i] & ...) != 0;
      answer.valid[i] =
          known && F(operands[I].template as<A>()[i]..., *answer.room, out[i]) ? 1 : 0;
    }
  }(std::index_sequence_for<A...>());
}

// Parts of the catalogue, each from its source.
std::vector<Overload> value_functions();   // Of any type: comparing, choosing, nulls, hashes.
std::vector<Overload> number_functions();  // Arithmetic.
std::vector<Overload> text_functions();
std::vector<Overload> time_functions();

// All of them.
const std::vector<Overload>& overloads();

}  // namespace falaj::expression
