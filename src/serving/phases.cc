#include "serving/phases.h"

namespace falaj::serving {
namespace {

// Milliseconds with the microseconds as decimals.
void append_milliseconds(std::string& out, std::int64_t nanos) {
  const std::int64_t micros = (nanos + 500) / 1000;
  out += std::to_string(micros / 1000);
  out += '.';
  const std::string decimals = std::to_string(micros % 1000);
  out.append(3 - decimals.size(), '0').append(decimals);
}

}  // namespace

std::string_view phase_word(Phase phase) {
  switch (phase) {
    case Phase::kParse:
      return "parse";
    case Phase::kAuthorise:
      return "authorise";
    case Phase::kFeatures:
      return "features";
    case Phase::kQueue:
      return "queue";
    case Phase::kBatch:
      return "batch";
    case Phase::kExecute:
      return "execute";
    case Phase::kRender:
      return "render";
  }
  return "";
}

std::string server_timing(const PhaseTimes& times) {
  std::string out;
  for (const Phase phase : kPhases) {
    if (times[phase] <= 0) continue;
    if (!out.empty()) out += ", ";
    out.append(phase_word(phase)).append(";dur=");
    append_milliseconds(out, times[phase]);
  }
  return out;
}

}  // namespace falaj::serving
