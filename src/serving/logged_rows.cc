#include "serving/internal/logged_rows.h"

#include <algorithm>
#include <cstring>

namespace falaj::serving {

std::size_t rows_of(const Tensor& tensor) {
  return tensor.shape.empty()
             ? 1
             : static_cast<std::size_t>(std::max<std::int64_t>(tensor.shape.front(), 0));
}

LoggedRows logged_rows(std::span<const Tensor> inputs, const std::vector<Tensor>& outputs) {
  LoggedRows logged;
  if (inputs.size() != 1 || inputs[0].datatype != "FP32" || inputs[0].shape.size() != 2) return {};
  const auto scored = std::find_if(outputs.begin(), outputs.end(),
                                   [](const Tensor& t) { return t.datatype == "FP32"; });
  logged.rows = rows_of(inputs[0]);
  if (scored == outputs.end() || logged.rows == 0 || rows_of(*scored) != logged.rows) return {};
  logged.input = &inputs[0];
  logged.output = &*scored;
  logged.columns = inputs[0].bytes.size() / sizeof(float) / logged.rows;
  logged.width = scored->bytes.size() / sizeof(float) / logged.rows;
  return logged.width == 0 ? LoggedRows{} : logged;
}

float score_at(const LoggedRows& logged, std::size_t row) {
  float score = 0;
  std::memcpy(&score, logged.output->bytes.data() + ((row + 1) * logged.width - 1) * sizeof(float),
              sizeof(float));
  return score;
}

}  // namespace falaj::serving
