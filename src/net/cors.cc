#include <algorithm>

#include "net/internal/cors.h"
#include "net/internal/host_check.h"
#include "net/server.h"
#include "net/text.h"

namespace falaj::net {
namespace {

// Read by clients of predictions; others stay hidden from pages.
constexpr std::string_view kShown =
    "Inference-Header-Content-Length, Retry-After, Server-Timing, X-Falaj-Cache, X-Falaj-Fallback, "
    "X-Falaj-Receipt, X-Request-Id";
constexpr std::string_view kTaken =
    "Authorization, Content-Encoding, Content-Type, Inference-Header-Content-Length, "
    "X-Falaj-Receipt, X-Falaj-Timeout, X-Falaj-Timing, X-Request-Id, traceparent";
constexpr std::size_t kOriginsMax = 64;

// "https://app.example:8443": a scheme, a host, perhaps a port, and nothing behind them.
bool is_origin(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view authority = text.substr(scheme.size());
    const bool plain = std::all_of(authority.begin(), authority.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || is_digit(c) || c == '.' || c == '-' || c == ':' ||
             c == '[' || c == ']';
    });
    return plain && !host_without_port(authority).empty();
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> parse_origins(std::string_view text) {
  std::vector<std::string> origins;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view each = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (each.starts_with(' ')) each.remove_prefix(1);
    while (each.ends_with(' ')) each.remove_suffix(1);
    if (!is_origin(each) || origins.size() == kOriginsMax) {
      return Error(ErrorId::kOutOfRange,
                   "'" + std::string(each.substr(0, 80)) +
                       "' is no origin: write https://app.example or http://localhost:3000, in "
                       "small letters, at most 64 of them; there is no wildcard");
    }
    origins.emplace_back(each);
  }
  return origins;
}

bool CorsPolicy::lets_in(std::string_view origin) const {
  return std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

bool CorsPolicy::is_open(const Route& route) {
  const std::string_view path = route.path;
  const bool inference = route.dialect == "inference";
  if (route.method == Method::kPost) {
    return path.ends_with(":predict") || (inference && path.ends_with("/infer"));
  }
  // How one model is asked. How it is used, and which others there are, is no page's business.
  const bool of_a_model = path.starts_with("/v2/models/{") || path.starts_with("/v1/models/{");
  return inference && route.method == Method::kGet && of_a_model && !path.ends_with("/stats");
}

Response CorsPolicy::preflight(const Route& route) {
  Response response;
  response.status = 204;
  response.headers.emplace_back("Access-Control-Allow-Methods", method_name(route.method));
  response.headers.emplace_back("Access-Control-Allow-Headers", kTaken);
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

void CorsPolicy::add_headers(const Request& request, Response& response) const {
  if (origins_.empty()) return;
  // Also where no page asked: a cache must not give that answer to one.
  response.headers.emplace_back("Vary", "Origin");
  const std::string_view origin = find_header(request.headers, "Origin");
  if (origin.empty() || !lets_in(origin)) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", origin);
  response.headers.emplace_back("Access-Control-Expose-Headers", kShown);
}

}  // namespace falaj::net
