#include <fstream>
#include <iterator>

#include "app/secret_file.h"
#include "app/wiring.h"
#include "net/client.h"

namespace falaj::app {
namespace {

constexpr std::size_t kProviderReplyMax = 256 << 10;

// "https://id.example:8443/path?x" → its origin and the rest.
std::pair<std::string, std::string> split_url(const std::string& url) {
  const std::size_t start = url.find("://");
  const std::size_t slash = start == std::string::npos ? start : url.find('/', start + 3);
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

Error provider_error(const std::string& origin, const std::string& what) {
  return {ErrorId::kProviderUnavailable, "the identity provider at " + origin + " " + what};
}

// One call, one connection: the provider is asked a few times an hour.
Result<std::string> call_provider(const security::ProviderCall& call, const std::string& ca_file) {
  const auto [origin, target] = split_url(call.url);
  net::ClientOptions options;
  options.base_url = origin;
  options.headers = {call.headers.begin(), call.headers.end()};
  options.headers.emplace_back("Accept", "application/json");
  options.request_timeout = Duration::seconds(10);
  options.tls.authority = ca_file;
  options.reply_bytes_max = kProviderReplyMax;
  Result<std::unique_ptr<net::Client>> client = net::Client::create(options);
  if (!client.ok()) return provider_error(origin, "cannot be asked: " + client.error().message);
  const Result<net::ClientReply> reply =
      call.form ? (*client)->send(net::Method::kPost, target, *call.form,
                                  "application/x-www-form-urlencoded")
                : (*client)->send(net::Method::kGet, target, "");
  if (!reply.ok()) return provider_error(origin, "does not answer: " + reply.error().message);
  if (reply->status != 200) {
    const bool not_known = reply->status == 401 && call.form.has_value();
    return provider_error(origin, "answered " + std::to_string(reply->status) +
                                      (not_known ? ": security.oidc_client_id or the secret in "
                                                   "security.oidc_client_secret_file is wrong"
                                                 : ""));
  }
  return reply->body;
}

Result<std::string> callback_url(const Options& options) {
  if (!options.listen.public_url.empty()) {
    std::string base = options.listen.public_url;
    while (base.ends_with('/')) base.pop_back();
    return base + "/auth/callback";
  }
  if (options.http.port == 0) {
    return Error{Code::kInvalidArgument,
                 "signing in by an identity provider needs server.public_url or a fixed port: the "
                 "provider must know where to send the browser back"};
  }
  const bool tls = options.listen.mode == ListenOptions::Mode::kProduction;
  return std::string(tls ? "https://" : "http://") + options.http.host + ":" +
         std::to_string(options.http.port) + "/auth/callback";
}

// Found out at the start, not by the first who signs in.
Status check_authority(const std::string& authority) {
  if (authority.empty() || authority.starts_with("sha256:")) return {};
  std::ifstream file(authority, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.is_open() && text.find("-----BEGIN CERTIFICATE-----") != std::string::npos) return {};
  return Error{Code::kInvalidArgument,
               "'" + authority + "', named by security.oidc_ca_file, " +
                   (file.is_open() ? "holds no certificate (PEM)" : "cannot be read")};
}

Result<std::optional<security::OidcOptions>> provider_options(const Options& options) {
  const IdentitySettings& settings = options.identity;
  std::optional<security::OidcOptions> provider;
  if (settings.oidc_issuer.empty()) return provider;
  provider.emplace();
  provider->issuer = settings.oidc_issuer;
  provider->audience = settings.oidc_audience;
  provider->client_id = settings.oidc_client_id;
  provider->groups_claim = settings.oidc_groups_claim;
  FALAJ_TRY(check_authority(settings.oidc_ca_file));
  // Without a client only bearer tokens are taken; with half of one nothing would tell.
  if (settings.oidc_client_id.empty() && !settings.oidc_client_secret_file.empty()) {
    return Error{Code::kInvalidArgument,
                 "security.oidc_client_secret_file is set, but security.oidc_client_id is empty: "
                 "name the console's client at the provider"};
  }
  if (!settings.oidc_client_secret_file.empty()) {
    provider->client_secret =
        FALAJ_TRY(read_secret("security.oidc_client_secret_file", settings.oidc_client_secret_file,
                              ErrorId::kInvalidArgument))
            .view();
  }
  if (!provider->client_id.empty()) provider->redirect_uri = FALAJ_TRY(callback_url(options));
  return provider;
}

}  // namespace

Result<std::unique_ptr<security::Identity>> wire_identity(const Options& options, Storage& storage,
                                                          const Clock& clock, IdentityHooks hooks) {
  security::IdentityOptions identity;
  identity.sign_in = options.listen.mode == ListenOptions::Mode::kLoopback
                         ? security::SignIn::kDeveloper
                         : security::SignIn::kRequired;
  identity.passwords.concurrent = options.identity.hash_concurrency;
  identity.sessions.idle = options.identity.session_idle;
  identity.sessions.absolute = options.identity.session_max;
  identity.oidc = FALAJ_TRY(provider_options(options));
  crypto::SecretBytes key = FALAJ_TRY(storage.keys.tree->store_key("identity"));
  security::IdentityPorts ports{
      .sql = *storage.sql,
      .audit = *storage.audit,
      .clock = clock,
      .random = crypto::system_random(),
      .fetch = [ca_file = options.identity.oidc_ca_file](
                   const security::ProviderCall& call) { return call_provider(call, ca_file); },
      .make_administrator = std::move(hooks.make_administrator),
      .users_changed = std::move(hooks.users_changed),
      .check_zone = [&exits = *storage.exits](const Zone& zone) -> Status {
        if (exits.snapshot()->zones.has(zone)) return {};
        return Error{ErrorId::kReferenceMissing, "Zone/" + zone.name() +
                                                     " is not declared; 'falaj zones' lists those "
                                                     "that are"};
      },
      .metrics = hooks.metrics};
  return security::Identity::open(std::move(identity), std::move(ports), std::move(key));
}

}  // namespace falaj::app
