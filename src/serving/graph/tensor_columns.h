// serving/graph/tensor_columns.h — tensors as the columns that a rule reads, and its answer as a
// tensor.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serving/runtime.h"
#include "table/batch.h"

namespace falaj::serving {

// As what a rule sees elements of this datatype: floats as float64, whole numbers as int64, BOOL as
// bool, BYTES as string. FJ-5004 for FP16 and BF16.
Result<table::Type> rule_type(std::string_view datatype);
// The datatype of a rule's answer: `as`, or the nearest when that is "". FJ-5004 when the type
// cannot become it.
Result<std::string> rule_datatype(table::Type type, std::string_view as);

// Element `element` of each of `rows` rows of `width` elements. NaN stays; a number beyond int64 is
// null. FJ-5004 when the tensor has other bytes than it says.
Result<table::Column> column_of(const Tensor& tensor, std::size_t rows, std::size_t width,
                                std::size_t element);
// The answers as [rows]. A missing one is NaN among floats; elsewhere it is kInvalidArgument, as is
// a number that the datatype cannot hold.
Result<Tensor> tensor_of(const table::Column& column, const std::string& name,
                         const std::string& datatype);

}  // namespace falaj::serving
