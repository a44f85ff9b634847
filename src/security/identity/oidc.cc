#include "security/identity/oidc.h"

#include <algorithm>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "crypto/base64.h"

namespace falaj::security {
namespace {

constexpr std::size_t kDocumentBytesMax = 256 << 10;
constexpr std::size_t kGroupsMax = 256;
constexpr std::size_t kGroupBytesMax = 128;
constexpr Duration kDiscoveryFresh = Duration::hours(1);

Error unavailable(std::string what) {
  return {ErrorId::kProviderUnavailable, "the identity provider: " + std::move(what)};
}

bool is_loopback_http(std::string_view url) {
  for (const std::string_view host : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    if (!url.starts_with(host)) continue;
    const std::string_view rest = url.substr(host.size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return true;
  }
  return false;
}

// Where the client's secret and codes go: never over plain HTTP beyond this machine.
bool is_safe_url(std::string_view url) {
  const bool plain = std::ranges::all_of(url, [](char c) { return c > 0x20 && c < 0x7f; });
  return plain && url.find('@') == std::string_view::npos &&
         (url.starts_with("https://") || is_loopback_http(url));
}

std::string form_encoded(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
        (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.' || byte == '~') {
      out.push_back(c);
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string form(const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    if (!out.empty()) out += "&";
    out.append(name).append("=").append(form_encoded(value));
  }
  return out;
}

std::string sha256_base64url(std::string_view text) {
  const Sha256 hash = sha256(text);
  return crypto::base64url({reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()});
}

Result<Value> document(const std::string& text, std::string_view what) {
  Result<Value> value = parse_json(text, {.bytes_max = kDocumentBytesMax, .depth_max = 16});
  if (!value.ok() || !value->is_object()) {
    return unavailable("its " + std::string(what) + " is no JSON object within the limits");
  }
  return value;
}

bool lists(const Value& list, std::string_view word) {
  return list.is_array() && std::ranges::any_of(list.as_array(), [&](const Value& one) {
           return one.is_string() && one.as_string() == word;
         });
}

}  // namespace

bool is_local_path(std::string_view path) {
  return path.size() <= 1024 && path.starts_with('/') && !path.starts_with("//") &&
         std::ranges::all_of(path, [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
}

OidcProvider::OidcProvider(OidcOptions options, ProviderFetch fetch, const Clock& clock,
                           crypto::Random& random)
    : options_(std::move(options)),
      fetch_(std::move(fetch)),
      clock_(clock),
      random_(random),
      asked_at_(Timestamp::min().nanos / 2) {
  keys_.replace(std::make_shared<const KeysInMemory>());
}

Result<std::unique_ptr<OidcProvider>> OidcProvider::create(OidcOptions options, ProviderFetch fetch,
                                                           const Clock& clock,
                                                           crypto::Random& random) {
  if (!is_safe_url(options.issuer)) {
    return Error{ErrorId::kOutOfRange, "security.oidc_issuer '" + options.issuer +
                                           "' must be an https URL (http only on loopback)"};
  }
  return std::unique_ptr<OidcProvider>(
      new OidcProvider(std::move(options), std::move(fetch), clock, random));
}

Result<std::shared_ptr<const OidcProvider::Endpoints>> OidcProvider::endpoints() {
  std::shared_ptr<const Endpoints> known = endpoints_.load();
  if (known != nullptr && clock_.now() - known->at < kDiscoveryFresh) return known;
  std::string base = options_.issuer;
  while (base.ends_with('/')) base.pop_back();
  Result<std::string> text = fetch_({base + "/.well-known/openid-configuration", std::nullopt, {}});
  if (!text.ok()) {
    if (known != nullptr) return known;  // Old addresses are better than none.
    return std::move(text).error();
  }
  const Value found = FALAJ_TRY(document(*text, "discovery document"));
  if (found.text("issuer") != options_.issuer) {
    return unavailable("its discovery document names the issuer '" + found.text("issuer") +
                       "', not '" + options_.issuer + "'");
  }
  auto next = std::make_shared<Endpoints>();
  next->authorize = found.text("authorization_endpoint");
  next->token = found.text("token_endpoint");
  next->keys = found.text("jwks_uri");
  next->at = clock_.now();
  for (const std::string& url : {next->authorize, next->token, next->keys}) {
    if (!is_safe_url(url)) return unavailable("its discovery document names no safe address");
  }
  next->scopes = "openid";
  for (const char* scope : {"profile", "email", "groups"}) {
    if (lists(found["scopes_supported"], scope)) next->scopes += std::string(" ") + scope;
  }
  endpoints_.replace(next);
  return std::shared_ptr<const Endpoints>(next);
}

bool OidcProvider::wants_keys(std::string_view token) const {
  const Result<crypto::UnverifiedJwt> jwt = crypto::parse_jwt(token);
  if (!jwt.ok() || jwt->claims.text("iss") != options_.issuer) return false;
  const auto known = keys_.load();
  const bool stale = clock_.now() - known->at > options_.keys_max_age;
  if (!stale && known->keys.find(jwt->kid) != nullptr) return false;
  return clock_.now().nanos - asked_at_.load() >= options_.refresh_min.nanos;
}

Status OidcProvider::fetch_keys() {
  MutexLock lock(asking_);
  const Timestamp now = clock_.now();
  if (now.nanos - asked_at_.load() < options_.refresh_min.nanos) {
    return unavailable("its keys were asked for a moment ago; try again in half a minute");
  }
  asked_at_.store(now.nanos);
  const auto where = FALAJ_TRY(endpoints());
  const std::string text = FALAJ_TRY(fetch_({where->keys, std::nullopt, {}}));
  auto next = std::make_shared<KeysInMemory>();
  next->keys = FALAJ_TRY(crypto::JwtKeySet::parse(text));
  next->at = now;
  keys_.replace(std::move(next));
  return {};
}

void OidcProvider::tick() {
  const Timestamp now = clock_.now();
  {
    MutexLock lock(mutex_);
    std::erase_if(pending_,
                  [&](const auto& item) { return now - item.second.begun > options_.login_max; });
  }
  if (now - keys_.load()->at < options_.keys_fresh) return;
  if (now.nanos - asked_at_.load() < options_.refresh_min.nanos) return;
  const Status fetched = fetch_keys();
  if (!fetched.ok()) log::warn("provider keys not renewed", {{"why", fetched.error().message}});
}

Result<crypto::JwtClaims> OidcProvider::verify(const crypto::UnverifiedJwt& token,
                                               std::string audience,
                                               std::vector<std::string> types) const {
  const auto known = keys_.load();
  if (clock_.now() - known->at > options_.keys_max_age) {
    return unavailable("its keys are too old to be believed, or were never fetched");
  }
  crypto::JwtRules rules;
  rules.issuer = options_.issuer;
  rules.audience = std::move(audience);
  rules.types = std::move(types);
  rules.now = clock_.now();
  return crypto::verify_jwt(token, known->keys, rules);
}

ProviderCaller OidcProvider::caller_of(const crypto::JwtClaims& claims) const {
  ProviderCaller caller;
  caller.subject = claims.subject;
  caller.expires = claims.expires;
  for (const char* claim : {"preferred_username", "email", "name"}) {
    if (caller.name.empty()) caller.name = claims.all.text(claim);
  }
  const Value& groups = claims.all[options_.groups_claim];
  if (groups.is_array()) {
    for (const Value& group : groups.as_array()) {
      if (!group.is_string() || group.as_string().empty()) continue;
      if (group.as_string().size() > kGroupBytesMax || caller.groups.size() >= kGroupsMax) continue;
      caller.groups.push_back(group.as_string());
    }
  }
  std::ranges::sort(caller.groups);
  const auto repeated = std::ranges::unique(caller.groups);
  caller.groups.erase(repeated.begin(), repeated.end());
  return caller;
}

Result<ProviderCaller> OidcProvider::check_bearer(std::string_view token) const {
  const crypto::UnverifiedJwt jwt = FALAJ_TRY(crypto::parse_jwt(token));
  const crypto::JwtClaims claims = FALAJ_TRY(verify(jwt, options_.audience, {"at+jwt", "jwt"}));
  // An id token says who signed in to the console; it is no key to the API.
  if (claims.all.has("at_hash") || claims.all.has("c_hash") || claims.all.has("nonce")) {
    return Error{ErrorId::kTokenMalformed,
                 "the bearer token was refused: it is an id token; send an access token"};
  }
  return caller_of(claims);
}

Result<LoginStart> OidcProvider::begin_login(std::string_view return_to) {
  const auto where = FALAJ_TRY(endpoints());
  const auto secret = [&] { return crypto::base64url(random_.secret(32).view()); };
  const std::string state = secret();
  Pending pending;
  pending.nonce = secret();
  pending.verifier = secret();
  pending.return_to = is_local_path(return_to) ? std::string(return_to) : "/";
  pending.begun = clock_.now();
  LoginStart start;
  start.browser = secret();
  pending.browser_hash = sha256_hex(start.browser);
  start.url = where->authorize + (where->authorize.find('?') == std::string::npos ? "?" : "&") +
              form({{"response_type", "code"},
                    {"client_id", options_.client_id},
                    {"redirect_uri", options_.redirect_uri},
                    {"scope", where->scopes},
                    {"state", state},
                    {"nonce", pending.nonce},
                    {"code_challenge", sha256_base64url(pending.verifier)},
                    {"code_challenge_method", "S256"}});
  MutexLock lock(mutex_);
  if (pending_.size() >= options_.logins_max) {
    pending_.erase(std::ranges::min_element(
        pending_, {}, [](const auto& item) { return item.second.begun.nanos; }));
  }
  pending_.emplace(state, std::move(pending));
  return start;
}

Result<OidcProvider::Pending> OidcProvider::take_pending(const LoginAnswer& answer) {
  const Error refused{ErrorId::kCredentialRefused,
                      "this sign-in was not begun here, has been used, or took too long; begin "
                      "again"};
  if (!answer.issuer.empty() && answer.issuer != options_.issuer) return refused;
  MutexLock lock(mutex_);
  const auto found = pending_.find(answer.state);
  if (found == pending_.end()) return refused;
  Pending pending = std::move(found->second);
  pending_.erase(found);  // Good once, whatever comes of it.
  const bool same_browser =
      crypto::constant_time_equal(sha256_hex(answer.browser), pending.browser_hash);
  if (!same_browser || clock_.now() - pending.begun > options_.login_max) return refused;
  return pending;
}

Result<LoginDone> OidcProvider::finish_login(const LoginAnswer& answer) {
  const Pending pending = FALAJ_TRY(take_pending(answer));
  if (answer.code.empty() || answer.code.size() > 4096) {
    return Error{ErrorId::kCredentialRefused, "the provider sent no code"};
  }
  LoginDone done;
  done.caller = FALAJ_TRY(redeem(answer.code, pending));
  done.return_to = pending.return_to;
  return done;
}

Result<ProviderCaller> OidcProvider::redeem(const std::string& code, const Pending& pending) {
  const auto where = FALAJ_TRY(endpoints());
  ProviderCall call;
  call.url = where->token;
  call.form = form({{"grant_type", "authorization_code"},
                    {"code", code},
                    {"redirect_uri", options_.redirect_uri},
                    {"client_id", options_.client_id},
                    {"code_verifier", pending.verifier}});
  if (!options_.client_secret.empty()) {
    // RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
    call.headers.emplace_back("Authorization",
                              "Basic " + crypto::base64(form_encoded(options_.client_id) + ":" +
                                                        form_encoded(options_.client_secret)));
  }
  const Result<std::string> text = fetch_(call);
  if (!text.ok()) return text.error().within("redeeming the sign-in's code");
  const Value reply = FALAJ_TRY(document(*text, "token reply"));
  const std::string id_token = reply.text("id_token");
  const crypto::UnverifiedJwt jwt = FALAJ_TRY(crypto::parse_jwt(id_token));
  if (wants_keys(id_token)) FALAJ_TRY(fetch_keys());
  const crypto::JwtClaims claims = FALAJ_TRY(verify(jwt, options_.client_id, {"jwt", ""}));
  if (!crypto::constant_time_equal(claims.all.text("nonce"), pending.nonce)) {
    return Error{ErrorId::kTokenMalformed, "the id token belongs to another sign-in"};
  }
  const Value& audience = claims.all["aud"];
  const bool several = audience.is_array() && audience.as_array().size() > 1;
  if (claims.all.text("azp", several ? "" : options_.client_id) != options_.client_id) {
    return Error{ErrorId::kTokenMalformed, "the id token was issued to another client"};
  }
  return caller_of(claims);
}

}  // namespace falaj::security
