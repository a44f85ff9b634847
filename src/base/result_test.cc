#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace falaj {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error(ErrorId::kOutOfRange, "odd");
  return n / 2;
}
Status check_even(int n) {
  FALAJ_TRY(half(n));
  return {};
}
Result<int> quarter(int n) {
  FALAJ_TRY(check_even(n));
  return half(FALAJ_TRY(half(n)));
}
Result<std::unique_ptr<int>> boxed(int n) {
  std::unique_ptr<int> box = FALAJ_TRY(Result<std::unique_ptr<int>>(std::make_unique<int>(n)));
  return box;
}

TEST(Result, propagates_values_and_errors) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(quarter(7).error().message, "odd");
  EXPECT_EQ(**boxed(5), 5);
  EXPECT_EQ(half(3).value_or(9), 9);
}

TEST(Result, an_error_seen_from_above_keeps_its_number) {
  const Error outer = Error(ErrorId::kMissingField, "x is missing").within("ingest payments");
  EXPECT_EQ(outer.message, "ingest payments: x is missing");
  EXPECT_EQ(outer.id, ErrorId::kMissingField);
  EXPECT_EQ(outer.code, Code::kInvalidArgument);
}

TEST(Result, a_class_alone_takes_its_generic_number) {
  EXPECT_EQ(to_string(Error(Code::kNotFound, "").id), "FJ-0004");
  EXPECT_EQ(to_string(ErrorId::kUnknownField), "FJ-1003");
}

}  // namespace
}  // namespace falaj
