#include "cli/connection.h"

#include <cstdio>

#include "base/json.h"
#include "cli/client_options.h"
#include "cli/local_file.h"

namespace falaj::cli {
namespace {

bool is_this_machine(std::string_view server) {
  for (const std::string_view host : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    if (!server.starts_with(host)) continue;
    const std::string_view rest = server.substr(host.size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return true;
  }
  return false;
}

Result<Value> value_of_reply(Result<net::ClientReply> reply) {
  const net::ClientReply got = FALAJ_TRY(std::move(reply));
  if (got.status < 200 || got.status > 299) return error_of_reply(got);
  if (got.body.empty()) return Value();
  return parse_json(got.body, {.bytes_max = 256u << 20});
}

}  // namespace

ExitCode exit_code(Code code) {
  switch (code) {
    case Code::kNotFound:
      return ExitCode::kNotFound;
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
      return ExitCode::kDenied;
    case Code::kConflict:
      return ExitCode::kConflict;
    case Code::kDeadlineExceeded:
      return ExitCode::kTimeout;
    default:
      return ExitCode::kFailed;
  }
}

int fail(const Error& error) {
  const ErrorInfo& info = error_info(error.id);
  if (!error.message.empty())
    std::fprintf(stderr, "falaj: %s\n  %s %.*s. %.*s\n", error.message.c_str(),
                 to_string(error.id).c_str(), static_cast<int>(info.title.size()),
                 info.title.data(), static_cast<int>(info.next_step.size()), info.next_step.data());
  return static_cast<int>(error.id == ErrorId::kUsage ? ExitCode::kUsage : exit_code(error.code));
}

const Value::Array& items(const Value& value) {
  static const Value::Array kNone;
  return value.is_array() ? value.as_array() : kNone;
}

std::string url_encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                       (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.' ||
                       byte == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Error error_of_reply(const net::ClientReply& reply) {
  const Result<Value> body = parse_json(reply.body);
  const Code code = net::code_of_http_status(reply.status);
  if (!body.ok() || !body->is_object()) {
    return Error{code, "the server answered " + std::to_string(reply.status) + ": " +
                           reply.body.substr(0, 200)};
  }
  std::string message = body->text("detail", body->text("error", body->text("title")));
  const std::string request = body->text("instance");
  if (reply.status == 403 && !request.empty()) message += " (falaj why-denied " + request + ")";
  // A 404 may be a refusal in the words of what does not exist: its id finds out.
  if (reply.status == 404 && !request.empty()) message += " (request " + request + ")";
  // A known code says its class more exactly than the status does.
  if (const ErrorInfo* info = find_error(body->text("code"))) return Error{info->id, message};
  return Error{code, message};
}

Result<net::ClientOptions> client_options(const Target& target) {
  net::ClientOptions options;
  options.base_url = target.server;
  options.headers = target.headers;
  options.tls.authority = target.authority;
  if (!target.certificate.empty()) {
    options.tls.identity.chain_pem = FALAJ_TRY(read_text(target.certificate));
    options.tls.identity.key_pem = options.tls.identity.chain_pem;  // One file holds both.
  }
  if (!target.reason.empty()) options.headers.emplace_back("X-Falaj-Reason", target.reason);
  if (!target.authorization.empty()) {
    if (!target.server.starts_with("https://") && !is_this_machine(target.server)) {
      return Error{ErrorId::kUsage, "--server '" + target.server +
                                        "' is plain http on another machine: a credential is not "
                                        "sent there; use https"};
    }
    options.headers.emplace_back("Authorization", target.authorization);
  }
  return options;
}

Result<std::unique_ptr<Connection>> Connection::open(const Target& target) {
  std::unique_ptr<Connection> connection(new Connection(target));
  const net::ClientOptions options = FALAJ_TRY(client_options(target));
  Result<std::unique_ptr<net::Client>> client = net::Client::create(options);
  if (!client.ok() && client.error().code == Code::kInvalidArgument) {
    return Error{ErrorId::kUsage, "--server '" + target.server + "': " + client.error().message};
  }
  connection->client_ = FALAJ_TRY(std::move(client));
  return connection;
}

std::string Connection::with_project(const std::string& path) const {
  if (path.find("project=") != std::string::npos) return path;
  const char separator = path.find('?') == std::string::npos ? '?' : '&';
  return path + separator + "project=" + url_encode(target_.project);
}

Result<Value> Connection::get(const std::string& path) {
  return value_of_reply(client_->send(net::Method::kGet, with_project(path), ""));
}

Result<Value> Connection::call(net::Method method, const std::string& path, const Value& body) {
  const std::string text = body.is_null() ? "" : to_json(body);
  return value_of_reply(client_->send(method, with_project(path), text));
}

Result<Value> Connection::upload(const std::string& path, const std::string& file) {
  return value_of_reply(
      client_->send_file(net::Method::kPost, with_project(path), file, "application/octet-stream"));
}

Result<Value> Connection::upload_bytes(const std::string& path, std::string_view bytes) {
  return value_of_reply(
      client_->send(net::Method::kPost, with_project(path), bytes, "application/octet-stream"));
}

Result<std::string> Connection::raw(const std::string& path) {
  net::ClientReply reply = FALAJ_TRY(client_->send(net::Method::kGet, with_project(path), ""));
  if (reply.status != 200) return error_of_reply(reply);
  return std::move(reply.body);
}

Status Connection::stream(const std::string& path,
                          const std::function<bool(std::string_view data)>& on_data) {
  return client_->stream(with_project(path), on_data);
}

Result<net::ClientReply> Connection::raw(net::Method method, const std::string& path,
                                         const Value& body) {
  net::ClientReply reply = FALAJ_TRY(client_->send(method, with_project(path), to_json(body)));
  if (reply.status != 200) return error_of_reply(reply);
  return reply;
}

}  // namespace falaj::cli
