// cli/connection.h — one server, spoken to in JSON; its errors become ours.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/value.h"
#include "net/client.h"

namespace falaj::cli {

// DESIGN's exit codes, derived from an error's class.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotFound = 3,
  kDenied = 4,
  kConflict = 5,
  kTimeout = 6,
};
ExitCode exit_code(Code code);

// Prints "falaj: <message>" with code and next step on standard error; returns the exit code, which
// is kUsage for FJ-1016. Prints nothing of an error without a message: that was told already.
int fail(const Error& error);

// The array, or an empty one when a server (older or newer than us) sent something else.
const Value::Array& items(const Value& value);

struct Target {
  std::string server = "http://127.0.0.1:7070";
  std::string project = "default";
  // Whom to believe behind https: a PEM file or "sha256:…" (net/tls_options.h); "": the system's.
  std::string authority = {};
  // PEM file with a certificate and its key, shown to a server that asks; "": none.
  std::string certificate = {};
  // Stated with every request, for break-glass grants and the audit; "": none.
  std::string reason = {};
  // What is shown to the server: "Bearer fj_…", "Basic …"; "": nothing. Never sent in the clear to
  // another machine.
  std::string authorization = {};
  net::Headers headers = {};  // Sent with every request.
};

// Not thread-safe.
class Connection {
 public:
  // FJ-1016 when target.server is no address, and when a credential would go over plain http to
  // another machine.
  static Result<std::unique_ptr<Connection>> open(const Target& target);

  // `path` may hold a query; `project` is added. A problem reply becomes its Error.
  Result<Value> get(const std::string& path);
  Result<Value> call(net::Method method, const std::string& path, const Value& body);
  Result<Value> upload(const std::string& path, const std::string& file);
  Result<Value> upload_bytes(const std::string& path, std::string_view bytes);
  // The body as it came, for what is not JSON; `project` is added.
  Result<std::string> raw(const std::string& path);
  // Server-sent events, until `on_data` returns false or the server ends; `project` is added.
  Status stream(const std::string& path, const std::function<bool(std::string_view data)>& on_data);
  Result<net::ClientReply> raw(net::Method method, const std::string& path, const Value& body);
  const Target& target() const { return target_; }

 private:
  explicit Connection(Target target) : target_(std::move(target)) {}
  std::string with_project(const std::string& path) const;

  Target target_;
  std::unique_ptr<net::Client> client_;
};

// Percent-encodes one path segment or query value.
std::string url_encode(std::string_view text);

}  // namespace falaj::cli
