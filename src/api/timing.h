// api/timing.h — where the time of a prediction went, over every dialect: counted for each that is
// answered, told to who asks.
#pragma once

#include "net/http.h"
#include "serving/deployments.h"

namespace falaj::api {

// "1" asks for it; the reply then has the header Server-Timing, over gRPC the parameter.
inline constexpr std::string_view kTimingHeader = "X-Falaj-Timing";
inline constexpr std::string_view kTimingParameter = "falaj_timing";

class Timing {
 public:
  // The question was read just now. kInvalidArgument for another value of the header than 1 or 0.
  static Result<Timing> begin(const net::Request& request);
  // The answer is there, after what serving took of the time.
  void answered(const serving::PhaseTimes& times);
  // The reply is written: counts. "" unless the caller asked; else what to tell it.
  std::string rendered(const serving::LiveModel& live);
  // The same, told as the header.
  void rendered(const serving::LiveModel& live, net::Response& response);

 private:
  Timing(const net::Request& request, bool wanted);

  serving::Laps laps_;
  bool wanted_;
};

}  // namespace falaj::api
