// serving/requests.h — what is asked of a deployment, and on which terms.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "serving/explain/explain.h"
#include "serving/runtime.h"

namespace falaj::serving {

// kNo: the request named its version.
enum class MayShare : std::uint8_t { kYes, kNo };
enum class Left : std::uint8_t { kNothing, kSome };

// A request of the inference dialect, from whoever asks to when it is worth nothing any more.
struct InferJob {
  std::vector<Tensor> inputs;
  std::string request_id;
  MayShare share = MayShare::kYes;
  std::string tenant;          // Who asks. Each has its turn while requests wait.
  std::uint32_t priority = 0;  // 1 is the highest; 0: in the middle.
  Duration timeout{};          // 0: the deployment's slo.
  Timestamp deadline = Timestamp::max();
  std::shared_ptr<const std::atomic<bool>> gone;  // The caller has left. Null: nobody looks.
};

// What a caller wants explained, and until when it is worth anything.
struct ExplainJob {
  explain::Question question;
  Timestamp deadline = Timestamp::max();
  std::shared_ptr<const std::atomic<bool>> gone;  // The caller has left. Null: nobody looks.
};

}  // namespace falaj::serving
