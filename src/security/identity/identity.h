// security/identity/identity.h — who asks: every way of saying so, and the life of users, tokens
// and sessions.
//
// authenticate() reads immutable snapshots and never blocks, but for a password that was not just
// proven (a hash) and a JWT with a key that was not seen yet (one call to the provider): cost()
// says so before, and the server moves such a request to the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/published.h"
#include "crypto/password.h"
#include "security/identity/credentials.h"
#include "security/identity/directory.h"
#include "security/identity/failed_sign_ins.h"
#include "security/identity/job_identities.h"
#include "security/identity/oidc.h"
#include "security/identity/recent.h"
#include "security/identity/sessions.h"
#include "security/identity/throttle.h"

namespace falaj::security {

// kDeveloper: `falaj dev`. Who shows nothing is the local developer "user:dev"; what is shown is
// checked all the same. kRequired: who shows nothing is nobody.
enum class SignIn : std::uint8_t { kDeveloper, kRequired };

struct IdentityOptions {
  SignIn sign_in = SignIn::kRequired;
  crypto::PasswordOptions passwords;
  SessionOptions sessions;
  ThrottleOptions throttle;
  Duration password_proven_for = Duration::minutes(5);  // Before it is hashed again.
  std::optional<OidcOptions> oidc;
};

// The outside that identity needs.
struct IdentityPorts {
  storage::SqlStore& sql;
  Audit& audit;
  const Clock& clock;
  crypto::Random& random;
  ProviderFetch fetch;  // Needed with options.oidc.
  // Makes this principal an administrator (a Grant, through the catalog). Called before the first
  // administrator's account is made.
  std::function<Status(const std::string& principal_id)> make_administrator;
  // After every change of users, so that names in grants are resolved anew. May be empty.
  std::function<void()> users_changed;
  // Whether a zone is declared: FJ-2003 when it is not. Empty: every name is taken.
  std::function<Status(const Zone&)> check_zone{};
  telemetry::Metrics* metrics = nullptr;  // Null: refusals are not counted there.
};

struct SignedIn {
  NewSession session;
  PrincipalPtr principal;
  std::string return_to = "/";
};

inline constexpr std::string_view kDeveloperId = "user:dev";
inline constexpr std::string_view kSessionCookie = "__Host-falaj";

// Thread-safe.
class Identity {
 public:
  // `key` is 32 bytes, the same for ever (KeyTree::store_key("identity")).
  static Result<std::unique_ptr<Identity>> open(IdentityOptions options, IdentityPorts ports,
                                                crypto::SecretBytes key);

  enum class Cost : std::uint8_t { kMemory, kBlocks };
  Cost cost(const Credentials& credentials) const;
  // Never null. Nobody (kNobody) for who shows nothing. FJ-7011 refused, FJ-7012 ended, FJ-7013 no
  // good JWT, FJ-7014 CSRF, FJ-7016 back-off, FJ-7019 provider. Authorization wins over the cookie,
  // the cookie over the client certificate.
  Result<PrincipalPtr> authenticate(const Credentials& credentials);
  // How long who just failed has to wait; for Retry-After.
  std::optional<Duration> back_off(std::string_view name, std::string_view address) const;

  // The console's sign-in. Blocks for a hash, known or not. FJ-7010 while nobody was set up.
  Result<SignedIn> sign_in(const std::string& name, const std::string& password,
                           std::string_view address);
  Result<LoginStart> begin_provider_login(std::string_view return_to);
  Result<SignedIn> finish_provider_login(const LoginAnswer& answer);
  void sign_out(std::string_view cookie) { sessions_.end(cookie); }
  std::string csrf_of(std::string_view cookie) const { return sessions_.csrf_of(cookie); }
  bool has_provider() const { return provider_ != nullptr; }

  // The first administrator. The secret is made anew at every start while nobody is there; 256
  // bits, good once. Empty when somebody is there, or for the local developer.
  std::string setup_secret() const;
  bool setup_pending() const;
  Result<User> set_up(const std::string& secret, const std::string& name,
                      const std::string& password, std::string_view address);

  // Administration. `password` "" makes an account that cannot sign in by password.
  Result<User> add_user(const RequestContext& context, const std::string& name,
                        const std::string& password, const Zone& zone = Zone());
  Result<User> add_service(const RequestContext& context, const std::string& name,
                           const Zone& zone = Zone());
  // Where the user or service is; unlabelled takes it back. Ends the user's sessions: they were
  // let in as from elsewhere.
  Status set_zone(const RequestContext& context, const std::string& id, const Zone& zone);
  // FJ-2003 for a zone that is not declared.
  Result<NewToken> add_token(const RequestContext& context, const TokenRequest& request);
  Status set_password(const RequestContext& context, const std::string& id,
                      const std::string& password);
  // The caller's own; needs the present one. Ends the user's sessions.
  Status change_password(const RequestContext& context, const std::string& present,
                         const std::string& next, std::string_view address);
  Status set_state(const RequestContext& context, const std::string& id, AccountState state);
  Status remove_user(const RequestContext& context, const std::string& id);
  Status revoke_session(const RequestContext& context, const std::string& id);
  // "alice", "user:alice", "service:etl" or an id → the account. FJ-0004.
  Result<User> find(const std::string& name_or_id) const;
  // Whether the account may still be used: it is there and not disabled. Also true of who needs
  // none here: callers of the provider, processes, the local developer.
  bool counts(const Principal& principal) const;
  // For grants: "user:alice" → its id; ids stay as they are; nullopt when nobody has the name.
  std::optional<std::string> resolve(const std::string& subject) const;

  Directory& directory() { return directory_; }
  Sessions& sessions() { return sessions_; }
  JobIdentities& jobs() { return jobs_; }
  // Ended sessions, times of last use, refused credentials, the provider's keys. Blocks.
  void tick();

 private:
  Identity(IdentityOptions options, IdentityPorts ports, crypto::SecretBytes key);
  Result<PrincipalPtr> known(const Authorization& shown, const Credentials& credentials);
  Result<PrincipalPtr> by_authorization(const Authorization& shown, std::string_view address);
  Result<PrincipalPtr> by_token(const TokenText& token) const;
  Result<PrincipalPtr> by_token(std::string_view text, std::string_view name) const;
  Result<PrincipalPtr> by_jwt(const std::string& token);
  Result<PrincipalPtr> by_password(const std::string& name, const std::string& password,
                                   std::string_view address);
  struct Proven {
    PrincipalPtr principal;
    std::string by;  // The password's hash, as it stands in the directory.
  };
  Result<Proven> prove_password(const std::string& name, const std::string& password,
                                std::string_view address);
  // Whether a session that was started so may go on.
  bool account_holds(const Principal& principal, std::string_view proof) const;
  Result<Principal> provider_principal(const ProviderCaller& caller) const;
  Status keep_provider_user(const Principal& principal);
  Status no_longer(const std::string& user);
  Status check_zone(const Zone& zone) const;
  void changed() const;

  const IdentityOptions options_;
  IdentityPorts ports_;
  crypto::Passwords passwords_;
  Directory directory_;
  Sessions sessions_;
  JobIdentities jobs_;
  LoginThrottle throttle_;
  FailedSignIns failed_;
  RecentlyProven recent_;
  std::unique_ptr<OidcProvider> provider_;
  Published<Principal> nobody_;  // Published: every request takes one.
  Published<Principal> developer_;
  mutable Mutex setup_;
  crypto::SecretBytes setup_secret_ FALAJ_GUARDED_BY(setup_);
};

}  // namespace falaj::security
