// security/signing/model_format.h — what kind of model file these bytes are, whatever their name
// says. Only formats that are data are accepted; those that can carry code are refused by what they
// contain.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace falaj::security {

enum class ModelFormat : std::uint8_t { kOnnx, kLightGbmText, kXgboostJson };
std::string_view format_name(ModelFormat format);

// FJ-7060 naming what the bytes look like (a pickle, a zip archive such as Keras, PyTorch or a
// model archive, HDF5, …) and what is accepted instead. For ONNX this is onnx::check_foreign too:
// nothing is guessed from the first bytes alone. Cost: one pass at most.
Result<ModelFormat> recognise_model(std::string_view bytes);

}  // namespace falaj::security
