// serving/plugin/plugin_runtime.h — a runtime that is a shared library of its own.
//
// The library follows include/falaj/runtime.h. It is code that whoever set `serving.runtimes` chose
// to run inside the server: it is opened only when it and its folder can be written by nobody but
// its owner, root or us, and never closed again.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "serving/runtime.h"

namespace falaj::serving {

// FJ-5005 with the path when the file cannot be trusted or opened, has no falaj_runtime, is of
// another version, or leaves a function out. Its sessions take and give tensors of numbers; a model
// with texts is FJ-5002 at load. What a library answers is checked: outputs that were not declared,
// lack, stand twice or have the wrong length are FJ-9001, never handed on.
Result<std::unique_ptr<Runtime>> open_plugin_runtime(const RuntimeOptions& options);

// The libraries of "openvino=/opt/a.so:other=/opt/b.so" by name. FJ-1001 names the part that is not
// NAME=/PATH, or a name that stands twice.
Result<std::map<std::string, std::string>> runtimes_of(std::string_view text);

}  // namespace falaj::serving
