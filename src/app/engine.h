// app/engine.h — `falaj engine train`: the training process, with ONNX Runtime passed in.
#pragma once

namespace falaj::app {

// Reports on descriptor 3; the exit code is 0 when model and proof were written.
int run_train_engine();

}  // namespace falaj::app
