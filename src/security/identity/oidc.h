// security/identity/oidc.h — people and programs that an OpenID Connect provider vouches for.
//
// Bearer JWTs are checked against the provider's keys in memory; a key that is not there is fetched
// at most once in `refresh_min`, so that a flood of invented key ids costs the provider nothing.
// The console signs in by authorization code with PKCE, state and nonce; each state is good once,
// for ten minutes, in the browser that began. While the provider is down, known keys stay in use
// for `keys_max_age`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/published.h"
#include "base/time.h"
#include "crypto/jwt.h"
#include "crypto/random.h"

namespace falaj::security {

struct OidcOptions {
  std::string issuer;    // https, or http on loopback. As the provider writes it.
  std::string audience;  // That bearer tokens must name.
  std::string client_id;
  std::string client_secret;  // "" for a public client.
  std::string redirect_uri;   // https://this-server/auth/callback
  std::string groups_claim = "groups";
  Duration refresh_min = Duration::seconds(30);
  Duration keys_fresh = Duration::minutes(15);  // Then the next tick() fetches them again.
  Duration keys_max_age = Duration::hours(24);  // Then they are no longer believed.
  Duration login_max = Duration::minutes(10);
  std::size_t logins_max = 1000;  // Begun and not finished; then the oldest is dropped.
};

// One call to the provider. `form` makes it a POST of application/x-www-form-urlencoded.
struct ProviderCall {
  std::string url;
  std::optional<std::string> form;
  std::vector<std::pair<std::string, std::string>> headers;
};
// The body of a 200; FJ-7019 otherwise. Follows no redirect. May block.
using ProviderFetch = std::function<Result<std::string>(const ProviderCall&)>;

// Whom the provider vouches for.
struct ProviderCaller {
  std::string subject;
  std::string name;                 // preferred_username, email or name; "" when it says none.
  std::vector<std::string> groups;  // Sorted.
  Timestamp expires{};
};

struct LoginStart {
  std::string url;      // Where to send the browser.
  std::string browser;  // For a cookie: ties the answer to this browser.
};
struct LoginAnswer {
  std::string code;
  std::string state;
  std::string issuer;   // RFC 9207; "" when the provider sends none.
  std::string browser;  // From the cookie.
};
struct LoginDone {
  ProviderCaller caller;
  std::string return_to;
};

// Thread-safe.
class OidcProvider {
 public:
  // FJ-1006 for an issuer that is neither https nor http on loopback.
  static Result<std::unique_ptr<OidcProvider>> create(OidcOptions options, ProviderFetch fetch,
                                                      const Clock& clock, crypto::Random& random);

  // Never blocks: with the keys in memory. FJ-7013, FJ-7012 as crypto/jwt.h.
  Result<ProviderCaller> check_bearer(std::string_view token) const;
  // True when the token's key is not in memory and asking the provider is allowed now: then
  // fetch_keys() may help. Never blocks.
  bool wants_keys(std::string_view token) const;
  // Asks the provider; blocks. FJ-7019 when it fails or was asked less than refresh_min ago. One
  // caller asks at a time, the others wait for its answer.
  Status fetch_keys();
  // Renews keys when they are due; drops logins that were not finished. Blocks.
  void tick();

  // Blocks on discovery the first time. `return_to` is a path of this server.
  Result<LoginStart> begin_login(std::string_view return_to);
  // Redeems the code; blocks. FJ-7011 for a state that is unknown, used, expired or begun in
  // another browser; FJ-7013 when the id token does not hold; FJ-7019 when the provider fails.
  Result<LoginDone> finish_login(const LoginAnswer& answer);
  const OidcOptions& options() const { return options_; }

 private:
  struct Endpoints {
    std::string authorize;
    std::string token;
    std::string keys;
    std::string scopes;  // What to ask for.
    Timestamp at{};
  };
  struct KeysInMemory {
    crypto::JwtKeySet keys;
    Timestamp at{};
  };
  struct Pending {
    std::string nonce;
    std::string verifier;
    std::string browser_hash;
    std::string return_to;
    Timestamp begun{};
  };

  OidcProvider(OidcOptions options, ProviderFetch fetch, const Clock& clock,
               crypto::Random& random);
  Result<std::shared_ptr<const Endpoints>> endpoints();
  Result<Pending> take_pending(const LoginAnswer& answer);
  Result<ProviderCaller> redeem(const std::string& code, const Pending& pending);
  Result<crypto::JwtClaims> verify(const crypto::UnverifiedJwt& token, std::string audience,
                                   std::vector<std::string> types) const;
  ProviderCaller caller_of(const crypto::JwtClaims& claims) const;

  const OidcOptions options_;
  const ProviderFetch fetch_;
  const Clock& clock_;
  crypto::Random& random_;
  Published<KeysInMemory> keys_;
  Published<Endpoints> endpoints_;
  mutable Mutex asking_;  // Held while the provider is asked for keys.
  std::atomic<std::int64_t> asked_at_;
  Mutex mutex_;
  std::unordered_map<std::string, Pending> pending_ FALAJ_GUARDED_BY(mutex_);  // By state.
};

// True for a path on this server: "/…" without "//", "\\" or control characters.
bool is_local_path(std::string_view path);

}  // namespace falaj::security
