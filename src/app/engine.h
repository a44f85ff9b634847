// app/engine.h — `falaj engine train FOLDER`: the training process, with ONNX Runtime passed in.
#pragma once

#include <string>

namespace falaj::app {

// Reports on descriptor 3; the exit code is 0 when model and proof were written.
int run_train_engine(const std::string& folder);

}  // namespace falaj::app
