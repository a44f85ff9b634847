#include "serving/rollout/decision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "base/json.h"
#include "base/units.h"

namespace falaj::serving::rollout {
namespace {

constexpr double kRatioAlpha = 0.001;
constexpr double kTail = 0.99;
constexpr double kOfMedian = 0.2;  // Its part of latency's alpha; the tail has the rest.
constexpr double kGuards = 4;
constexpr double kOfWindows = 0.2;  // Their part of alpha; the whole step has the rest.

// Three digits are enough for a person; the evidence has all of them.
std::string number(double value) {
  if (!std::isfinite(value)) return "unknown";
  std::string text;
  append_json_number(text, std::round(value * 1e4) / 1e4);
  return text;
}

// What the k-th of endlessly many may spend: the sum over all k is 1.
double spent_at(std::int64_t k) {
  const auto number = static_cast<double>(std::max<std::int64_t>(k, 1));
  return 6 / (std::numbers::pi * std::numbers::pi * number * number);
}

// alpha is dealt out evenly to the steps and to the guards, and within a step to each time that
// counting begins anew: these are tests of their own, however much their data depend on each other.
double alpha_of_guard(const Evidence& evidence, const RolloutPolicy& policy) {
  return policy.alpha / (static_cast<double>(policy.steps.size()) * kGuards) *
         spent_at(evidence.count);
}

Finding judged(std::string guard, Interval harm, double margin) {
  Finding finding{std::move(guard), harm.low, harm.high, margin, Harm::kOpen};
  if (harm.low > margin) finding.harm = Harm::kShown;
  if (harm.high <= margin) finding.harm = Harm::kExcluded;
  return finding;
}

struct Share {
  std::int64_t hits = 0;
  std::int64_t trials = 0;
};

// How much larger the candidate's share is. Each side may be wrong with half of alpha.
Interval difference(Share champion, Share candidate, double alpha) {
  const Interval ours = share_interval(champion.hits, champion.trials, alpha / 2);
  const Interval theirs = share_interval(candidate.hits, candidate.trials, alpha / 2);
  return {theirs.low - ours.high, theirs.high - ours.low};
}

Finding judge_quantile(std::string guard, double q, const Arms& arms, const Margins& margins,
                       double alpha) {
  const Interval ours = quantile_interval(arms.champion.latency, q, alpha / 2);
  const Interval theirs = quantile_interval(arms.candidate.latency, q, alpha / 2);
  const auto floor = static_cast<double>(margins.latency_floor.nanos);
  const auto allowed = [&](double nanos) {
    return std::max(nanos * (1 + margins.latency), nanos + floor);
  };
  const auto slower = [](double much, double than) {
    return than > 0 ? much / than - 1 : std::numeric_limits<double>::infinity();
  };
  Finding finding{std::move(guard), std::isfinite(ours.high) ? slower(theirs.low, ours.high) : -1,
                  slower(theirs.high, ours.low), margins.latency, Harm::kOpen};
  if (theirs.low > allowed(ours.high)) finding.harm = Harm::kShown;
  if (theirs.high <= allowed(ours.low) && ours.low > 0) finding.harm = Harm::kExcluded;
  return finding;
}

// The tail is what must be kept. The median is known from a tenth of the requests that the tail
// takes: a candidate that is slower throughout is taken back by it, and none is promoted by it.
Finding judge_latency(const Arms& arms, const Margins& margins, double alpha) {
  Finding tail = judge_quantile("latency", kTail, arms, margins, alpha * (1 - kOfMedian));
  if (tail.harm == Harm::kShown) return tail;
  Finding median = judge_quantile("latency at the median", 0.5, arms, margins, alpha * kOfMedian);
  return median.harm == Harm::kShown ? median : tail;
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  return total;
}

// The largest gap between the two distributions, over the edges.
Interval gap(const Arm& champion, const Arm& candidate, double alpha) {
  const std::int64_t ours = sum(champion.scores);
  const std::int64_t theirs = sum(candidate.scores);
  if (champion.scores.size() != candidate.scores.size() || champion.scores.size() < 2) {
    return {0, 1};
  }
  const std::size_t edges = champion.scores.size() - 1;
  Interval widest{0, 0};
  Share a{0, ours};
  Share b{0, theirs};
  for (std::size_t i = 0; i < edges; ++i) {
    a.hits += champion.scores[i];
    b.hits += candidate.scores[i];
    const Interval more = difference(a, b, alpha / static_cast<double>(edges));
    widest.low = std::max({widest.low, more.low, -more.high});
    widest.high = std::max({widest.high, more.high, -more.low});
  }
  return widest;
}

std::vector<Finding> findings_of(const Arms& arms, const RolloutPolicy& policy, double alpha) {
  const Arm& ours = arms.champion;
  const Arm& theirs = arms.candidate;
  const Margins& margins = policy.margins;
  std::vector<Finding> findings;
  findings.push_back(
      judged("errors", difference({ours.errors, ours.units}, {theirs.errors, theirs.units}, alpha),
             margins.errors));
  findings.push_back(judge_latency(arms, margins, alpha));
  if (policy.scores == Scores::kNone) return findings;
  findings.push_back(
      judged("nans", difference({ours.nans, ours.scored}, {theirs.nans, theirs.scored}, alpha),
             margins.nans));
  findings.push_back(judged("shift", gap(ours, theirs, alpha), margins.shift));
  return findings;
}

std::string step_text(const RolloutPolicy& policy, std::size_t step) {
  const double share = policy.steps[step];
  return share == 0 ? "the shadow" : "the step of " + number(share * 100) + " %";
}

std::string bounds(const Finding& finding) {
  return "between " + number(finding.least) + " and " + number(finding.most) +
         " worse, with a margin of " + number(finding.margin);
}

// What a step still lacks; "" when nothing.
std::string lacking(const Evidence& evidence, const RolloutPolicy& policy, Timestamp now) {
  const std::int64_t requests =
      std::min(evidence.whole.champion.requests, evidence.whole.candidate.requests);
  if (requests < policy.requests_min) {
    return std::to_string(requests) + " of " + std::to_string(policy.requests_min) +
           " requests to each arm";
  }
  const Duration lasted = now - evidence.entered_at;
  if (lasted < policy.step_min) {
    return to_string(Duration::seconds(lasted.nanos / 1'000'000'000)) + " of " +
           to_string(policy.step_min);
  }
  return "";
}

std::string open_guards(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.harm == Harm::kExcluded) continue;
    text += (text.empty() ? "" : "; ") + finding.guard + " is " + bounds(finding);
  }
  return text;
}

// The first that is shown, of the whole step or of the window; null when there is none.
const Finding* harm_of(const Decision& decision) {
  for (const auto* findings : {&decision.findings, &decision.recent}) {
    for (const Finding& finding : *findings) {
      if (finding.harm == Harm::kShown) return &finding;
    }
  }
  return nullptr;
}

// Nothing speaks against the candidate: does enough speak for it?
void judge_progress(const Evidence& evidence, const RolloutPolicy& policy, Timestamp now,
                    Decision& decision) {
  const std::string here = step_text(policy, evidence.step);
  const auto wait = [&](const std::string& why) {
    const bool over = now - evidence.entered_at >= policy.step_max;
    decision.verdict = over ? Verdict::kInconclusive : Verdict::kHold;
    decision.reason = over ? here + " is over after " + to_string(policy.step_max) + ": " + why
                           : here + ": " + why;
  };
  if (evidence.manual.held) {
    decision.reason = here + " is held by hand";
    return;
  }
  const std::string missing = lacking(evidence, policy, now);
  if (!missing.empty()) return wait(missing);
  if (evidence.step + 1 < policy.steps.size()) {
    decision.verdict = Verdict::kAdvance;
    decision.reason =
        "no guard was broken in " + here + "; next is " + step_text(policy, evidence.step + 1);
    return;
  }
  const std::string open = open_guards(decision.findings);
  if (!open.empty()) return wait("not shown yet: " + open);
  if (policy.approval == Approval::kNeeded && !evidence.manual.approved) {
    return wait("every guard is kept; waits for approval");
  }
  decision.verdict = Verdict::kPromote;
  decision.reason = "every guard is kept in " + here +
                    (policy.scores == Scores::kNone ? "; scores were not judged" : "");
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  constexpr std::array<std::string_view, 5> names{"hold", "advance", "promote", "rollback",
                                                  "inconclusive"};
  return names[static_cast<std::size_t>(verdict)];
}

std::string_view harm_name(Harm harm) {
  constexpr std::array<std::string_view, 3> names{"open", "excluded", "shown"};
  return names[static_cast<std::size_t>(harm)];
}

Decision decide(const Evidence& evidence, const RolloutPolicy& policy, Timestamp now) {
  FALAJ_CHECK(evidence.step < policy.steps.size());
  Decision decision;
  const double alpha = alpha_of_guard(evidence, policy);
  decision.findings = findings_of(evidence.whole, policy, alpha * (1 - kOfWindows));
  decision.recent =
      findings_of(evidence.recent, policy, alpha * kOfWindows * spent_at(evidence.window));
  const std::int64_t ours = evidence.whole.champion.units;
  const std::int64_t theirs = evidence.whole.candidate.units;
  const double share = policy.steps[evidence.step];
  if (share > 0 && share < 1) {
    decision.ratio_p = ratio_mismatch_p(ours, theirs, share);
  }
  if (decision.ratio_p < kRatioAlpha) {
    decision.verdict = Verdict::kInconclusive;
    decision.reason = std::to_string(theirs) + " of " + std::to_string(theirs + ours) +
                      " units met the candidate where " + number(share * 100) +
                      " % should: the arms cannot be compared";
    return decision;
  }
  const Finding* shown = harm_of(decision);
  if (shown != nullptr) {
    decision.verdict = Verdict::kRollback;
    decision.reason = shown->guard + " is " + bounds(*shown) + ", in " +
                      step_text(policy, evidence.step) + " after " + std::to_string(theirs) +
                      " units of " + std::to_string(evidence.whole.candidate.requests) +
                      " requests";
    return decision;
  }
  judge_progress(evidence, policy, now, decision);
  return decision;
}

}  // namespace falaj::serving::rollout
