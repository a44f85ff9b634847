#include "security/identity/directory.h"

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "crypto/base64.h"
#include "crypto/kdf.h"
#include "security/access/grants.h"

namespace falaj::security {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::size_t kLabelBytesMax = 100;
constexpr std::size_t kScopesMax = 64;

std::string_view kind_word(PrincipalKind kind) {
  return kind == PrincipalKind::kService ? "service" : "user";
}

std::string name_key(PrincipalKind kind, std::string_view name) {
  return std::string(kind_word(kind)) + ":" + std::string(name);
}

// "User/u_…": audit entries name people by their id alone.
std::string audit_object(const std::string& id) {
  const bool service = id.starts_with("service:");
  return (service ? "Service/" : "User/") + id.substr(id.find(':') + 1);
}

Error no_such_user(const std::string& id) {
  return {Code::kNotFound, "there is no user or service '" + id + "'"};
}

Value scopes_value(const std::optional<std::vector<Scope>>& scopes) {
  if (!scopes) return Value();
  Value::Array list;
  for (const Scope& scope : *scopes) list.emplace_back(to_string(scope));
  return Value(std::move(list));
}

std::string time_text(Timestamp at) { return at.nanos == 0 ? "" : to_rfc3339(at); }

// A stored list that cannot be read limits to nothing: it must never widen.
std::optional<std::vector<Scope>> scopes_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::vector<Scope> scopes;
  const Result<Value> list = parse_json(text);
  if (!list.ok() || !list->is_array()) return scopes;
  for (const Value& one : list->as_array()) {
    const Result<Scope> scope = parse_scope(one.is_string() ? one.as_string() : "");
    if (scope.ok()) scopes.push_back(*scope);
  }
  return scopes;
}

DirectorySnapshot::Account account_of(const SqlRow& row) {
  DirectorySnapshot::Account account;
  account.user.id = row.text(0);
  account.user.kind = row.text(1) == "service" ? PrincipalKind::kService : PrincipalKind::kUser;
  account.user.name = row.text(2);
  account.password = row.text(3);
  account.user.source = row.text(4);
  account.user.state = row.text(5) == "active" ? AccountState::kActive : AccountState::kDisabled;
  account.user.created = Timestamp{row.integer(6)};
  account.user.seen = Timestamp{row.integer(7)};
  account.seen = std::make_shared<std::atomic<std::int64_t>>(row.integer(7));
  account.user.zone = Zone(row.text(8));
  return account;
}

PrincipalPtr principal_of(const User& user, const TokenInfo& token) {
  Principal principal;
  principal.kind = user.kind;
  principal.id = user.id;
  principal.name = user.name;
  principal.scopes = token.scopes;
  principal.credential = "token:" + token.id;
  principal.expires = token.expires;
  principal.zone = token.zone.labelled() ? token.zone : user.zone;
  return std::make_shared<const Principal>(std::move(principal));
}

DirectorySnapshot::Token token_of(const SqlRow& row, const User& user) {
  DirectorySnapshot::Token token;
  token.info.id = row.text(0);
  token.info.user = row.text(1);
  token.hash = row.text(2);
  token.info.label = row.text(3);
  token.info.scopes = scopes_of(row.text(4));
  token.info.created = Timestamp{row.integer(5)};
  token.info.expires = Timestamp{row.integer(6)};
  token.info.last_used = Timestamp{row.integer(7)};
  token.info.zone = Zone(row.text(8));
  token.principal = principal_of(user, token.info);
  return token;
}

Status check_token_request(const TokenRequest& request) {
  if (request.lifetime < Duration::minutes(1) || request.lifetime > Duration::days(366)) {
    return Error{ErrorId::kOutOfRange, "a token lives from 1 minute to 366 days"};
  }
  if (request.label.size() > kLabelBytesMax || !is_valid_utf8(request.label)) {
    return Error{ErrorId::kOutOfRange, "a token's label has at most 100 bytes of UTF-8"};
  }
  if (request.scopes && request.scopes->size() > kScopesMax) {
    return Error{ErrorId::kOutOfRange, "a token has at most 64 scopes"};
  }
  return {};
}

// Tokens that this thread has proven against the keyed hash that the directory holds: a client that
// keeps asking pays for one hash. A token that was revoked or changed has no such hash any more;
// one directory's key proves nothing to another.
class ProvenTokens {
 public:
  bool holds(const Directory* to, const TokenText& text, std::string_view hash) const {
    const Slot& slot = slots_[slot_of(text)];
    return slot.to == to && slot.hash == hash &&
           crypto::constant_time_equal(slot.secret.view(), text.secret);
  }
  void keep(const Directory* to, const TokenText& text, std::string_view hash) {
    Slot& slot = slots_[slot_of(text)];
    slot.to = to;
    slot.hash = hash;
    slot.secret = crypto::SecretBytes(text.secret);
  }

 private:
  struct Slot {
    const Directory* to = nullptr;
    std::string hash;
    crypto::SecretBytes secret;
  };
  static std::size_t slot_of(const TokenText& text) { return hash64(text.id) % 64; }
  std::array<Slot, 64> slots_;
};

}  // namespace

const storage::Migration kIdentityMigration{
    "security-010-identity",
    "CREATE TABLE users ("
    " id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, password TEXT NOT NULL,"
    " source TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL,"
    " seen INTEGER NOT NULL, UNIQUE (kind, name)) STRICT;"
    "CREATE TABLE tokens ("
    " id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES users (id), hash TEXT NOT NULL,"
    " label TEXT NOT NULL, scopes TEXT NOT NULL, created INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, used INTEGER NOT NULL) STRICT;"
    "CREATE INDEX tokens_by_user ON tokens (user);"};

const storage::Migration kCallerZonesMigration{
    "security-011-caller-zones",
    "ALTER TABLE users ADD COLUMN zone TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE tokens ADD COLUMN zone TEXT NOT NULL DEFAULT '';"};
const storage::Migration kFormerNamesMigration{
    "security-012-former-names", "CREATE TABLE former_names (hash TEXT PRIMARY KEY) STRICT;"};

Value to_value(const User& user) {
  Value value;
  value["id"] = user.id;
  value["kind"] = kind_word(user.kind);
  value["name"] = user.name;
  value["source"] = user.source;
  value["state"] = user.state == AccountState::kActive ? "active" : "disabled";
  value["created"] = time_text(user.created);
  value["seen"] = time_text(user.seen);
  value["zone"] = user.zone.name();
  return value;
}

Value to_value(const TokenInfo& token) {
  Value value;
  value["id"] = token.id;
  value["user"] = token.user;
  value["label"] = token.label;
  value["scopes"] = scopes_value(token.scopes);
  value["created"] = time_text(token.created);
  value["expires"] = time_text(token.expires);
  value["last_used"] = time_text(token.last_used);
  value["zone"] = token.zone.name();
  return value;
}

User DirectorySnapshot::Account::shown() const {
  User out = user;
  out.seen = Timestamp{seen->load(std::memory_order_relaxed)};
  return out;
}

const DirectorySnapshot::Account* DirectorySnapshot::by_name(PrincipalKind kind,
                                                             std::string_view name) const {
  const auto id = names.find(name_key(kind, name));
  if (id == names.end()) return nullptr;
  const auto account = accounts.find(id->second);
  return account == accounts.end() ? nullptr : &account->second;
}

Result<std::string> normal_user_name(std::string_view name) {
  std::string out(name.substr(0, 129));
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  const auto fits = [&](char c) {
    return plain(c) || std::string_view("._@+-").find(c) != std::string_view::npos;
  };
  if (out.empty() || out.size() > 128 || !plain(out.front()) || !std::ranges::all_of(out, fits) ||
      out.starts_with(kTokenPrefix) || out.starts_with("u_") || out.starts_with("o_") ||
      out.starts_with("s_") || out == "dev") {
    return Error{ErrorId::kInvalidName,
                 "'" + out +
                     "' is no user name: 1 to 128 of a-z 0-9 . _ @ + -, a letter or digit "
                     "first, and not like an id (u_…)"};
  }
  return out;
}

Directory::Directory(storage::SqlStore& sql, Audit& audit, const Clock& clock,
                     crypto::Random& random, crypto::SecretBytes key)
    : sql_(sql), audit_(audit), clock_(clock), random_(random), key_(std::move(key)) {
  published_.replace(std::make_shared<const DirectorySnapshot>());
}

Status Directory::load() {
  MutexLock lock(changing_);
  return publish();
}

Status Directory::publish() {
  auto next = std::make_shared<DirectorySnapshot>();
  const auto before = published_.load();
  next->generation = before->generation + 1;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    const SqlRows users =
        FALAJ_TRY(tx.query("SELECT id, kind, name, password, source, state, created, seen, zone "
                           "FROM users ORDER BY id"));
    for (const SqlRow& row : users) {
      DirectorySnapshot::Account account = account_of(row);
      next->has_local_user |=
          account.user.kind == PrincipalKind::kUser && account.user.source == "local";
      const auto known = before->accounts.find(account.user.id);
      if (known != before->accounts.end()) account.seen = known->second.seen;
      next->names.emplace(name_key(account.user.kind, account.user.name), account.user.id);
      next->accounts.emplace(account.user.id, std::move(account));
    }
    const SqlRows tokens =
        FALAJ_TRY(tx.query("SELECT id, user, hash, label, scopes, created, expires, used, zone "
                           "FROM tokens ORDER BY id"));
    for (const SqlRow& row : tokens) {
      const auto owner = next->accounts.find(row.text(1));
      if (owner == next->accounts.end()) continue;
      DirectorySnapshot::Token token = token_of(row, owner->second.user);
      const auto known = before->tokens.find(token.info.id);
      token.use = known != before->tokens.end() ? known->second.use : std::make_shared<TokenUse>();
      next->tokens.emplace(token.info.id, std::move(token));
    }
    return {};
  }));
  published_.replace(std::move(next));
  return {};
}

Status Directory::change(const RequestContext& context, const AuditEvent& event,
                         const std::function<Status(storage::SqlTransaction&)>& change) {
  MutexLock lock(changing_);
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(change(tx));
    FALAJ_TRY(audit_.append(tx, context, event));
    return {};
  }));
  return publish();
}

std::string Directory::fresh_user_id() const { return "user:u_" + random_.hex_id(10); }

std::string Directory::provider_id(std::string_view issuer, std::string_view subject) const {
  std::string message = "provider-subject";
  for (const std::string_view part : {issuer, subject}) {
    message += std::to_string(part.size()) + ":" + std::string(part);
  }
  const std::string hash = crypto::hmac_sha256(key_.view(), message);
  std::string id = "user:o_";
  static constexpr char kHex[] = "0123456789abcdef";
  for (std::size_t i = 0; i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(hash[i]);
    id += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return id;
}

Result<User> Directory::add_user(const RequestContext& context, const NewUser& request) {
  User user;
  user.kind = request.kind;
  const bool provider = request.source == "oidc" && request.name.starts_with(kProviderName);
  user.name = provider ? request.name : FALAJ_TRY(normal_user_name(request.name));
  user.source = request.source;
  user.created = clock_.now();
  user.id = request.id;
  user.zone = request.zone;
  const bool service = request.kind == PrincipalKind::kService;
  if (user.id.empty()) user.id = service ? "service:s_" + random_.hex_id(10) : fresh_user_id();
  Value detail;
  detail["source"] = user.source;
  if (user.zone.labelled()) detail["zone"] = user.zone.name();
  const AuditEvent event{"user.create", audit_object(user.id), detail};
  FALAJ_TRY(change(context, event, [&](SqlTransaction& tx) -> Status {
    const SqlRows count = FALAJ_TRY(tx.query("SELECT count(*) FROM users"));
    if (count.front().integer(0) >= static_cast<std::int64_t>(kUsersMax)) {
      return Error{ErrorId::kQuotaReached, "there are as many users as this server keeps"};
    }
    FALAJ_TRY(check_free(tx, user.kind, user.name));
    FALAJ_TRY(tx.execute(
        "INSERT INTO users (id, kind, name, password, source, state, created, seen, zone)"
        " VALUES (?, ?, ?, ?, ?, 'active', ?, 0, ?)",
        {user.id, std::string(kind_word(user.kind)), user.name, request.password, user.source,
         user.created.nanos, user.zone.name()}));
    return {};
  }));
  return user;
}

Status Directory::set_password(const RequestContext& context, const std::string& id,
                               const std::string& encoded) {
  return change(
      context, {"user.password", audit_object(id), Value()}, [&](SqlTransaction& tx) -> Status {
        const auto rows =
            FALAJ_TRY(tx.execute("UPDATE users SET password = ? WHERE id = ?", {encoded, id}));
        if (rows == 0) return no_such_user(id);
        return {};
      });
}

Status Directory::set_state(const RequestContext& context, const std::string& id,
                            AccountState state) {
  const bool active = state == AccountState::kActive;
  return change(context, {active ? "user.enable" : "user.disable", audit_object(id), Value()},
                [&](SqlTransaction& tx) -> Status {
                  const auto rows =
                      FALAJ_TRY(tx.execute("UPDATE users SET state = ? WHERE id = ?",
                                           {std::string(active ? "active" : "disabled"), id}));
                  if (rows == 0) return no_such_user(id);
                  return {};
                });
}

Status Directory::set_zone(const RequestContext& context, const std::string& id, const Zone& zone) {
  Value detail;
  detail["zone"] = zone.name();
  return change(
      context, {"user.zone", audit_object(id), detail}, [&](SqlTransaction& tx) -> Status {
        const auto rows =
            FALAJ_TRY(tx.execute("UPDATE users SET zone = ? WHERE id = ?", {zone.name(), id}));
        if (rows == 0) return no_such_user(id);
        return {};
      });
}

Status Directory::remove_user(const RequestContext& context, const std::string& id) {
  return change(context, {"user.delete", audit_object(id), Value()},
                [&](SqlTransaction& tx) -> Status {
                  FALAJ_TRY(retire_name(tx, id));
                  FALAJ_TRY(tx.execute("DELETE FROM tokens WHERE user = ?", {id}));
                  const auto rows = FALAJ_TRY(tx.execute("DELETE FROM users WHERE id = ?", {id}));
                  if (rows == 0) return no_such_user(id);
                  return {};
                });
}

Status Directory::rename(const RequestContext& context, const std::string& id,
                         const std::string& name) {
  const std::string normal = FALAJ_TRY(normal_user_name(name));
  return change(
      context, {"user.rename", audit_object(id), Value()}, [&](SqlTransaction& tx) -> Status {
        const bool service = id.starts_with("service:");
        FALAJ_TRY(check_free(tx, service ? PrincipalKind::kService : PrincipalKind::kUser, normal));
        FALAJ_TRY(retire_name(tx, id));
        const auto rows =
            FALAJ_TRY(tx.execute("UPDATE users SET name = ? WHERE id = ?", {normal, id}));
        if (rows == 0) return no_such_user(id);
        return {};
      });
}

std::string Directory::former_hash(PrincipalKind kind, std::string_view name) const {
  return crypto::base64url(crypto::hmac_sha256(key_.view(), "former-name:" + name_key(kind, name)));
}

Status Directory::check_free(SqlTransaction& tx, PrincipalKind kind,
                             const std::string& name) const {
  const SqlRows same = FALAJ_TRY(tx.query("SELECT 1 FROM users WHERE kind = ? AND name = ?",
                                          {std::string(kind_word(kind)), name}));
  if (!same.empty()) {
    return Error{Code::kConflict, "the name '" + name + "' is taken; choose another"};
  }
  const SqlRows former =
      FALAJ_TRY(tx.query("SELECT 1 FROM former_names WHERE hash = ?", {former_hash(kind, name)}));
  if (former.empty()) return {};
  const bool named = FALAJ_TRY(access::names_subject(tx, name_key(kind, name)));
  if (!named) return {};
  return Error{Code::kConflict, "the name '" + name +
                                    "' was somebody else's, and grants or groups still name it: "
                                    "take it out of them first, or choose another"};
}

Status Directory::retire_name(SqlTransaction& tx, const std::string& id) const {
  const SqlRows rows = FALAJ_TRY(tx.query("SELECT kind, name FROM users WHERE id = ?", {id}));
  if (rows.empty()) return no_such_user(id);
  const auto kind =
      rows.front().text(0) == "service" ? PrincipalKind::kService : PrincipalKind::kUser;
  FALAJ_TRY(tx.execute("INSERT INTO former_names (hash) VALUES (?) ON CONFLICT DO NOTHING",
                       {former_hash(kind, rows.front().text(1))}));
  return {};
}

void Directory::seen(const std::string& id) {
  const std::int64_t now = clock_.now().nanos;
  const auto current = snapshot();
  const auto account = current->accounts.find(id);
  if (account != current->accounts.end()) account->second.seen->store(now);
  const Status written = sql_.write([&](SqlTransaction& tx) -> Status {
    FALAJ_TRY(tx.execute("UPDATE users SET seen = ? WHERE id = ?", {now, id}));
    return {};
  });
  if (!written.ok()) log::warn("sign-in time not kept", {{"why", written.error().message}});
}

std::string Directory::token_hash(std::string_view id, std::string_view secret) const {
  std::string message = "token:";
  message.append(id).append(":").append(secret);
  return crypto::base64url(crypto::hmac_sha256(key_.view(), message));
}

Result<NewToken> Directory::add_token(const RequestContext& context, const TokenRequest& request) {
  FALAJ_TRY(check_token_request(request));
  NewTokenText text = make_token_text('t', random_);
  const TokenText parts = FALAJ_TRY(parse_token_text(text.text));
  NewToken made;
  made.info = {text.id,        request.user, request.label,
               request.scopes, clock_.now(), clock_.now() + request.lifetime,
               Timestamp{},    request.zone};
  const std::string hash = token_hash(parts.id, parts.secret);
  made.text = std::move(text.text);
  Value detail;
  detail["owner"] = request.user;
  detail["expires"] = to_rfc3339(made.info.expires);
  detail["scopes"] = scopes_value(request.scopes);
  if (request.zone.labelled()) detail["zone"] = request.zone.name();
  const AuditEvent event{"token.create", "Token/" + made.info.id, detail};
  FALAJ_TRY(change(context, event, [&](SqlTransaction& tx) -> Status {
    const SqlRows owner = FALAJ_TRY(
        tx.query("SELECT state, (SELECT count(*) FROM tokens WHERE user = users.id) FROM users"
                 " WHERE id = ?",
                 {request.user}));
    if (owner.empty() || owner.front().text(0) != "active") return no_such_user(request.user);
    if (owner.front().integer(1) >= static_cast<std::int64_t>(kTokensPerUserMax)) {
      return Error{ErrorId::kQuotaReached, "this user has 100 tokens; revoke one first"};
    }
    FALAJ_TRY(tx.execute(
        "INSERT INTO tokens (id, user, hash, label, scopes, created, expires, used, zone)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
        {made.info.id, request.user, hash, request.label,
         request.scopes ? to_json(scopes_value(request.scopes)) : std::string(),
         made.info.created.nanos, made.info.expires.nanos, request.zone.name()}));
    return {};
  }));
  return made;
}

Status Directory::revoke_token(const RequestContext& context, const std::string& id) {
  return change(context, {"token.revoke", "Token/" + id, Value()},
                [&](SqlTransaction& tx) -> Status {
                  const auto rows = FALAJ_TRY(tx.execute("DELETE FROM tokens WHERE id = ?", {id}));
                  if (rows == 0) return Error{Code::kNotFound, "there is no token '" + id + "'"};
                  return {};
                });
}

std::vector<User> Directory::users() const {
  std::vector<User> out;
  const auto now = snapshot();
  for (const auto& [id, account] : now->accounts) out.push_back(account.shown());
  std::ranges::sort(out, {}, [](const User& user) { return std::pair(user.kind, user.name); });
  return out;
}

std::vector<TokenInfo> Directory::tokens(const std::string& user) const {
  std::vector<TokenInfo> out;
  const auto now = snapshot();
  for (const auto& [id, token] : now->tokens) {
    if (!user.empty() && token.info.user != user) continue;
    out.push_back(token.info);
    const std::int64_t used = token.use->seconds.load(std::memory_order_relaxed);
    if (used != 0) out.back().last_used = Timestamp::from_seconds(used);
  }
  std::ranges::sort(out, {}, [](const TokenInfo& token) { return token.created.nanos; });
  return out;
}

Result<PrincipalPtr> Directory::check_token(const TokenText& text, Timestamp now) const {
  const auto current = snapshot();
  const auto found = current->tokens.find(std::string(text.id));
  const bool known = found != current->tokens.end();
  thread_local ProvenTokens proven;
  if (!known || !proven.holds(this, text, found->second.hash)) {
    // The same work for a token that nobody has.
    const std::string hash = token_hash(text.id, text.secret);
    if (!known || !crypto::constant_time_equal(hash, found->second.hash)) {
      return Error{ErrorId::kCredentialRefused, "the token is not known here; it may be revoked"};
    }
    proven.keep(this, text, hash);
  }
  const DirectorySnapshot::Token& token = found->second;
  if (now >= token.info.expires) {
    return Error{ErrorId::kCredentialExpired, "the token has expired"};
  }
  const auto owner = current->accounts.find(token.info.user);
  if (owner == current->accounts.end() || owner->second.user.state != AccountState::kActive) {
    return Error{ErrorId::kCredentialExpired, "the token's owner is disabled"};
  }
  const std::int64_t minute = now.nanos / 60'000'000'000 * 60;
  if (token.use->seconds.load(std::memory_order_relaxed) != minute) {
    token.use->seconds.store(minute, std::memory_order_relaxed);
  }
  // Held by the snapshot, whose count is the thread's own (base/published.h).
  return PrincipalPtr(current, token.principal.get());
}

Status Directory::flush_last_used() {
  const auto current = snapshot();
  std::vector<std::pair<std::string, std::int64_t>> news;
  for (const auto& [id, token] : current->tokens) {
    const std::int64_t used = token.use->seconds.load(std::memory_order_relaxed);
    if (token.use->written.exchange(used) != used) news.emplace_back(id, used * 1'000'000'000);
  }
  if (news.empty()) return {};
  return sql_.write([&](SqlTransaction& tx) -> Status {
    for (const auto& [id, used] : news) {
      FALAJ_TRY(
          tx.execute("UPDATE tokens SET used = ? WHERE id = ? AND used < ?", {used, id, used}));
    }
    return {};
  });
}

}  // namespace falaj::security
