#include "api/access_log.h"

#include <array>

#include "api/caller.h"
#include "api/request_id.h"
#include "base/log.h"
#include "security/audit/request_ids.h"

namespace falaj::api {
namespace {

std::string_view kind_name(security::PrincipalKind kind) {
  constexpr std::array<std::string_view, 5> names{"nobody", "user", "service", "job", "system"};
  return names[static_cast<std::size_t>(kind)];
}

void log_one(const net::Answered& answered) {
  if (!log::enabled(log::Level::kInfo)) return;
  const net::Request& request = answered.request;
  const security::PrincipalKind kind =
      request.caller == nullptr ? security::PrincipalKind::kNobody : principal_of(request).kind;
  const bool known = kind != security::PrincipalKind::kNobody;
  const std::string carried = carried_id(request);           // What the caller chose may be a name.
  const std::string_view traceparent = request.traceparent;  // "00-<trace id>-<span id>-01"
  log::info("request", {{"project", known ? project_of(request).str() : std::string()},
                        {"who", kind_name(kind)},
                        {"method", net::method_name(request.method)},
                        {"route", answered.route},
                        {"status", answered.status},
                        {"code", answered.code},
                        {"ms", static_cast<double>(answered.nanos) / 1e6},
                        {"bytes_in", answered.bytes_in},
                        {"bytes_out", answered.bytes_out},
                        {"request_id", security::request_ids_of(carried).ours},
                        {"trace_id", traceparent.size() < 35 ? "" : traceparent.substr(3, 32)}});
}

}  // namespace

net::OnAnswered access_log() { return log_one; }

}  // namespace falaj::api
