// app/onnx_runner.h — ONNX Runtime as the proofs of `training` ask for it.
#pragma once

#include <memory>

#include "serving/runtime.h"
#include "training/engine.h"

namespace falaj::app {

// A runtime of one thread, from the libraries' folder; loaded with its first model.
std::unique_ptr<serving::Runtime> small_runtime();

// A proof asks for one model many times, a slice of rows each: it is loaded once. Keeps a reference
// to the runtime.
training::OnnxRunner runner_of(serving::Runtime& runtime);

}  // namespace falaj::app
