#include "security/identity/identity.h"

#include <algorithm>

#include "base/decode.h"
#include "base/log.h"
#include "crypto/base64.h"
#include "crypto/kdf.h"

namespace falaj::security {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kBearerToken = "Bearer fj_";  // kTokenPrefix behind it.

Error wrong_password() {
  return {ErrorId::kCredentialRefused, "the name or the password is wrong"};
}

Error wait_first(Duration wait) {
  const std::int64_t seconds = (wait.nanos + 999'999'999) / 1'000'000'000;
  return {ErrorId::kRateLimited,
          "too many failed sign-ins; try again in " + std::to_string(seconds) + " s"};
}

// What is remembered as proven: name and password, or a JWT, never alike.
std::string password_credential(const std::string& name, const std::string& password) {
  return "password:" + std::to_string(name.size()) + ":" + name + password;
}
std::string jwt_credential(const std::string& token) { return "jwt:" + token; }

PrincipalPtr developer() {
  Principal principal{PrincipalKind::kUser, std::string(kDeveloperId), "dev"};
  principal.credential = "local";
  return std::make_shared<const Principal>(std::move(principal));
}

Principal principal_of(const User& user) {
  Principal principal;
  principal.kind = user.kind;
  principal.id = user.id;
  principal.name = user.name;
  principal.zone = user.zone;
  return principal;
}

std::string_view how_shown(const Authorization& shown) {
  switch (shown.scheme) {
    case Scheme::kToken:
    case Scheme::kBasicToken:
      return "token";
    case Scheme::kJwt:
      return "jwt";
    case Scheme::kPassword:
      return "password";
    case Scheme::kNone:
      break;
  }
  return "session";
}

// A process of this deployment, by its verified client certificate.
PrincipalPtr process(std::string_view spiffe_id) {
  Principal principal{PrincipalKind::kService, "service:" + std::string(spiffe_id)};
  principal.name = spiffe_id;
  principal.credential = "certificate";
  return std::make_shared<const Principal>(std::move(principal));
}

}  // namespace

Identity::Identity(IdentityOptions options, IdentityPorts ports, crypto::SecretBytes key)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      passwords_(options_.passwords),
      directory_(ports_.sql, ports_.audit, ports_.clock, ports_.random, key.clone()),
      sessions_(options_.sessions, ports_.random,
                [this](const Principal& principal, std::string_view proof) {
                  return account_holds(principal, proof);
                }),
      jobs_(ports_.random, crypto::hkdf_sha256(key.view(), "", "falaj/job/tokens")),
      throttle_(options_.throttle),
      failed_(ports_.audit, ports_.metrics),
      recent_(ports_.random) {
  nobody_.replace(std::make_shared<const Principal>());
  developer_.replace(developer());
}

Result<std::unique_ptr<Identity>> Identity::open(IdentityOptions options, IdentityPorts ports,
                                                 crypto::SecretBytes key) {
  std::unique_ptr<Identity> identity(
      new Identity(std::move(options), std::move(ports), std::move(key)));
  FALAJ_TRY(identity->directory_.load());
  if (identity->options_.oidc) {
    identity->provider_ =
        FALAJ_TRY(OidcProvider::create(*identity->options_.oidc, identity->ports_.fetch,
                                       identity->ports_.clock, identity->ports_.random));
  }
  if (identity->options_.sign_in == SignIn::kRequired && identity->setup_pending()) {
    MutexLock lock(identity->setup_);
    identity->setup_secret_ =
        crypto::SecretBytes(crypto::base64url(identity->ports_.random.secret(32).view()));
  }
  return identity;
}

Identity::Cost Identity::cost(const Credentials& credentials) const {
  // Most callers show nothing here, or one of our tokens: nothing of that waits.
  if (credentials.authorization.empty() || credentials.authorization.starts_with(kBearerToken)) {
    return Cost::kMemory;
  }
  const Result<Authorization> shown = parse_authorization(credentials.authorization);
  const bool looks_up = shown.ok() && (shown->scheme == Scheme::kPassword ||
                                       (shown->scheme == Scheme::kJwt && provider_ != nullptr));
  if (!looks_up) return Cost::kMemory;
  const std::uint64_t generation = directory_.snapshot()->generation;
  const Timestamp now = ports_.clock.now();
  if (shown->scheme == Scheme::kPassword) {
    const std::string credential = password_credential(shown->name, shown->secret);
    return recent_.find(credential, generation, now) ? Cost::kMemory : Cost::kBlocks;
  }
  if (recent_.find(jwt_credential(shown->secret), generation, now)) return Cost::kMemory;
  return provider_->wants_keys(shown->secret) ? Cost::kBlocks : Cost::kMemory;
}

Result<PrincipalPtr> Identity::authenticate(const Credentials& credentials) {
  if (credentials.authorization.starts_with(kBearerToken)) {
    // The way of most requests, without a copy; what is refused goes the long way, and is noted.
    const auto text = parse_token_text(credentials.authorization.substr(kBearer.size()));
    Result<PrincipalPtr> principal = text.ok() ? by_token(*text) : text.error();
    if (principal.ok()) return principal;
  }
  const Result<Authorization> shown = parse_authorization(credentials.authorization);
  if (!shown.ok()) {
    failed_.note("authorization", shown.error(), "", credentials.address);
    return shown.error();
  }
  Result<PrincipalPtr> principal = known(*shown, credentials);
  if (!principal.ok() && credentials.asking == Asking::kRequest) {
    failed_.note(how_shown(*shown), principal.error(), shown->name, credentials.address);
  }
  return principal;
}

Result<PrincipalPtr> Identity::known(const Authorization& shown, const Credentials& credentials) {
  if (shown.scheme != Scheme::kNone) return by_authorization(shown, credentials.address);
  const std::string_view cookie = find_cookie(credentials.cookie, kSessionCookie);
  if (!cookie.empty()) {
    const auto check =
        credentials.method == Method::kSafe ? Sessions::CheckCsrf::kNo : Sessions::CheckCsrf::kYes;
    return sessions_.use(cookie, credentials.csrf, check, ports_.clock.now(), credentials.asking);
  }
  if (!credentials.tls_peer.empty()) return process(credentials.tls_peer);
  return options_.sign_in == SignIn::kDeveloper ? developer_.load() : nobody_.load();
}

Result<PrincipalPtr> Identity::by_authorization(const Authorization& shown,
                                                std::string_view address) {
  switch (shown.scheme) {
    case Scheme::kToken:
    case Scheme::kBasicToken:
      return by_token(shown.secret, shown.name);
    case Scheme::kJwt:
      return by_jwt(shown.secret);
    case Scheme::kPassword:
      return by_password(shown.name, shown.secret, address);
    case Scheme::kNone:
      break;
  }
  return nobody_.load();
}

Result<PrincipalPtr> Identity::by_token(const TokenText& token) const {
  const Timestamp now = ports_.clock.now();
  return token.id.front() == 'j' ? jobs_.check(token, now) : directory_.check_token(token, now);
}

// `name` is Basic's: the token's owner, "token", or nothing.
Result<PrincipalPtr> Identity::by_token(std::string_view text, std::string_view name) const {
  PrincipalPtr principal = FALAJ_TRY(by_token(FALAJ_TRY(parse_token_text(text))));
  if (name.empty() || name == "token" || name == "__token__") return principal;
  const Result<std::string> normal = normal_user_name(name);
  if (!normal.ok() || *normal != principal->name) {
    return Error{ErrorId::kCredentialRefused,
                 "the token belongs to another user than the one named"};
  }
  return principal;
}

Result<PrincipalPtr> Identity::by_jwt(const std::string& token) {
  if (provider_ == nullptr) {
    return Error{ErrorId::kTokenMalformed,
                 "a JWT was shown, but this server trusts no identity provider"};
  }
  const std::uint64_t generation = directory_.snapshot()->generation;
  const std::string credential = jwt_credential(token);
  if (PrincipalPtr known = recent_.find(credential, generation, ports_.clock.now())) return known;
  if (provider_->wants_keys(token)) {
    const Status fetched = provider_->fetch_keys();
    // Another caller may have fetched them meanwhile: the check below decides.
    if (!fetched.ok()) log::warn("provider keys not fetched", {{"why", fetched.error().message}});
  }
  const ProviderCaller caller = FALAJ_TRY(provider_->check_bearer(token));
  Principal principal = FALAJ_TRY(provider_principal(caller));
  principal.credential = "oidc";
  principal.expires = caller.expires;
  auto shared = std::make_shared<const Principal>(std::move(principal));
  recent_.keep(credential, generation, caller.expires, shared);
  return PrincipalPtr(std::move(shared));
}

Result<Principal> Identity::provider_principal(const ProviderCaller& caller) const {
  Principal principal;
  principal.kind = PrincipalKind::kUser;
  principal.id = directory_.provider_id(provider_->options().issuer, caller.subject);
  principal.name = caller.name.empty() ? caller.subject : caller.name;
  principal.groups = caller.groups;
  const auto now = directory_.snapshot();
  const auto account = now->accounts.find(principal.id);
  if (account == now->accounts.end()) return principal;
  if (account->second.user.state != AccountState::kActive) {
    return Error{ErrorId::kCredentialExpired, "this user is disabled"};
  }
  principal.zone = account->second.user.zone;
  return principal;
}

Result<PrincipalPtr> Identity::by_password(const std::string& name, const std::string& password,
                                           std::string_view address) {
  const std::uint64_t generation = directory_.snapshot()->generation;
  const Timestamp now = ports_.clock.now();
  const std::string credential = password_credential(name, password);
  if (PrincipalPtr known = recent_.find(credential, generation, now)) return known;
  const Proven proven = FALAJ_TRY(prove_password(name, password, address));
  recent_.keep(credential, generation, now + options_.password_proven_for, proven.principal);
  directory_.seen(proven.principal->id);
  return proven.principal;
}

std::optional<Duration> Identity::back_off(std::string_view name, std::string_view address) const {
  const Result<std::string> normal = normal_user_name(name);
  return throttle_.wait(normal.ok() ? *normal : std::string(name), address, ports_.clock.now());
}

bool Identity::account_holds(const Principal& principal, std::string_view proof) const {
  const auto now = directory_.snapshot();
  const auto found = now->accounts.find(principal.id);
  if (found == now->accounts.end()) return false;
  const DirectorySnapshot::Account& account = found->second;
  return account.user.state == AccountState::kActive && account.password == proof &&
         account.user.zone == principal.zone;
}

bool Identity::counts(const Principal& principal) const {
  const auto now = directory_.snapshot();
  const auto found = now->accounts.find(principal.id);
  if (found != now->accounts.end()) return found->second.user.state == AccountState::kActive;
  return !principal.id.starts_with("user:u_") && !principal.id.starts_with("service:s_");
}

Result<Identity::Proven> Identity::prove_password(const std::string& name,
                                                  const std::string& password,
                                                  std::string_view address) {
  if (setup_pending() && options_.sign_in == SignIn::kRequired) {
    return Error{ErrorId::kSetupPending,
                 "nobody can sign in before the first administrator is set up"};
  }
  const Timestamp now = ports_.clock.now();
  const Result<std::string> normal = normal_user_name(name);
  const std::string key = normal.ok() ? *normal : name;
  if (const auto wait = throttle_.wait(key, address, now)) return wait_first(*wait);
  const auto snapshot = directory_.snapshot();
  const DirectorySnapshot::Account* account =
      normal.ok() ? snapshot->by_name(PrincipalKind::kUser, *normal) : nullptr;
  const bool usable = account != nullptr && account->user.state == AccountState::kActive;
  // The same work and the same words for who is unknown, disabled or has no password.
  const crypto::PasswordMatch match =
      FALAJ_TRY(passwords_.verify(password, usable ? account->password : std::string()));
  if (match == crypto::PasswordMatch::kNo) {
    throttle_.failed(key, address, now);
    return wrong_password();
  }
  throttle_.succeeded(key);
  Principal principal = principal_of(account->user);
  principal.credential = "password";
  Proven proven{nullptr, account->password};
  if (match == crypto::PasswordMatch::kYesButOutdated) {
    Result<std::string> again = passwords_.hash(password);
    if (again.ok()) {
      const auto context = system_context("service:identity", ProjectName(), Zone());
      const Status kept = directory_.set_password(context, principal.id, *again);
      if (!kept.ok()) log::warn("password not hashed anew", {{"why", kept.error().message}});
      if (kept.ok()) proven.by = std::move(again).value();
    }
  }
  proven.principal = std::make_shared<const Principal>(std::move(principal));
  return proven;
}

Result<SignedIn> Identity::sign_in(const std::string& name, const std::string& password,
                                   std::string_view address) {
  const Result<Proven> shown = prove_password(name, password, address);
  if (!shown.ok()) {
    failed_.note("password", shown.error(), name, address);
    return shown.error();
  }
  const Proven& proven = *shown;
  const PrincipalPtr& principal = proven.principal;
  SignedIn done;
  done.session = FALAJ_TRY(sessions_.start(*principal, ports_.clock.now(), proven.by));
  done.principal = principal;
  RequestContext context;
  context.principal = *principal;
  FALAJ_TRY(
      ports_.audit.record(context, {"session.start", "User/" + principal->id.substr(5), Value()}));
  directory_.seen(principal->id);
  return done;
}

Result<LoginStart> Identity::begin_provider_login(std::string_view return_to) {
  if (provider_ == nullptr) {
    return Error{Code::kNotFound, "no identity provider is set up (security.oidc_issuer)"};
  }
  return provider_->begin_login(return_to);
}

Result<SignedIn> Identity::finish_provider_login(const LoginAnswer& answer) {
  if (provider_ == nullptr) {
    return Error{Code::kNotFound, "no identity provider is set up (security.oidc_issuer)"};
  }
  const Result<LoginDone> finished = provider_->finish_login(answer);
  if (!finished.ok()) {
    failed_.note("provider", finished.error(), "", "");
    return finished.error();
  }
  const LoginDone& login = *finished;
  const Principal principal = FALAJ_TRY(provider_principal(login.caller));
  FALAJ_TRY(keep_provider_user(principal));
  SignedIn done;
  done.session = FALAJ_TRY(sessions_.start(principal, ports_.clock.now()));
  done.principal = std::make_shared<const Principal>(principal);
  done.return_to = login.return_to;
  RequestContext context;
  context.principal = principal;
  FALAJ_TRY(
      ports_.audit.record(context, {"session.start", "User/" + principal.id.substr(5), Value()}));
  return done;
}

// So that an administrator sees who came, and can disable them.
Status Identity::keep_provider_user(const Principal& principal) {
  const auto now = directory_.snapshot();
  if (now->accounts.contains(principal.id)) {
    directory_.seen(principal.id);
    return {};
  }
  const std::string rest = principal.id.substr(principal.id.find('_') + 1);
  Directory::NewUser user;
  user.source = "oidc";
  user.id = principal.id;
  user.name = std::string(kProviderName) + normal_user_name(principal.name).value_or(rest);
  RequestContext context;
  context.principal = principal;
  Result<User> made = directory_.add_user(context, user);
  if (!made.ok() && made.error().code == Code::kConflict) {
    user.name += "-" + rest;  // Somebody else's, now or before.
    made = directory_.add_user(context, user);
  }
  FALAJ_TRY(made);
  directory_.seen(principal.id);
  changed();
  return {};
}

bool Identity::setup_pending() const { return !directory_.snapshot()->has_local_user; }

std::string Identity::setup_secret() const {
  MutexLock lock(setup_);
  return std::string(setup_secret_.view());
}

Result<User> Identity::set_up(const std::string& secret, const std::string& name,
                              const std::string& password, std::string_view address) {
  static constexpr std::string_view kNobodysName = "(setup)";
  const Timestamp now = ports_.clock.now();
  if (const auto wait = throttle_.wait(kNobodysName, address, now)) return wait_first(*wait);
  FALAJ_TRY(normal_user_name(name));
  FALAJ_TRY(crypto::check_new_password(password));
  MutexLock lock(setup_);
  if (setup_secret_.empty() || !crypto::constant_time_equal(secret, setup_secret_.view())) {
    throttle_.failed(kNobodysName, address, now);
    const Error refused{ErrorId::kCredentialRefused,
                        "the setup link is wrong, was used, or belongs to an earlier start"};
    failed_.note("setup", refused, "", address);
    return refused;
  }
  Directory::NewUser user;
  user.name = name;
  user.password = FALAJ_TRY(passwords_.hash(password));
  user.id = directory_.fresh_user_id();
  // First the grant: an interruption leaves a grant to nobody, never an administrator without one.
  if (ports_.make_administrator) FALAJ_TRY(ports_.make_administrator(user.id));
  const auto context = system_context("service:setup", ProjectName(), Zone());
  User made = FALAJ_TRY(directory_.add_user(context, user));
  setup_secret_ = crypto::SecretBytes();
  changed();
  return made;
}

Result<User> Identity::add_user(const RequestContext& context, const std::string& name,
                                const std::string& password, const Zone& zone) {
  FALAJ_TRY(check_zone(zone));
  Directory::NewUser user;
  user.name = name;
  user.zone = zone;
  FALAJ_TRY(normal_user_name(name));
  if (!password.empty()) {
    FALAJ_TRY(crypto::check_new_password(password));
    user.password = FALAJ_TRY(passwords_.hash(password));
  }
  User made = FALAJ_TRY(directory_.add_user(context, user));
  changed();
  return made;
}

Result<User> Identity::add_service(const RequestContext& context, const std::string& name,
                                   const Zone& zone) {
  FALAJ_TRY(check_zone(zone));
  Directory::NewUser service;
  service.zone = zone;
  service.kind = PrincipalKind::kService;
  service.name = name;
  User made = FALAJ_TRY(directory_.add_user(context, service));
  changed();
  return made;
}

Status Identity::set_password(const RequestContext& context, const std::string& id,
                              const std::string& password) {
  const User user = FALAJ_TRY(find(id));
  if (user.kind != PrincipalKind::kUser || user.source != "local") {
    return Error{Code::kFailedPrecondition, "only local users have a password here"};
  }
  FALAJ_TRY(crypto::check_new_password(password));
  const std::string encoded = FALAJ_TRY(passwords_.hash(password));
  FALAJ_TRY(directory_.set_password(context, user.id, encoded));
  return no_longer(user.id);
}

Status Identity::change_password(const RequestContext& context, const std::string& present,
                                 const std::string& next, std::string_view address) {
  const Proven proven = FALAJ_TRY(prove_password(context.principal.name, present, address));
  if (proven.principal->id != context.principal.id) return wrong_password();
  return set_password(context, proven.principal->id, next);
}

// Nothing that was opened before holds any longer.
Status Identity::no_longer(const std::string& user) {
  sessions_.revoke_user(user);
  changed();
  return {};
}

Status Identity::set_state(const RequestContext& context, const std::string& id,
                           AccountState state) {
  if (id == context.principal.id && state == AccountState::kDisabled) {
    return Error{Code::kFailedPrecondition,
                 "nobody disables themselves; ask another administrator"};
  }
  FALAJ_TRY(directory_.set_state(context, id, state));
  return no_longer(id);
}

Status Identity::check_zone(const Zone& zone) const {
  if (!zone.labelled() || !ports_.check_zone) return {};
  return ports_.check_zone(zone);
}

Status Identity::set_zone(const RequestContext& context, const std::string& id, const Zone& zone) {
  if (id == context.principal.id) {
    return Error{Code::kFailedPrecondition,
                 "nobody declares where they are themselves; ask another administrator"};
  }
  FALAJ_TRY(check_zone(zone));
  FALAJ_TRY(directory_.set_zone(context, id, zone));
  return no_longer(id);
}

Result<NewToken> Identity::add_token(const RequestContext& context, const TokenRequest& request) {
  FALAJ_TRY(check_zone(request.zone));
  return directory_.add_token(context, request);
}

Status Identity::remove_user(const RequestContext& context, const std::string& id) {
  if (id == context.principal.id) {
    return Error{Code::kFailedPrecondition, "nobody deletes themselves; ask another administrator"};
  }
  FALAJ_TRY(directory_.remove_user(context, id));
  return no_longer(id);
}

Status Identity::revoke_session(const RequestContext& context, const std::string& id) {
  if (!sessions_.revoke(id)) return Error{Code::kNotFound, "there is no session '" + id + "'"};
  FALAJ_TRY(ports_.audit.record(context, {"session.revoke", "Session/" + id, Value()}));
  return {};
}

namespace {

// For those only who may list them all. Services and those of the provider are named with their
// kind, which is easily left out.
std::string nearest_account(const DirectorySnapshot& now, const std::string& word) {
  for (const char* kind : {"service:", "oidc:"}) {
    if (now.names.contains(kind + word)) return kind + word;
  }
  const bool bare = word.find(':') == std::string::npos;
  std::vector<std::string> names;
  for (const auto& [name, id] : now.names) {
    names.push_back(bare && name.starts_with("user:") ? name.substr(5) : name);
  }
  std::ranges::sort(names);
  return nearest_name(word, names);
}

}  // namespace

Result<User> Identity::find(const std::string& name_or_id) const {
  const auto now = directory_.snapshot();
  const auto by_id = now->accounts.find(name_or_id);
  if (by_id != now->accounts.end()) return by_id->second.shown();
  // "alice", "user:alice", "service:etl", and "oidc:alice" as lists show those of the provider.
  for (const std::string& name : {name_or_id, "user:" + name_or_id}) {
    const auto id = now->names.find(name);
    if (id != now->names.end()) return now->accounts.find(id->second)->second.shown();
  }
  const std::string near = nearest_account(*now, name_or_id);
  return Error{Code::kNotFound, "there is no user or service '" + name_or_id + "'" +
                                    (near.empty() ? ": falaj users list shows them"
                                                  : "; did you mean " + near + "?")};
}

std::optional<std::string> Identity::resolve(const std::string& subject) const {
  if (subject == kDeveloperId) return subject;
  const auto now = directory_.snapshot();
  const auto id = now->names.find(subject);
  if (id != now->names.end()) return id->second;
  const bool is_id = subject.starts_with("user:u_") || subject.starts_with("user:o_") ||
                     subject.starts_with("service:s_") || subject.starts_with("service:spiffe://");
  if (is_id) return subject;
  return std::nullopt;
}

void Identity::changed() const {
  if (ports_.users_changed) ports_.users_changed();
}

void Identity::tick() {
  const Timestamp now = ports_.clock.now();
  sessions_.sweep(now);
  jobs_.sweep(now);
  const Status written = failed_.tick(now);
  if (!written.ok()) log::warn("refusals not written", {{"why", written.error().message}});
  const Status flushed = directory_.flush_last_used();
  if (!flushed.ok()) log::warn("token use not kept", {{"why", flushed.error().message}});
  if (provider_ != nullptr) provider_->tick();
}

}  // namespace falaj::security
