#include "net/http.h"

#include <algorithm>
#include <array>

#include "net/path.h"
#include "net/text.h"

namespace falaj::net {

std::string_view find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

std::string_view method_name(Method method) {
  static constexpr std::array<std::string_view, kMethodCount> kNames{
      "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  return kNames[static_cast<std::size_t>(method)];
}

std::optional<std::string> Request::query_param(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::optional<std::string> key = decode_query_text(pair.substr(0, equals));
    if (!key || *key != name) continue;
    if (equals == pair.size()) return std::string();
    return decode_query_text(pair.substr(equals + 1));
  }
  return std::nullopt;
}

Response Response::json(std::string body, int status) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

Response Response::text(std::string body, int status) {
  Response response = json(std::move(body), status);
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

}  // namespace falaj::net
