#include "serving/tensor_rows.h"

#include "serving/datatypes.h"
#include "serving/packed_texts.h"

namespace falaj::serving {

Result<Tensor> take_rows(const Tensor& tensor, std::size_t first, std::size_t count) {
  const Datatype type = FALAJ_TRY(parse_datatype(tensor.datatype));
  const std::size_t elements = FALAJ_TRY(element_count(tensor.shape));
  const std::size_t rows = tensor.shape.empty() ? 0 : static_cast<std::size_t>(tensor.shape[0]);
  const std::size_t width = rows == 0 ? 0 : elements / rows;
  if (first + count > rows) {
    return Error(ErrorId::kTensorMismatch, "tensor '" + tensor.name + "' has " +
                                               std::to_string(rows) + " rows, row " +
                                               std::to_string(first + count) + " was asked for");
  }
  Tensor part{tensor.name, tensor.datatype, tensor.shape, {}};
  part.shape[0] = static_cast<std::int64_t>(count);
  if (type == Datatype::kBytes) {
    const std::vector<std::string_view> texts = FALAJ_TRY(unpack_texts(tensor.bytes, elements));
    for (std::size_t i = first * width; i < (first + count) * width; ++i) {
      FALAJ_TRY(append_packed(part.bytes, texts[i]));
    }
    return part;
  }
  const std::size_t row_bytes = width * element_bytes(type);
  if (tensor.bytes.size() != rows * row_bytes) {
    return Error(ErrorId::kTensorMismatch,
                 "tensor '" + tensor.name + "' has bytes that do not fit its shape");
  }
  part.bytes.assign(tensor.bytes, first * row_bytes, count * row_bytes);
  return part;
}

}  // namespace falaj::serving
