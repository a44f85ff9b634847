// What of a request of tensors is a row with a score.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "serving/runtime.h"

namespace falaj::serving {

// Row-major float rows of the one input, and the score of each, when the model has that form.
struct LoggedRows {
  const Tensor* input = nullptr;
  const Tensor* output = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t width = 0;
};

std::size_t rows_of(const Tensor& tensor);
// Without rows when the model has another form. Points into both.
LoggedRows logged_rows(std::span<const Tensor> inputs, const std::vector<Tensor>& outputs);
// Of a row below logged.rows.
float score_at(const LoggedRows& logged, std::size_t row);

}  // namespace falaj::serving
