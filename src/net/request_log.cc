#include "net/internal/request_log.h"

#include "base/log.h"

namespace falaj::net {

void log_answer(const Route* route, const Request& request, const Response& response,
                std::int64_t nanos) {
  const bool failed = response.status >= 500;
  if (!log::enabled(failed ? log::Level::kWarn : log::Level::kDebug)) return;
  const std::string_view traceparent = request.traceparent;  // "00-<trace id>-<span id>-01"
  const std::string_view trace = traceparent.size() < 35 ? "" : traceparent.substr(3, 32);
  const std::string_view pattern = route == nullptr ? "unmatched" : std::string_view(route->path);
  const std::string_view method = method_name(request.method);
  const double ms = static_cast<double>(nanos) / 1e6;
  if (!failed) {
    log::debug("request answered", {{"request_id", request.request_id},
                                    {"trace_id", trace},
                                    {"method", method},
                                    {"route", pattern},
                                    {"status", response.status},
                                    {"ms", ms}});
    return;
  }
  log::warn("request failed", {{"request_id", request.request_id},
                               {"trace_id", trace},
                               {"method", method},
                               {"route", pattern},
                               {"status", response.status},
                               {"code", response.error ? to_string(*response.error) : ""},
                               {"ms", ms}});
}

}  // namespace falaj::net
