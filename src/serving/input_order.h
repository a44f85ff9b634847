// serving/input_order.h — what a client sent, put in the order of what a model takes.
#pragma once

#include <span>
#include <vector>

#include "serving/datatypes.h"
#include "serving/runtime.h"

namespace falaj::serving {

// `ordered` points into `inputs`, one for each of `specs`, whose element types are `types`. FJ-5004
// names the tensor that is unknown, missing, there twice, or of another type, shape or length.
Status order_inputs(std::span<const registry::TensorSpec> specs, std::span<const Datatype> types,
                    std::span<const Tensor> inputs, std::vector<const Tensor*>& ordered);

}  // namespace falaj::serving
