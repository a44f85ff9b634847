#include "app/redis_rows.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/secret_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "net/address.h"
#include "net/dialer.h"
#include "storage/redis/url.h"
#include "storage/small_file.h"

namespace falaj::app {
namespace {

namespace redis = storage::redis;

constexpr std::size_t kPrefixMax = 64;
constexpr std::size_t kHolderDigits = 32;

Error refused(const std::string& text) { return Error(ErrorId::kOnlineStoreRefused, text); }

class SocketLink final : public redis::Link {
 public:
  explicit SocketLink(std::unique_ptr<net::ByteConnection> bytes) : bytes_(std::move(bytes)) {}
  Status write(std::string_view bytes, std::int64_t deadline) override {
    return bytes_->write(bytes, deadline);
  }
  Result<std::size_t> read(std::span<char> into, std::int64_t deadline) override {
    return bytes_->read(into, deadline);
  }
  bool is_stale() const override { return bytes_->is_stale(); }

 private:
  const std::unique_ptr<net::ByteConnection> bytes_;
};

Result<redis::Url> url_of(const RedisSettings& settings) {
  if (settings.url.empty()) {
    return refused(
        "storage.online=redis needs storage.redis.url, such as "
        "rediss://cache.bank.example:6379/0");
  }
  if (settings.zone.empty()) {
    return refused(
        "storage.online=redis needs storage.redis.zone: the declared zone in which the server at "
        "storage.redis.url stands");
  }
  const Result<redis::Url> url = redis::parse_url(settings.url);
  if (!url.ok()) return refused(url.error().message);
  const bool here = url->host == "localhost" || net::is_loopback_address(url->host);
  if (url->scheme == redis::Url::Scheme::kPlain && !here) {
    return refused("storage.redis.url names " + url->shown() +
                   ", another machine in plain text: have Redis speak TLS (tls-port) and write "
                   "rediss://");
  }
  return *url;
}

Result<std::string> read_pem(const std::string& setting, const std::string& path) {
  Result<storage::SmallFile> file = storage::read_small_file(path);
  if (!file.ok()) return refused(setting + ": " + file.error().message);
  return std::move(file->content);
}

Result<net::ClientTls> tls_of(const RedisSettings& settings) {
  net::ClientTls tls;
  tls.authority = settings.ca_file;
  if (settings.cert_file.empty() != settings.key_file.empty()) {
    return refused("storage.redis.cert_file and storage.redis.key_file come together: name both");
  }
  if (settings.cert_file.empty()) return tls;
  tls.identity.chain_pem = FALAJ_TRY(read_pem("storage.redis.cert_file", settings.cert_file));
  tls.identity.key_pem = FALAJ_TRY(read_pem("storage.redis.key_file", settings.key_file));
  return tls;
}

Status check_prefix(const std::string& prefix) {
  const bool clean = std::all_of(prefix.begin(), prefix.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("*?[]\\").find(c) == std::string_view::npos;
  });
  if (!prefix.empty() && prefix.size() <= kPrefixMax && clean) return {};
  return refused(
      "storage.redis.prefix is 1 to 64 letters, digits and signs, without blanks and * ? [ ] \\");
}

}  // namespace

Result<redis::Dial> dial_redis(const RedisSettings& settings) {
  const redis::Url url = FALAJ_TRY(url_of(settings));
  net::DialerOptions options;
  options.host = url.host;
  options.port = url.port;
  options.connect_timeout = settings.timeout;
  if (url.scheme == redis::Url::Scheme::kTls) options.tls = FALAJ_TRY(tls_of(settings));
  Result<std::unique_ptr<net::Dialer>> made = net::Dialer::create(options);
  if (!made.ok()) return refused(made.error().message);
  std::shared_ptr<const net::Dialer> dialer(std::move(made).value());  // A Dial is copied.
  return redis::Dial([dialer]() -> Result<std::unique_ptr<redis::Link>> {
    return std::unique_ptr<redis::Link>(std::make_unique<SocketLink>(FALAJ_TRY(dialer->dial())));
  });
}

Result<std::unique_ptr<redis::RedisRows>> open_redis_rows(const RedisSettings& settings,
                                                          security::keys::KeyTree& keys,
                                                          const std::string& embedded) {
  const redis::Url url = FALAJ_TRY(url_of(settings));
  FALAJ_TRY(check_prefix(settings.prefix));
  redis::Options options;
  options.name = url.shown();
  options.user = url.user;
  options.database = url.database;
  options.prefix = settings.prefix;
  options.durability = settings.durability;
  options.replicas_min = settings.replicas;
  options.reply_timeout = settings.timeout;
  if (!settings.password_file.empty()) {
    const crypto::SecretBytes password = FALAJ_TRY(read_secret(
        "storage.redis.password_file", settings.password_file, ErrorId::kOnlineStoreRefused));
    options.password = password.view();
  } else if (!url.user.empty()) {
    return refused("storage.redis.url names the user '" + url.user +
                   "', whose password storage.redis.password_file must name");
  }
  const crypto::SecretBytes own = FALAJ_TRY(keys.store_key("online-redis"));
  options.holder =
      sha256_hex("holder of online rows " + std::string(own.view())).substr(0, kHolderDigits);
  std::error_code failed;
  const bool moved = std::filesystem::exists(embedded, failed);
  if (moved) options.begin = redis::Options::Begin::kEmpty;
  auto store = FALAJ_TRY(redis::open_redis(FALAJ_TRY(dial_redis(settings)), std::move(options)));
  if (!moved) return store;
  std::filesystem::remove_all(embedded, failed);
  if (failed) return refused("cannot remove " + embedded + ": " + failed.message());
  log::info("online rows moved to redis", {{"at", url.shown()}, {"from", embedded}});
  return store;
}

}  // namespace falaj::app
