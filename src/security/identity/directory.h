// security/identity/directory.h — users, services and their tokens: durable in SQL, read from an
// immutable snapshot.
//
// Names are personal and stand only in the (sealed) database; everything else knows people by their
// opaque id. Every change is one transaction with its audit entry, and is in force when it returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/published.h"
#include "base/value.h"
#include "crypto/random.h"
#include "security/audit.h"
#include "security/context.h"
#include "security/identity/credentials.h"
#include "storage/sql.h"

namespace falaj::security {

enum class AccountState : std::uint8_t { kActive, kDisabled };

struct User {
  std::string id;  // "user:u_…", "user:o_…" (identity provider), "service:s_…"
  PrincipalKind kind = PrincipalKind::kUser;  // kUser or kService.
  std::string name;                           // Unique among its kind; lower case.
  std::string source = "local";               // or "oidc"
  AccountState state = AccountState::kActive;
  Timestamp created{};
  Timestamp seen{};  // Last sign-in; zero for never.
  Zone zone{};       // Where they are, as an administrator declared; unlabelled: nobody said.
};
Value to_value(const User& user);

struct TokenInfo {
  std::string id;  // The part after "fj_": not secret.
  std::string user;
  std::string label;
  std::optional<std::vector<Scope>> scopes;  // Absent: all that the user may do.
  Timestamp created{};
  Timestamp expires{};
  Timestamp last_used{};  // To the minute; zero for never.
  Zone zone{};            // Where it is used; unlabelled: where its user is.
};
Value to_value(const TokenInfo& token);

struct TokenRequest {
  std::string user;
  std::string label;
  std::optional<std::vector<Scope>> scopes;
  Duration lifetime = Duration::days(90);  // 1 minute to 366 days, otherwise FJ-1006.
  Zone zone{};                             // As TokenInfo::zone.
};
struct NewToken {
  TokenInfo info;
  std::string text;  // Shown once; only its keyed hash is kept.
};

inline constexpr std::size_t kTokensPerUserMax = 100;
inline constexpr std::size_t kUsersMax = 100'000;

// When a token was last used, in seconds; `written` is what SQL has of it.
struct TokenUse {
  std::atomic<std::int64_t> seconds = 0;
  std::atomic<std::int64_t> written = 0;
};

// What authentication reads. Immutable but for the times of last use.
struct DirectorySnapshot {
  struct Account {
    User user;             // Its `seen` is as of the snapshot: shown() has the present one.
    std::string password;  // Encoded hash; "" for none.
    std::shared_ptr<std::atomic<std::int64_t>> seen;  // Nanoseconds; shared with the next one.
    User shown() const;
  };
  struct Token {
    TokenInfo info;
    std::string hash;
    PrincipalPtr principal;
    std::shared_ptr<TokenUse> use;
  };
  std::uint64_t generation = 0;
  bool has_local_user = false;                         // Somebody who can administer is there.
  std::unordered_map<std::string, Account> accounts;   // By id.
  std::unordered_map<std::string, std::string> names;  // "user:alice" → id
  std::unordered_map<std::string, Token> tokens;       // By token id.

  const Account* by_name(PrincipalKind kind, std::string_view name) const;
};

// Begins the names of those whom the provider vouches for: a name that it chose is never taken for
// one that was given here.
inline constexpr std::string_view kProviderName = "oidc:";

// 1 to 128 of [a-z0-9._@+-], first alphanumeric; upper case is lowered. FJ-1010 otherwise, for
// "dev", and for names that look like tokens.
Result<std::string> normal_user_name(std::string_view name);

extern const storage::Migration kIdentityMigration;
extern const storage::Migration kCallerZonesMigration;
extern const storage::Migration kFormerNamesMigration;

// Thread-safe. Changes block on SQL; snapshot() and check_token() never do.
class Directory {
 public:
  // `key` (32 bytes) keys the hashes of tokens; it is the same for ever.
  Directory(storage::SqlStore& sql, Audit& audit, const Clock& clock, crypto::Random& random,
            crypto::SecretBytes key);

  // Reads everything; once at start.
  Status load();
  std::shared_ptr<const DirectorySnapshot> snapshot() const { return published_.load(); }

  // `password` is an encoded hash or "". kConflict when the name is taken, or when it was somebody
  // else's who is gone and grants or groups still name it: they must not pass to a namesake. `id`
  // is "" for a fresh one, or that of a caller whom the identity provider vouches for.
  struct NewUser {
    PrincipalKind kind = PrincipalKind::kUser;
    std::string name;
    std::string password;
    std::string source = "local";
    std::string id;
    Zone zone{};
  };
  // With source "oidc" the name may be "oidc:…", which nobody can take here.
  Result<User> add_user(const RequestContext& context, const NewUser& user);
  // FJ-0004 when there is no such id, for these five.
  Status set_password(const RequestContext& context, const std::string& id,
                      const std::string& encoded);
  Status set_state(const RequestContext& context, const std::string& id, AccountState state);
  // An unlabelled zone takes the declaration back.
  Status set_zone(const RequestContext& context, const std::string& id, const Zone& zone);
  Status remove_user(const RequestContext& context, const std::string& id);
  Status rename(const RequestContext& context, const std::string& id, const std::string& name);
  // After a sign-in, by whichever means; not audited by itself. Blocks on SQL.
  void seen(const std::string& id);

  Result<NewToken> add_token(const RequestContext& context, const TokenRequest& request);
  Status revoke_token(const RequestContext& context, const std::string& id);
  std::vector<User> users() const;                               // By name.
  std::vector<TokenInfo> tokens(const std::string& user) const;  // "": everybody's.

  // The principal of a token that holds. FJ-7011 for one that nobody has, FJ-7012 when it ended or
  // its user is disabled. A few microseconds.
  Result<PrincipalPtr> check_token(const TokenText& token, Timestamp now) const;
  // Writes times of last use back; at most once a minute per token is news.
  Status flush_last_used();
  // For callers the identity provider vouches for: the same person, the same id, no name in it.
  std::string provider_id(std::string_view issuer, std::string_view subject) const;
  std::string fresh_user_id() const;

 private:
  std::string token_hash(std::string_view id, std::string_view secret) const;
  // Runs `change` in one transaction with its audit entry, then publishes what SQL holds.
  Status change(const RequestContext& context, const AuditEvent& event,
                const std::function<Status(storage::SqlTransaction&)>& change);
  Status publish() FALAJ_REQUIRES(changing_);
  // Names that were somebody's, as keyed hashes: who is deleted leaves no name behind.
  std::string former_hash(PrincipalKind kind, std::string_view name) const;
  Status check_free(storage::SqlTransaction& tx, PrincipalKind kind, const std::string& name) const;
  Status retire_name(storage::SqlTransaction& tx, const std::string& id) const;

  storage::SqlStore& sql_;
  Audit& audit_;
  const Clock& clock_;
  crypto::Random& random_;
  crypto::SecretBytes key_;
  Mutex changing_;  // One change at a time, so that snapshots follow each other.
  Published<DirectorySnapshot> published_;
};

}  // namespace falaj::security
