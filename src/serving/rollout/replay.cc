#include "serving/rollout/replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace falaj::serving::rollout {
namespace {

// How two answers differ; nullopt when they are not of one form.
struct Gap {
  double largest = 0;
  bool lost_number = false;
};

template <class Number>
void widen(Gap& gap, std::string_view champion, std::string_view candidate) {
  for (std::size_t at = 0; at + sizeof(Number) <= champion.size(); at += sizeof(Number)) {
    Number ours = 0;
    Number theirs = 0;
    std::memcpy(&ours, champion.data() + at, sizeof ours);
    std::memcpy(&theirs, candidate.data() + at, sizeof theirs);
    if (!std::isfinite(ours)) continue;
    if (!std::isfinite(theirs)) {
      gap.lost_number = true;
    } else {
      const double difference = static_cast<double>(theirs) - static_cast<double>(ours);
      gap.largest = std::max(gap.largest, std::abs(difference));
    }
  }
}

std::optional<Gap> gap_between(const std::vector<Tensor>& champion,
                               const std::vector<Tensor>& candidate) {
  if (champion.size() != candidate.size()) return std::nullopt;
  Gap gap;
  for (std::size_t i = 0; i < champion.size(); ++i) {
    const Tensor& ours = champion[i];
    const Tensor& theirs = candidate[i];
    if (ours.datatype != theirs.datatype || ours.shape != theirs.shape) return std::nullopt;
    const bool of_numbers = ours.datatype == "FP32" || ours.datatype == "FP64";
    if (of_numbers && ours.bytes.size() != theirs.bytes.size()) return std::nullopt;
    if (ours.datatype == "FP32") {
      widen<float>(gap, ours.bytes, theirs.bytes);
    } else if (ours.datatype == "FP64") {
      widen<double>(gap, ours.bytes, theirs.bytes);
    } else if (ours.bytes != theirs.bytes) {
      gap.largest = std::max(gap.largest, 1.0);
    }
  }
  return gap;
}

std::string number(double value) {
  std::string text;
  append_json_number(text, value);
  return text;
}

std::string of_answered(std::int64_t count, const ReplayEvidence& evidence) {
  return std::to_string(count) + " of " + std::to_string(evidence.answered);
}

// Of those that the champion answered; the caller has seen that there are some.
bool is_above(std::int64_t count, const ReplayEvidence& evidence, double share) {
  return static_cast<double>(count) > share * static_cast<double>(evidence.answered);
}

constexpr std::array<std::pair<std::string_view, std::int64_t ReplayEvidence::*>, 6> kCounts{
    {{"answered", &ReplayEvidence::answered},
     {"failed", &ReplayEvidence::failed},
     {"nans", &ReplayEvidence::nans},
     {"compared", &ReplayEvidence::compared},
     {"unanswered", &ReplayEvidence::unanswered},
     {"left_out", &ReplayEvidence::left_out}}};

}  // namespace

void add_answers(ReplayEvidence& evidence, const Answer& champion, const Answer& candidate) {
  if (!champion.ok()) {
    ++evidence.unanswered;
    return;
  }
  ++evidence.answered;
  const std::optional<Gap> gap = candidate.ok() ? gap_between(*champion, *candidate) : std::nullopt;
  if (!gap.has_value()) {
    ++evidence.failed;
    return;
  }
  if (gap->lost_number) {
    ++evidence.nans;
    return;
  }
  ++evidence.compared;
  evidence.difference +=
      (gap->largest - evidence.difference) / static_cast<double>(evidence.compared);
  evidence.largest = std::max(evidence.largest, gap->largest);
}

ReplayDecision judge_replay(const ReplayEvidence& evidence, const RolloutPolicy& policy) {
  using Outcome = ReplayDecision::Outcome;
  const auto refuse = [](std::string reason) {
    return ReplayDecision{Outcome::kRefuse, "the replay: " + std::move(reason)};
  };
  if (evidence.answered < std::max<std::int64_t>(policy.replay.requests, 1)) {
    return refuse(std::to_string(evidence.answered) + " recorded requests could be put to both, " +
                  std::to_string(policy.replay.requests) + " are asked for");
  }
  if (is_above(evidence.failed, evidence, policy.margins.errors)) {
    return refuse("the candidate failed " + of_answered(evidence.failed, evidence) +
                  " recorded requests, with a margin of " + number(policy.margins.errors));
  }
  if (is_above(evidence.nans, evidence, policy.margins.nans)) {
    return refuse("the candidate answered " + of_answered(evidence.nans, evidence) +
                  " recorded requests with what is no number, with a margin of " +
                  number(policy.margins.nans));
  }
  const std::string difference = "answers differ by " + number(evidence.difference) +
                                 " in the mean and by " + number(evidence.largest) + " at most";
  if (evidence.difference > policy.replay.difference_max) {
    return refuse(difference + "; " + number(policy.replay.difference_max) +
                  " is allowed in the mean");
  }
  return {Outcome::kPass, "the replay of " + std::to_string(evidence.answered) +
                              " recorded requests: " + difference};
}

Value to_value(const ReplayEvidence& evidence) {
  Value value;
  for (const auto& [name, count] : kCounts) value[name] = evidence.*count;
  value["difference"] = evidence.difference;
  value["largest"] = evidence.largest;
  return value;
}

Value to_value(const ReplayDecision& decision) {
  Value value;
  value["outcome"] = decision.outcome == ReplayDecision::Outcome::kPass ? "pass" : "refuse";
  value["reason"] = decision.reason;
  return value;
}

Result<ReplayEvidence> replay_evidence_from_value(const Value& value) {
  ReplayEvidence evidence;
  for (const auto& [name, count] : kCounts) {
    if (!value[name].is_int()) {
      return Error(ErrorId::kReplayDiffers, "the recorded replay cannot be read");
    }
    evidence.*count = value[name].as_int();
  }
  evidence.difference = value.number("difference");
  evidence.largest = value.number("largest");
  return evidence;
}

}  // namespace falaj::serving::rollout
