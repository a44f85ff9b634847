// app/inspect.h — a model from elsewhere is opened in a process of its own before the server trusts
// it: no network, no files, little memory, a minute at most.
#pragma once

#include <string>
#include <string_view>

#include "registry/models.h"

namespace falaj::app {

// The server's side. FJ-7060 with what the process said, FJ-7062 when this machine cannot confine
// it.
Result<registry::Signature> inspect_model(std::string_view onnx);

// The process's side: `falaj engine inspect`, started by the server only.
int run_inspect_engine();

}  // namespace falaj::app
