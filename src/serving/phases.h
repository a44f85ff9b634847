// serving/phases.h — where the time of one request for a prediction goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"

namespace falaj::serving {

enum class Phase : std::uint8_t {
  kParse,      // From the request's head to what it asks, without the gate.
  kAuthorise,  // The gate: who asks, and whether they may.
  kFeatures,   // Reading the features of entities.
  kQueue,      // Waiting for a run, or for that of an equal request.
  kBatch,      // Putting requests together, and taking their answers apart.
  kExecute,    // The model.
  kRender,     // From the answer to the bytes of the reply.
};
inline constexpr std::array kPhases{Phase::kParse, Phase::kAuthorise, Phase::kFeatures,
                                    Phase::kQueue, Phase::kBatch,     Phase::kExecute,
                                    Phase::kRender};
std::string_view phase_word(Phase phase);  // "parse", "authorise", …

// Nanoseconds; 0: it did not happen.
class PhaseTimes {
 public:
  std::int64_t operator[](Phase phase) const { return nanos_[static_cast<std::size_t>(phase)]; }
  std::int64_t& operator[](Phase phase) { return nanos_[static_cast<std::size_t>(phase)]; }
  bool operator==(const PhaseTimes&) const = default;

 private:
  std::array<std::int64_t, kPhases.size()> nanos_{};
};

// A stopwatch: each phase takes what passed since the one before it ended. One thread at a time.
class Laps {
 public:
  explicit Laps(std::int64_t begun) : last_(begun) {}  // Monotonic nanoseconds.
  void end(Phase phase) {
    const std::int64_t now = monotonic_nanos();
    times[phase] += now - last_;
    last_ = now;
  }
  // What passed since the last one is no phase of these.
  void skip() { last_ = monotonic_nanos(); }

  PhaseTimes times;

 private:
  std::int64_t last_;
};

// "parse;dur=0.012, execute;dur=0.204": the value of the header Server-Timing, in milliseconds;
// without what did not happen.
std::string server_timing(const PhaseTimes& times);

}  // namespace falaj::serving
