// serving/isolated/model_process.h — the side of a model's own process: loads it and answers.
//
// What the process has are descriptors that the server opened (exec/child.h): the model as a memory
// file and lanes, sockets with a question and its answer in turn (model_message.h). Each lane has a
// thread. When the server closes them, or goes, the process ends.
#pragma once

#include <functional>

#include "base/result.h"
#include "base/value.h"
#include "serving/runtime.h"

namespace falaj::serving::isolated {

inline constexpr int kModelDescriptor = 4;
inline constexpr int kFirstLane = 5;  // The others follow.
inline constexpr unsigned kLanesMax = 64;

// Tells {"signature": …} when the model is ready, or {"error", "code"} and returns the error;
// returns when all lanes have ended. `lanes` is 1 to kLanesMax.
Status run_model_process(Runtime& runtime, unsigned lanes,
                         const std::function<void(const Value&)>& tell);

}  // namespace falaj::serving::isolated
