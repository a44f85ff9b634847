// serving/rollout/step_counters.h — what two arms do during one step of a rollout, counted by the
// requests themselves.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "serving/rollout/decision.h"
#include "telemetry/histogram.h"

namespace falaj::serving::rollout {

// In a shadow both arms answer every request; otherwise each unit has one arm.
enum class StepKind : std::uint8_t { kShadow, kShared };
enum class ArmName : std::uint8_t { kChampion, kCandidate };

// One request as an arm answered it.
struct Answered {
  std::uint64_t unit = 0;   // Its hash.
  std::int64_t nanos = 0;   // -1: the model did not run for it; says nothing about its speed.
  std::int64_t scored = 0;  // Scores that were given, of which …
  std::int64_t nans = 0;    // … are no finite number.
  float score = 0;          // The first of them.
};

// How long a window lasts in which every unit has a vote again; the shorter time is enough when
// three of four requests are of units that have voted in it.
inline constexpr Duration kWindow = Duration::minutes(5);
inline constexpr Duration kShortWindow = Duration::minutes(1);

// Thread-safe, without locks: relaxed counters that arms add to. About 400 KB. observe() and
// learned_edges() are called by one thread, the reconciler.
class StepCounters {
 public:
  // `edges`: where scores are cut, ascending; empty while they are not known. Scores of the
  // champion are then kept for learned_edges().
  StepCounters(StepKind kind, std::vector<float> edges);

  void answered(ArmName arm, const Answered& request);
  // The model could not answer.
  void failed(ArmName arm, std::uint64_t unit);

  // Both arms so far, since the step began and since the window began, into `evidence`. A request
  // that is being counted may be seen in part. The next window begins when this one is over.
  void observe(Timestamp now, Evidence& evidence);
  // When it is not known yet where scores are cut and the champion has given enough of them: cuts
  // that part its first scores evenly. Scores are counted from then on. Empty otherwise.
  std::vector<float> learn_edges();

 private:
  struct Counts {
    std::atomic<std::int64_t> requests{0};
    std::atomic<std::int64_t> units{0};
    std::atomic<std::int64_t> errors{0};
    std::atomic<std::int64_t> scored{0};
    std::atomic<std::int64_t> nans{0};
    std::unique_ptr<telemetry::Histogram> latency = telemetry::make_histogram();
    std::array<std::atomic<std::int64_t>, 32> scores{};
  };
  using Bits = std::vector<std::atomic<std::uint64_t>>;
  // Who has voted: by a first request, and by a first score.
  struct Votes {
    std::array<Counts, 2> counts;
    std::array<Bits, 2> voted;
    std::array<Bits, 2> scored;
  };

  // Whether the arm meets this unit for the first time, as far as 2^18 bits can tell: of two units
  // with one bit only the first counts, whichever arm it has, so that both lose alike. In a shadow
  // both arms meet every unit: there each has bits of its own.
  bool first_time(std::array<Bits, 2>& bits, ArmName arm, std::uint64_t unit) const;
  void vote(Votes& votes, ArmName arm, const Answered& request, const std::vector<float>* edges);
  void vote_failed(Votes& votes, ArmName arm, std::uint64_t unit);
  void learn(float score);
  Arm read(const Votes& votes, ArmName arm) const;
  Arms read(const Votes& votes) const;
  Arms read_window() const;
  void begin_window(Timestamp now);

  static constexpr std::size_t kBits = std::size_t{1} << 18;
  static constexpr std::size_t kLearned = 200;
  const StepKind kind_;
  std::vector<float> edges_;  // Written once, before `cuts_` points at it.
  std::atomic<const std::vector<float>*> cuts_{nullptr};  // null: not known yet.
  Votes whole_;
  Votes recent_;
  // Of recent_, when the window began: what is counted never goes down, so that a request that is
  // being counted meanwhile does no harm.
  Arms before_;
  std::int64_t window_ = 0;
  Timestamp window_began_{};
  std::atomic<std::size_t> next_learned_{0};
  std::array<std::atomic<float>, kLearned> learned_{};
  std::atomic<std::size_t> learned_count_{0};
};

}  // namespace falaj::serving::rollout
