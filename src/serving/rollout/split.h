// serving/rollout/split.h — how a rollout shares a deployment's traffic: what a request looks at.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exec/queue.h"
#include "features/key.h"
#include "serving/rollout/step_counters.h"
#include "serving/runtime.h"

namespace falaj::serving {

struct LiveModel;

namespace rollout {

using EntityKeys = std::vector<std::pair<std::string, features::KeyPart>>;

// What a request asks.
using Asked = std::variant<std::vector<EntityKeys>, std::vector<Tensor>>;

// A request that the champion has answered, for the candidate to answer unseen.
struct Mirrored {
  std::uint64_t unit = 0;
  Asked asked;
};

// A larger request is not mirrored, and then not counted on either side.
inline constexpr std::size_t kMirroredEntitiesMax = 64;
inline constexpr std::size_t kMirroredBytesMax = 64 << 10;
inline constexpr std::size_t kMirroredWaitingMax = 1024;

inline bool is_small(std::span<const Tensor> inputs) {
  std::size_t bytes = 0;
  for (const Tensor& input : inputs) bytes += input.bytes.size();
  return bytes <= kMirroredBytesMax;
}

// Part of the champion's LiveModel while a rollout runs. Thread-safe.
struct Split {
  std::string rollout;     // Its name.
  std::size_t step = 0;    // Of the rollout …
  std::int64_t count = 1;  // … and which count of that step this is.
  double share = 0;        // The candidate's; 0: a shadow.
  std::string sticky;      // The key column whose value is the unit; "": every request is one.
  std::uint64_t salt = 0;
  std::shared_ptr<const LiveModel> candidate;
  // Whether it takes and gives the same tensors as the champion: requests of tensors are shared
  // only then.
  enum class Tensors : std::uint8_t { kDiffer, kFit } tensors = Tensors::kDiffer;
  std::shared_ptr<StepCounters> counters;
  // Sends everything back to the champion, from the next request on: no lock, no other component.
  mutable std::atomic<bool> stopped{false};
  mutable exec::BoundedQueue<Mirrored> mirror{kMirroredWaitingMax};
  mutable std::atomic<std::uint64_t> not_mirrored{0};
};

}  // namespace rollout
}  // namespace falaj::serving
