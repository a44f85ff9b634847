// net/client.h — the HTTP client of the CLI, of webhooks and of tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http.h"
#include "net/tls_options.h"

namespace falaj::net {

// Which addresses a client may call: any, or only those of is_public_address(), checked after the
// name was looked up and on the very address that is then called.
enum class Reach : std::uint8_t { kAnywhere, kPublicOnly };

struct ClientOptions {
  std::string base_url;  // "http://127.0.0.1:7070" or https.
  Headers headers;       // Sent with every request.
  Duration connect_timeout = Duration::seconds(5);
  Duration request_timeout = Duration::minutes(10);
  ClientTls tls;  // For https.
  Reach reach = Reach::kAnywhere;
  std::size_t reply_bytes_max = 256u << 20;
};

struct ClientReply {
  int status = 0;
  Headers headers;
  std::string body;
};

// One keep-alive connection; blocking; not thread-safe (make one per thread). Follows no redirect:
// it is a reply like any other.
class Client {
 public:
  static Result<std::unique_ptr<Client>> create(const ClientOptions& options);
  virtual ~Client() = default;
  // Any status is a reply; kUnavailable (FJ-8008) with the address when nobody answers there;
  // kUnauthenticated when its certificate is not believed.
  virtual Result<ClientReply> send(Method method, std::string_view target, std::string_view body,
                                   std::string_view content_type = "application/json") = 0;
  // Streams a file as the body.
  virtual Result<ClientReply> send_file(Method method, std::string_view target,
                                        const std::string& path, std::string_view content_type) = 0;
  // Reads server-sent events until `on_data` returns false or the server ends.
  virtual Status stream(std::string_view target,
                        const std::function<bool(std::string_view data)>& on_data) = 0;
};

}  // namespace falaj::net
