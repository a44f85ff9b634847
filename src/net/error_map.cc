// The one table between error classes and HTTP statuses, and the native error body.
#include <algorithm>
#include <array>

#include "base/json.h"
#include "net/feast_error.h"
#include "net/http.h"
#include "net/internal/replies.h"

namespace falaj::net {
namespace {

struct Row {
  Code code;
  int status;
};

// The first row of a status is the class that a client reads from it.
constexpr std::array<Row, 13> kTable{{
    {Code::kInvalidArgument, 400},
    {Code::kUnauthenticated, 401},
    {Code::kPermissionDenied, 403},
    {Code::kNotFound, 404},
    {Code::kConflict, 409},
    {Code::kFailedPrecondition, 422},
    {Code::kResourceExhausted, 429},
    {Code::kCancelled, 499},
    {Code::kInternal, 500},
    {Code::kDataLoss, 500},
    {Code::kUnimplemented, 501},
    {Code::kUnavailable, 503},
    {Code::kDeadlineExceeded, 504},
}};

void append_member(std::string& out, std::string_view key, std::string_view text) {
  out += out.size() > 1 ? "," : "";
  append_json_string(out, key);
  out += ':';
  append_json_string(out, text);
}

// Jobs end after seconds at the soonest; a rate is free again within one.
std::int64_t usual_wait(ErrorId id) {
  return id == ErrorId::kQuotaReached || id == ErrorId::kQueueFull ? 10 : 1;
}

void add_retry_after(Response& response, const Request& request) {
  if (response.status != 429) return;
  const std::int64_t seconds = request.retry_after > 0
                                   ? request.retry_after
                                   : usual_wait(response.error.value_or(ErrorId::kRateLimited));
  response.headers.emplace_back("Retry-After", std::to_string(seconds));
}

// Not "Basic", which is accepted too: browsers would ask for it in a window of their own.
void add_challenge(Response& response) {
  if (response.status != 401) return;
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"falaj\"");
}

}  // namespace

int http_status(Code code) {
  for (const Row& row : kTable) {
    if (row.code == code) return row.status;
  }
  return 500;
}

int http_status(const Error& error) {
  if (error.id == ErrorId::kBodyTooLarge) return 413;
  if (error.id == ErrorId::kDataFolderFull) return 507;  // Trying again soon does not help.
  return http_status(error.code);
}

Code code_of_http_status(int status) {
  for (const Row& row : kTable) {
    if (row.status == status) return row.code;
  }
  if (status == 408) return Code::kDeadlineExceeded;
  if (status == 412) return Code::kFailedPrecondition;
  if (status == 421) return Code::kPermissionDenied;
  if (status == 502) return Code::kUnavailable;
  if (status == 507) return Code::kResourceExhausted;
  return status >= 400 && status < 500 ? Code::kInvalidArgument : Code::kInternal;
}

Response problem(const Error& error, const Request& request) {
  return problem_with_status(error, http_status(error), request);
}

Response problem_with_status(const Error& error, int status, const Request& request) {
  const ErrorInfo& info = error_info(error.id);
  const std::string code = to_string(error.id);
  std::string body = "{";
  append_member(body, "type", "urn:falaj:error:" + code);
  append_member(body, "title", info.title);
  body += ",\"status\":" + std::to_string(status);
  append_member(body, "detail", error.message);
  append_member(body, "instance", request.request_id);
  append_member(body, "code", code);
  append_member(body, "next_step", info.next_step);
  body += "}";
  Response response = Response::json(std::move(body), status);
  add_challenge(response);
  response.content_type = "application/problem+json";
  response.error = error.id;
  add_retry_after(response, request);
  return response;
}

std::string feast_body(const Error& error) {
  const char* type = "FeastError";
  if (error.code == Code::kNotFound) type = "FeastObjectNotFoundException";
  if (error.code == Code::kPermissionDenied) type = "FeastPermissionError";
  if (error.id == ErrorId::kFeatureNameCollision) type = "FeatureNameCollisionError";
  std::string inner = "{";
  append_member(inner, "module", "feast.errors");
  append_member(inner, "class", type);
  append_member(inner, "message", error.message);
  std::string body;
  append_json_string(body, inner + "}");
  return body;
}

Response error_reply(std::string_view dialect, const Error& error, int status,
                     const Request& request) {
  if (dialect != "inference" && dialect != "feast") {
    return problem_with_status(error, status, request);
  }
  std::string body = dialect == "feast" ? feast_body(error) : std::string();
  if (dialect == "inference") {
    body = "{";
    append_member(body, "error", error.message);
    body += "}";
  }
  Response response = Response::json(std::move(body), status);
  add_challenge(response);
  response.error = error.id;
  add_retry_after(response, request);
  return response;
}

}  // namespace falaj::net
