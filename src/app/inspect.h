// app/inspect.h — a model from elsewhere is opened in a process of its own before the server trusts
// it: no network, no files, little memory, five minutes at most. What LightGBM or XGBoost saved is
// turned into ONNX there, and proven equal by their own libraries.
#pragma once

#include <string>
#include <string_view>

#include "serving/model_import.h"

namespace falaj::app {

// The server's side. FJ-7060 with what the process said, FJ-7062 when this machine cannot confine
// it.
Result<serving::Inspected> inspect_model(std::string_view model);

// The process's side: `falaj engine inspect`, started by the server only.
int run_inspect_engine();

}  // namespace falaj::app
