// security/identity/sessions.h — the console's sessions.
//
// A session is 256 random bits in a cookie; here only its hash is kept, in memory: a restart signs
// everybody out. It ends after an idle time, after an absolute time, when it is revoked, and when
// its user is disabled, deleted, moved to another zone or given another password: the account is
// looked at again whenever the session is used, so that one which was started while its user was
// being disabled ends too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "crypto/random.h"
#include "security/context.h"
#include "security/identity/credentials.h"

namespace falaj::security {

struct SessionOptions {
  Duration idle = Duration::minutes(30);
  Duration absolute = Duration::hours(12);
  std::size_t sessions_max = 10'000;
  std::size_t per_user_max = 32;  // The oldest of the user's is ended for the new one.
};

struct NewSession {
  std::string cookie;  // The secret; for Set-Cookie only.
  std::string csrf;    // The page sends it back in X-Falaj-CSRF.
  Timestamp expires{};
};

struct SessionInfo {
  std::string id;    // Public: names it in lists and in revoke().
  std::string user;  // Principal id.
  Timestamp created{};
  Timestamp seen{};
  Timestamp expires{};
};

// Whether the account is still as it was when `principal` signed in with `proof`. Never blocks.
using AccountHolds = std::function<bool(const Principal& principal, std::string_view proof)>;

// Thread-safe; short sharded locks.
class Sessions {
 public:
  // Without `holds` every account does.
  Sessions(const SessionOptions& options, crypto::Random& random, AccountHolds holds = {});

  // `proof` is what the account was proven by, as it stands in the directory (the password's hash;
  // "" for the identity provider's). FJ-7016 when there are too many, FJ-7012 when the account
  // changed meanwhile.
  Result<NewSession> start(Principal principal, Timestamp now, std::string proof = "");
  // FJ-7012 when there is no such session (any more). Counts as a sign of life, unless `why` says
  // otherwise. With kYes the CSRF token must agree: FJ-7014.
  enum class CheckCsrf : std::uint8_t { kNo, kYes };
  Result<PrincipalPtr> use(std::string_view cookie, std::string_view csrf, CheckCsrf check,
                           Timestamp now, Asking why = Asking::kRequest);
  // The page's CSRF token, from the cookie that the browser sent; "" for a bad one.
  std::string csrf_of(std::string_view cookie) const;

  void end(std::string_view cookie);
  bool revoke(std::string_view id);
  void revoke_user(std::string_view user);
  void sweep(Timestamp now);  // Forgets what has ended.
  std::vector<SessionInfo> list() const;

 private:
  struct Session {
    std::string id;
    PrincipalPtr principal;
    std::string proof;
    Timestamp created{};
    Timestamp seen{};
    Timestamp expires{};
  };
  bool has_ended(const Session& session, Timestamp now) const;
  void end_oldest_of(const std::string& user) FALAJ_REQUIRES(mutex_);

  const SessionOptions options_;
  crypto::Random& random_;
  const AccountHolds holds_;
  crypto::SecretBytes csrf_key_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Session> sessions_ FALAJ_GUARDED_BY(mutex_);  // By hash.
};

}  // namespace falaj::security
