// serving/tensor_rows.h — rows of tensors: taken out of one, put together into one. Pure.
#pragma once

#include <cstddef>
#include <span>

#include "serving/runtime.h"

namespace falaj::serving {

// `count` rows from `first` on, as a tensor of its own. The caller has checked that the first
// dimension has them. FJ-5004 for a tensor whose bytes do not fit its shape.
Result<Tensor> take_rows(const Tensor& tensor, std::size_t first, std::size_t count);

}  // namespace falaj::serving
