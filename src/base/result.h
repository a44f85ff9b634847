// base/result.h — how every fallible Falaj function reports failure.
//
// Own code never throws: expected failures travel as Result, broken invariants stop the process
// (base/check.h). An Error is for a person: what failed, on which named thing, what to do next.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error_ids.h"

namespace falaj {

struct [[nodiscard]] Error {
  Error(Code c, std::string text) : code(c), id(generic_error_id(c)), message(std::move(text)) {}
  Error(ErrorId i, std::string text) : code(error_info(i).code), id(i), message(std::move(text)) {}

  Code code;
  ErrorId id;
  std::string message;

  // The same failure seen from one level up: "ingest payments: <message>".
  Error within(std::string_view context) const;
  bool operator==(const Error&) const = default;
};

// "FJ-1003", as printed everywhere.
std::string to_string(ErrorId id);

template <class T>
class [[nodiscard]] Result {
 public:
  using Value = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  // By value: what is taken from a temporary must not end with it.
  T value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }
  T value_or(T fallback) const& { return ok() ? value() : std::move(fallback); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  void value() const {}
  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

using Status = Result<void>;

}  // namespace falaj

// Evaluates to the value, or returns the error from the enclosing function.
//   const Row row = FALAJ_TRY(read_row(id));
//   FALAJ_TRY(write(row));
#define FALAJ_TRY(expression) FALAJ_TRY_AS(FALAJ_TRY_NAME(__COUNTER__), expression)
// A name of its own each time, so that FALAJ_TRY works inside a lambda inside FALAJ_TRY.
#define FALAJ_TRY_NAME(n) FALAJ_TRY_PASTE(falaj_try_result_, n)
#define FALAJ_TRY_PASTE(a, b) a##b
#define FALAJ_TRY_AS(name, expression)              \
  __extension__({                                   \
    auto name = (expression);                       \
    if (!name.ok()) return std::move(name).error(); \
    std::move(name).value();                        \
  })
