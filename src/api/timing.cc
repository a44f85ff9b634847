#include "api/timing.h"

#include <algorithm>

namespace falaj::api {

using serving::Phase;

Timing::Timing(const net::Request& request, bool wanted) : laps_(request.begun), wanted_(wanted) {
  laps_.end(Phase::kParse);
  std::int64_t& parse = laps_.times[Phase::kParse];
  parse = std::max<std::int64_t>(parse - request.gate_nanos, 0);
  laps_.times[Phase::kAuthorise] = request.gate_nanos;
}

Result<Timing> Timing::begin(const net::Request& request) {
  const std::string_view wanted = net::find_header(request.headers, kTimingHeader);
  if (!wanted.empty() && wanted != "0" && wanted != "1") {
    return Error(ErrorId::kInvalidArgument,
                 std::string(kTimingHeader) + " must be 1 to ask for the times, or left out");
  }
  return Timing(request, wanted == "1");
}

void Timing::answered(const serving::PhaseTimes& times) {
  for (const Phase phase : {Phase::kFeatures, Phase::kQueue, Phase::kBatch, Phase::kExecute}) {
    laps_.times[phase] = times[phase];
  }
  laps_.skip();
}

std::string Timing::rendered(const serving::LiveModel& live) {
  laps_.end(Phase::kRender);
  serving::Deployments::observe(live, laps_.times);
  return wanted_ ? serving::server_timing(laps_.times) : std::string();
}

void Timing::rendered(const serving::LiveModel& live, net::Response& response) {
  std::string told = rendered(live);
  if (wanted_) response.headers.emplace_back("Server-Timing", std::move(told));
}

}  // namespace falaj::api
