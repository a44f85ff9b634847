#include "launch/advise.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/json.h"
#include "base/units.h"

namespace falaj::launch {
namespace {

constexpr int kTimed = 3;       // Steps of a trial that is timed: one to warm up, two to look at.
constexpr int kSized = 2;       // Of one that looks for the largest batch.
constexpr double kGain = 1.05;  // Less is noise: the simpler choice stays.
constexpr double kRoom = 0.9;   // Of the memory: allocators and data differ from step to step.
constexpr double kNear = 1.25;  // Bounds of the batch that are this close are close enough.
constexpr std::int64_t kUnit = std::int64_t{64} << 20;  // Memory is advised in such steps.
constexpr std::int64_t kGrowth = 4;
constexpr std::int64_t kGrowthMost = 16;

std::string rate_text(double rate) {
  char text[48];
  std::snprintf(text, sizeof text, "%.4g samples/s", rate);
  return text;
}

std::string layout_text(const Trial& trial) {
  return std::to_string(trial.processes) + " x " + std::to_string(trial.threads) + " threads";
}

// Looks at what was tried; each step says what it wants to know next, and is asked again then.
class Advisor {
 public:
  Advisor(const AdviseLimits& limits, const std::vector<TrialResult>& tried)
      : limits_(limits), tried_(tried) {
    for (const TrialResult& each : tried) steps_ += each.trial.steps;
  }

  Result<Advised> next() {
    std::optional<Trial> wanted = FALAJ_TRY(first_batch());
    if (!wanted) wanted = precision();
    if (!wanted) wanted = layout();
    if (!wanted) wanted = batch();
    if (wanted) return Advised(*wanted);
    Advice advice;
    advice.best = best_->trial;
    advice.samples_per_second = best_->samples_per_second;
    advice.memory_peak_bytes = best_->memory_peak_bytes;
    advice.because = std::move(because_);
    explain_memory(advice);
    return Advised(std::move(advice));
  }

 private:
  const TrialResult* find(const Trial& trial) const {
    const auto same = [&](const TrialResult& each) { return each.trial == trial; };
    const auto at = std::find_if(tried_.begin(), tried_.end(), same);
    return at == tried_.end() ? nullptr : &*at;
  }
  bool affords(int steps) const { return steps_ + steps <= limits_.steps_most; }

  // The program as it is; smaller when that does not fit.
  Result<std::optional<Trial>> first_batch() {
    Trial trial{Precision::kFp32, 1, limits_.cpus, limits_.batch_first, kTimed};
    while (true) {
      const TrialResult* result = find(trial);
      if (result == nullptr && affords(kTimed)) return std::optional<Trial>(trial);
      if (result != nullptr && result->end == TrialEnd::kDone) {
        best_ = result;
        return std::optional<Trial>();
      }
      if (result != nullptr && result->end == TrialEnd::kFailed) {
        return Error(
            Code::kFailedPrecondition,
            "the program fails with batch " + std::to_string(trial.batch) + ": " + result->why);
      }
      if (result == nullptr || trial.batch == 1) {
        return Error(Code::kFailedPrecondition,
                     "not even a batch of " + std::to_string(trial.batch) + " fits into " +
                         format_bytes(limits_.memory_bytes) + ": allow more memory");
      }
      trial.batch = std::max<std::int64_t>(1, trial.batch / 8);
    }
  }

  std::optional<Trial> precision() {
    if (limits_.bf16 == Bf16::kNone) {
      because_.emplace_back(
          "fp32: this processor has no bf16 arithmetic (AVX512_BF16 or AMX), it would be slower");
      return std::nullopt;
    }
    Trial trial = best_->trial;
    trial.precision = Precision::kBf16;
    const TrialResult* result = find(trial);
    if (result == nullptr) {
      if (affords(kTimed)) return trial;
      return std::nullopt;
    }
    const double before = best_->samples_per_second;
    const bool better =
        result->end == TrialEnd::kDone && result->samples_per_second > before * kGain;
    const std::string now = result->end == TrialEnd::kDone ? rate_text(result->samples_per_second)
                                                           : "not done: " + result->why;
    because_.push_back(std::string(better ? "bf16" : "fp32") + ": bf16 " + now + ", fp32 " +
                       rate_text(before));
    if (better) best_ = result;
    return std::nullopt;
  }

  // How the processors are shared out; fewer are taken when more bring nothing.
  std::optional<Trial> layout() {
    const TrialResult* first = best_;
    std::vector<std::pair<int, int>> others;  // Simplest first.
    const int cpus = limits_.cpus;
    if (cpus > 1) others.emplace_back(1, 1);
    if (cpus > 2 && cpus % 2 == 0) others.emplace_back(2, cpus / 2);
    if (cpus > 1) others.emplace_back(cpus, 1);
    std::string text = layout_text(first->trial) + " " + rate_text(first->samples_per_second);
    for (const auto& [processes, threads] : others) {
      if (processes > first->trial.batch) continue;  // Some would have nothing to do.
      Trial trial = first->trial;
      trial.processes = processes;
      trial.threads = threads;
      const TrialResult* result = find(trial);
      if (result == nullptr && affords(kTimed + kSized)) return trial;
      if (result == nullptr) continue;
      const bool done = result->end == TrialEnd::kDone;
      text += ", " + layout_text(trial) + " " +
              (done ? rate_text(result->samples_per_second) : "not done: " + result->why);
      // One thread alone must only be as quick; more processes must be quicker.
      const double least = best_->samples_per_second * (processes * threads < cpus ? 1 : kGain);
      if (done && result->samples_per_second >= least) best_ = result;
    }
    because_.push_back(layout_text(best_->trial) + ": " + text);
    return std::nullopt;
  }

  std::int64_t rounded(double batch) const {
    const std::int64_t whole =
        static_cast<std::int64_t>(std::min(batch, static_cast<double>(limits_.batch_most)));
    const std::int64_t unit = whole >= 64 ? std::max(8, best_->trial.processes) : 1;
    return std::max<std::int64_t>(whole / unit * unit, best_->trial.processes);
  }

  // Two batches that fit tell how memory grows; the line through them where the limit lies.
  std::int64_t guess(const TrialResult& smaller, const TrialResult& larger) const {
    const double rise = static_cast<double>(larger.memory_peak_bytes - smaller.memory_peak_bytes) /
                        static_cast<double>(larger.trial.batch - smaller.trial.batch);
    const double room = kRoom * static_cast<double>(limits_.memory_bytes) -
                        static_cast<double>(larger.memory_peak_bytes);
    const auto at = static_cast<double>(larger.trial.batch);
    const double most = at * static_cast<double>(kGrowthMost);
    return rounded(rise <= 0 ? most : std::min(most, at + room / rise));
  }

  std::optional<Trial> batch() {
    std::vector<const TrialResult*> fits{best_};  // By batch.
    std::int64_t too_large = std::numeric_limits<std::int64_t>::max();
    const TrialResult* failed = nullptr;
    for (const TrialResult& each : tried_) {
      Trial alike = each.trial;
      alike.batch = best_->trial.batch;
      alike.steps = best_->trial.steps;
      if (alike != best_->trial || &each == best_) continue;
      if (each.end == TrialEnd::kDone && each.trial.batch > best_->trial.batch) {
        fits.push_back(&each);
      } else if (each.end == TrialEnd::kOutOfMemory) {
        too_large = std::min(too_large, each.trial.batch);
      } else if (each.end == TrialEnd::kFailed) {
        failed = &each;
      }
    }
    std::sort(fits.begin(), fits.end(), [](const TrialResult* a, const TrialResult* b) {
      return a->trial.batch < b->trial.batch;
    });
    const TrialResult& largest = *fits.back();
    Trial trial = best_->trial;
    trial.steps = kSized;
    trial.batch = next_batch(fits, too_large);
    // What fails for another reason says nothing about memory, and would fail again.
    if (failed == nullptr && trial.batch > largest.trial.batch && affords(kSized)) return trial;
    explain_batch(fits, too_large);
    if (failed != nullptr) {
      because_.push_back("batch " + std::to_string(failed->trial.batch) +
                         " failed, and no other was tried: " + failed->why);
    }
    best_ = &largest;
    return std::nullopt;
  }

  // Larger than any that fits; the largest itself when there is nothing more to learn.
  std::int64_t next_batch(const std::vector<const TrialResult*>& fits,
                          std::int64_t too_large) const {
    const std::int64_t known = fits.back()->trial.batch;
    const bool full = static_cast<double>(fits.back()->memory_peak_bytes) >=
                      kRoom * static_cast<double>(limits_.memory_bytes);
    const auto ratio = static_cast<double>(too_large) / static_cast<double>(known);
    if (full || known >= limits_.batch_most || ratio < kNear) return known;
    std::int64_t wanted = fits.size() == 1 ? rounded(static_cast<double>(known * kGrowth))
                                           : guess(*fits[fits.size() - 2], *fits.back());
    if (wanted >= too_large) wanted = rounded(static_cast<double>(known + (too_large - known) / 2));
    return static_cast<double>(wanted) < static_cast<double>(known) * 1.05 ? known : wanted;
  }

  // The program ran within the limit; what is left of it may be less than checkpoints like.
  void explain_memory(Advice& advice) const {
    const int processes = advice.best.processes;
    const std::int64_t peak = advice.memory_peak_bytes;
    const std::int64_t given = memory_of_each(peak, processes, limits_.memory_bytes) * processes;
    const std::int64_t wanted =
        memory_of_each(peak, processes, std::numeric_limits<std::int64_t>::max()) * processes;
    if (given >= wanted) return;
    advice.because.push_back("memory: all of the limit, which leaves " +
                             format_bytes(std::max<std::int64_t>(0, given - peak)) +
                             " above the peak; a tenth more and room for checkpoints would be " +
                             format_bytes(wanted) + ": allow that, or take a smaller batch");
  }

  void explain_batch(const std::vector<const TrialResult*>& fits, std::int64_t too_large) {
    const TrialResult& largest = *fits.back();
    std::string text = "batch " + std::to_string(largest.trial.batch) + ": peak memory " +
                       format_bytes(largest.memory_peak_bytes) + " of " +
                       format_bytes(limits_.memory_bytes);
    if (too_large != std::numeric_limits<std::int64_t>::max()) {
      text += "; " + std::to_string(too_large) + " did not fit";
    }
    because_.push_back(std::move(text));
    const auto quickest = std::max_element(fits.begin(), fits.end(), [](auto* a, auto* b) {
      return a->samples_per_second < b->samples_per_second;
    });
    if ((*quickest)->samples_per_second > largest.samples_per_second * kGain) {
      because_.push_back("batch " + std::to_string((*quickest)->trial.batch) +
                         " is quicker, though: " + rate_text((*quickest)->samples_per_second) +
                         " against " + rate_text(largest.samples_per_second));
    }
  }

  const AdviseLimits& limits_;
  const std::vector<TrialResult>& tried_;
  int steps_ = 0;
  const TrialResult* best_ = nullptr;
  std::vector<std::string> because_;
};

}  // namespace

std::int64_t memory_of_each(std::int64_t memory_peak_bytes, int processes, std::int64_t limit) {
  const std::int64_t wanted = memory_peak_bytes / 10 * 11 / (kWaitingShare - 1) * kWaitingShare;
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  return std::min((wanted / processes / kUnit + 1) * kUnit,
                  limit / processes / kMebibyte * kMebibyte);
}

std::string_view to_string(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : "fp32";
}

Bf16 bf16_of_this_machine() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Bf16::kNone;
  const bool amx = (d >> 22 & 1U) != 0;
  const bool more = a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0;
  const bool avx = more && (a >> 5 & 1U) != 0;
  return amx || avx ? Bf16::kInHardware : Bf16::kNone;
#else
  return Bf16::kNone;
#endif
}

Result<Advised> advise(const AdviseLimits& limits, const std::vector<TrialResult>& tried) {
  return Advisor(limits, tried).next();
}

StepReport read_steps(std::string_view lines, int processes) {
  double begin = -std::numeric_limits<double>::infinity();
  double end = begin;
  double samples = 0;
  std::int64_t firsts = 0;
  std::int64_t all = 0;
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    const std::string_view line = lines.substr(0, newline);
    lines.remove_prefix(newline == std::string_view::npos ? lines.size() : newline + 1);
    const auto value = parse_json(line, {.bytes_max = 4096, .depth_max = 4});
    if (!value.ok() || !value->is_object() || !(*value)["at"].is_number()) continue;
    const double at = value->number("at");
    const std::int64_t step = value->integer("step");
    if (step < 1) continue;
    ++all;
    end = std::max(end, at);
    if (step == 1) {
      ++firsts;
      begin = std::max(begin, at);
    } else {
      samples += std::max(0.0, value->number("samples"));
    }
  }
  StepReport report;
  if (firsts < processes) return report;  // One never finished a step.
  report.steps = static_cast<int>(all / std::max(1, processes));
  if (end > begin) report.samples_per_second = samples / (end - begin);
  return report;
}

}  // namespace falaj::launch
