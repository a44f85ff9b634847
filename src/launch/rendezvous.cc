#include "launch/rendezvous.h"

#include "net/server.h"
#include "telemetry/metrics.h"

namespace falaj::launch {
namespace {

constexpr std::size_t kValueBytesMax = 1 << 20;
constexpr std::size_t kBytesMax = 64u << 20;
constexpr std::size_t kKeysMax = 100'000;

net::Response plain(int status, std::string body = "") {
  net::Response response;
  response.status = status;
  response.content_type = "application/octet-stream";
  response.body = std::move(body);
  return response;
}

net::Response failed(const Error& error) {
  return plain(error.code == Code::kResourceExhausted ? 413 : 503, error.message);
}

class HttpRendezvous final : public Rendezvous {
 public:
  explicit HttpRendezvous(KeyAccess access) : access_(std::move(access)) {}

  Status listen() {
    add(net::Method::kGet, [this](const std::string& key, const net::Request&) {
      auto value = access_.get(key);
      if (!value.ok()) return failed(value.error());
      return *value ? plain(200, std::move(**value)) : plain(404);
    });
    add(net::Method::kPut, [this](const std::string& key, const net::Request& request) {
      const Status kept = access_.put(key, request.body);
      return kept.ok() ? plain(200) : failed(kept.error());
    });
    add(net::Method::kDelete, [this](const std::string& key, const net::Request&) {
      const Status gone = access_.erase(key);
      return gone.ok() ? plain(200) : failed(gone.error());
    });
    net::ServerOptions options;
    options.loop_threads = 1;
    options.pool_threads = 2;
    const auto everyone = [](const net::Route&, net::Request&) { return Status{}; };
    server_ = FALAJ_TRY(net::Server::start(options, router_, everyone, metrics_));
    return {};
  }

  std::uint16_t port() const override { return server_->port(); }

 private:
  using Answer = std::function<net::Response(const std::string& key, const net::Request& request)>;

  void add(net::Method method, Answer answer) {
    net::Route route(method, "/{scope}/{key}", net::Permission::anyone(), net::Target::nothing(),
                     "A key of the workers.", [answer](const net::Request& request) {
                       return answer(request.params.at("scope") + "/" + request.params.at("key"),
                                     request);
                     });
    route.body_bytes_max = kValueBytesMax;
    router_.add(std::move(route));
  }

  const KeyAccess access_;
  telemetry::Metrics metrics_;
  net::Router router_;
  std::unique_ptr<net::Server> server_;
};

}  // namespace

Status Keys::put(const std::string& key, std::string value) {
  MutexLock lock(mutex_);
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : found->second.size();
  const bool fits = value.size() <= kValueBytesMax && bytes_ - before + value.size() <= kBytesMax &&
                    (found != values_.end() || values_.size() < kKeysMax);
  if (!fits) {
    return Error(Code::kResourceExhausted,
                 "the workers' key-value store is full; it takes 1 MiB a value, 64 MiB in all");
  }
  bytes_ = bytes_ - before + value.size();
  values_[key] = std::move(value);
  return {};
}

std::optional<std::string> Keys::get(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void Keys::erase(const std::string& key) {
  MutexLock lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= found->second.size();
  values_.erase(found);
}

void Keys::clear() {
  MutexLock lock(mutex_);
  values_.clear();
  bytes_ = 0;
}

KeyAccess access_to(Keys& keys) {
  KeyAccess access;
  access.put = [&keys](const std::string& key, std::string value) {
    return keys.put(key, std::move(value));
  };
  access.get = [&keys](const std::string& key) {
    return Result<std::optional<std::string>>(keys.get(key));
  };
  access.erase = [&keys](const std::string& key) {
    keys.erase(key);
    return Status{};
  };
  return access;
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::start(KeyAccess access) {
  auto server = std::make_unique<HttpRendezvous>(std::move(access));
  FALAJ_TRY(server->listen());
  return std::unique_ptr<Rendezvous>(std::move(server));
}

}  // namespace falaj::launch
