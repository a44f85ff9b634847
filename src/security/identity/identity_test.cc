#include "security/identity/identity.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "crypto/base64.h"
#include "crypto/testing/compared_passwords.h"
#include "crypto/testing/fake_random.h"
#include "storage/objects.h"
#include "storage/open.h"

namespace falaj::security {
namespace {

constexpr const char* kPassword = "correct horse battery";

class IdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sql_->migrate({storage::kObjectsMigration, kAuditMigration, kIdentityMigration,
                               kCallerZonesMigration, kFormerNamesMigration})
                    .ok());
    open(SignIn::kRequired);
  }
  void open(SignIn sign_in) {
    IdentityOptions options;
    options.sign_in = sign_in;
    options.passwords = {.passes = 1, .memory = 8192};
    identity_ =
        Identity::open(options,
                       {*sql_,
                        audit_,
                        clock_,
                        random_,
                        nullptr,
                        [this](const std::string& id) -> Status {
                          administrators_.push_back(id);
                          return {};
                        },
                        [this] { ++changes_; },
                        {},
                        &metrics_},
                       crypto::SecretBytes(std::string_view("0123456789abcdef0123456789abcdef")))
            .value();
  }
  User set_up() {
    return identity_->set_up(identity_->setup_secret(), "Root", kPassword, "10.0.0.9").value();
  }
  Result<PrincipalPtr> with(const std::string& authorization) {
    Credentials shown;
    shown.authorization = authorization;
    shown.address = "10.0.0.1";
    return identity_->authenticate(shown);
  }
  static std::string basic(const std::string& name, const std::string& secret) {
    return "Basic " + crypto::base64(name + ":" + secret);
  }
  RequestContext as_root() const {
    RequestContext context;
    context.principal = {PrincipalKind::kUser, "user:u_root"};
    return context;
  }
  std::string token_of(const std::string& user, Duration lifetime = Duration::days(1)) {
    return identity_->directory()
        .add_token(as_root(), {user, "test", std::nullopt, lifetime})
        .value()
        .text;
  }

  FakeClock clock_;
  crypto::testing::FakeRandom random_{11};
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  Audit audit_{*sql_, clock_};
  telemetry::Metrics metrics_;
  std::vector<std::string> administrators_;
  int changes_ = 0;
  std::unique_ptr<Identity> identity_;
};

TEST_F(IdentityTest, who_shows_nothing_is_nobody) {
  EXPECT_EQ((*with(""))->kind, PrincipalKind::kNobody);
  EXPECT_EQ((*with(""))->id, "");
}

TEST_F(IdentityTest, in_dev_who_shows_nothing_is_the_developer_but_a_bad_token_is_refused) {
  open(SignIn::kDeveloper);
  EXPECT_EQ((*with(""))->id, "user:dev");
  EXPECT_EQ(identity_->setup_secret(), "");
  EXPECT_FALSE(with("Bearer " + make_token_text('t', random_).text).ok());
}

TEST_F(IdentityTest, the_last_sign_in_is_known_at_once_by_whichever_means) {
  const User root = set_up();
  EXPECT_EQ(identity_->directory().users().front().seen, Timestamp{});
  clock_.advance(Duration::hours(1));
  ASSERT_TRUE(with(basic("root", kPassword)).ok());  // As falaj login does.
  EXPECT_EQ(identity_->directory().users().front().seen, clock_.now());
  const Timestamp first = clock_.now();
  clock_.advance(Duration::seconds(1));
  ASSERT_TRUE(with(basic("root", kPassword)).ok());
  EXPECT_EQ(identity_->find(root.id)->seen, first) << "a proof that is remembered is no sign-in";
  clock_.advance(Duration::hours(1));
  ASSERT_TRUE(identity_->sign_in("root", kPassword, "10.0.0.1").ok());
  EXPECT_EQ(identity_->find("root")->seen, clock_.now());
  token_of(root.id);  // Publishes anew.
  EXPECT_EQ(identity_->find("root")->seen, clock_.now());
  open(SignIn::kRequired);  // Another start.
  EXPECT_EQ(identity_->find("root")->seen, clock_.now());
}

TEST_F(IdentityTest, who_is_not_there_may_be_meant_otherwise) {
  set_up();
  ASSERT_TRUE(identity_->add_service(as_root(), "scorer", Zone()).ok());
  const auto says = [&](const std::string& name) { return identity_->find(name).error().message; };
  EXPECT_NE(says("scorer").find("did you mean service:scorer?"), std::string::npos);
  EXPECT_NE(says("service:scorre").find("did you mean service:scorer?"), std::string::npos);
  EXPECT_NE(says("rooot").find("did you mean root?"), std::string::npos);
  EXPECT_NE(says("somebody-else").find("falaj users list"), std::string::npos);
}

TEST_F(IdentityTest, the_setup_link_makes_one_administrator_once) {
  const std::string secret = identity_->setup_secret();
  EXPECT_EQ(crypto::from_base64url(secret)->size(), 32u);
  EXPECT_TRUE(identity_->setup_pending());
  EXPECT_EQ(identity_->set_up("wrong", "root", kPassword, "a").error().id,
            ErrorId::kCredentialRefused);
  EXPECT_EQ(identity_->set_up(secret, "root", "short", "a").error().id, ErrorId::kOutOfRange);
  EXPECT_TRUE(administrators_.empty());
  const User root = identity_->set_up(secret, "Root", kPassword, "a").value();
  EXPECT_EQ(root.name, "root");
  EXPECT_EQ(administrators_, std::vector<std::string>{root.id});
  EXPECT_FALSE(identity_->setup_pending());
  EXPECT_EQ(identity_->setup_secret(), "");
  EXPECT_FALSE(identity_->set_up(secret, "eve", kPassword, "a").ok());
  EXPECT_FALSE(identity_->set_up("", "eve", kPassword, "a").ok());
  open(SignIn::kRequired);  // Another start: nothing to set up.
  EXPECT_EQ(identity_->setup_secret(), "");
}

TEST_F(IdentityTest, guessing_the_setup_secret_is_held_back) {
  for (int i = 0; i < 5; ++i) (void)identity_->set_up("wrong", "root", kPassword, "a");
  EXPECT_EQ(identity_->set_up("wrong", "root", kPassword, "a").error().id, ErrorId::kRateLimited);
}

TEST_F(IdentityTest, nobody_signs_in_before_setup) {
  EXPECT_EQ(identity_->sign_in("root", kPassword, "a").error().id, ErrorId::kSetupPending);
  EXPECT_EQ(with(basic("root", kPassword)).error().id, ErrorId::kSetupPending);
}

TEST_F(IdentityTest, a_token_acts_as_its_user_until_it_ends) {
  const User root = set_up();
  const std::string token = token_of(root.id, Duration::hours(1));
  EXPECT_EQ((*with("Bearer " + token))->id, root.id);
  EXPECT_EQ((*with(basic("root", token)))->id, root.id);
  EXPECT_EQ((*with(basic("ROOT", token)))->id, root.id);
  EXPECT_EQ((*with(basic("token", token)))->id, root.id);
  EXPECT_EQ(with(basic("eve", token)).error().id, ErrorId::kCredentialRefused);
  std::string other = token;
  other.back() = other.back() == 'A' ? 'E' : 'A';
  EXPECT_EQ(with("Bearer " + other).error().id, ErrorId::kCredentialRefused);
  open(SignIn::kRequired);  // It survives a restart.
  EXPECT_TRUE(with("Bearer " + token).ok());
  clock_.advance(Duration::hours(1));
  EXPECT_EQ(with("Bearer " + token).error().id, ErrorId::kCredentialExpired);
}

TEST_F(IdentityTest, who_asks_carries_the_zone_that_was_declared_for_them) {
  const User root = set_up();
  const User alice = identity_->add_user(as_root(), "alice", kPassword, Zone("eu")).value();
  const User scorer = identity_->add_service(as_root(), "scorer").value();
  EXPECT_EQ((*with(basic("alice", kPassword)))->zone.name(), "eu");
  EXPECT_FALSE((*with(basic("root", kPassword)))->zone.labelled());
  const std::string own = token_of(alice.id);
  const std::string its = token_of(scorer.id);
  TokenRequest abroad{scorer.id, "abroad", std::nullopt, Duration::days(1), Zone("ae")};
  const std::string away = identity_->add_token(as_root(), abroad).value().text;
  EXPECT_EQ((*with("Bearer " + own))->zone.name(), "eu");
  EXPECT_FALSE((*with("Bearer " + its))->zone.labelled());
  EXPECT_EQ((*with("Bearer " + away))->zone.name(), "ae");

  // In force at once; whoever was signed in as from elsewhere signs in again.
  const SignedIn session = identity_->sign_in("alice", kPassword, "a").value();
  ASSERT_TRUE(identity_->set_zone(as_root(), alice.id, Zone("ae-fin")).ok());
  Credentials cookie;
  const std::string shown = std::string(kSessionCookie) + "=" + session.session.cookie;
  cookie.cookie = shown;
  EXPECT_EQ(identity_->authenticate(cookie).error().id, ErrorId::kCredentialExpired);
  EXPECT_EQ((*with("Bearer " + own))->zone.name(), "ae-fin");
  EXPECT_EQ((*with(basic("alice", kPassword)))->zone.name(), "ae-fin");
  ASSERT_TRUE(identity_->set_zone(as_root(), scorer.id, Zone("eu")).ok());
  EXPECT_EQ((*with("Bearer " + its))->zone.name(), "eu");
  EXPECT_EQ((*with("Bearer " + away))->zone.name(), "ae") << "its own is nearer";

  open(SignIn::kRequired);  // Another start.
  EXPECT_EQ((*with("Bearer " + own))->zone.name(), "ae-fin");
  ASSERT_TRUE(identity_->set_zone(as_root(), alice.id, Zone()).ok());
  EXPECT_FALSE((*with("Bearer " + own))->zone.labelled());
  EXPECT_EQ(identity_->set_zone(as_root(), as_root().principal.id, Zone("eu")).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(identity_->set_zone(as_root(), "user:u_none", Zone("eu")).error().code,
            Code::kNotFound);
}

TEST_F(IdentityTest, the_stored_token_is_not_the_token) {
  const User root = set_up();
  const std::string token = token_of(root.id);
  const auto rows = storage::query(*sql_, "SELECT id, hash FROM tokens").value();
  ASSERT_EQ(rows.size(), 1u);
  const TokenText parts = parse_token_text(token).value();
  EXPECT_EQ(rows[0].text(0), parts.id);
  EXPECT_EQ(rows[0].text(1).find(parts.secret), std::string::npos);
  // Not a plain hash either: with another key the same row does not verify.
  Directory other(*sql_, audit_, clock_, random_, crypto::SecretBytes(std::size_t{32}));
  ASSERT_TRUE(other.load().ok());
  EXPECT_FALSE(other.check_token(parts, clock_.now()).ok());
}

TEST_F(IdentityTest, revoking_disabling_and_deleting_take_effect_at_once) {
  const User root = set_up();
  const User bob = identity_->add_user(as_root(), "bob", kPassword).value();
  const std::string one = token_of(bob.id);
  const std::string two = token_of(bob.id);
  ASSERT_TRUE(with(basic("bob", kPassword)).ok());
  const SignedIn session = identity_->sign_in("bob", kPassword, "a").value();
  ASSERT_TRUE(
      identity_->directory().revoke_token(as_root(), std::string(parse_token_text(one)->id)).ok());
  EXPECT_FALSE(with("Bearer " + one).ok());
  EXPECT_TRUE(with("Bearer " + two).ok());
  ASSERT_TRUE(identity_->set_state(as_root(), bob.id, AccountState::kDisabled).ok());
  EXPECT_EQ(with("Bearer " + two).error().id, ErrorId::kCredentialExpired);
  EXPECT_EQ(with(basic("bob", kPassword)).error().id, ErrorId::kCredentialRefused);
  Credentials cookie;
  const std::string header = std::string(kSessionCookie) + "=" + session.session.cookie;
  cookie.cookie = header;
  EXPECT_EQ(identity_->authenticate(cookie).error().id, ErrorId::kCredentialExpired);
  ASSERT_TRUE(identity_->set_state(as_root(), bob.id, AccountState::kActive).ok());
  EXPECT_TRUE(with("Bearer " + two).ok());
  ASSERT_TRUE(identity_->remove_user(as_root(), bob.id).ok());
  EXPECT_FALSE(with("Bearer " + two).ok());
  EXPECT_EQ(identity_->find("bob").error().code, Code::kNotFound);
  EXPECT_EQ(identity_->find(root.id)->name, "root");
}

TEST_F(IdentityTest, an_account_counts_until_it_is_disabled_or_gone) {
  set_up();
  const User alice = identity_->add_user(as_root(), "alice", kPassword).value();
  const auto counts = [&](const std::string& id) {
    return identity_->counts({.kind = PrincipalKind::kUser, .id = id});
  };
  EXPECT_TRUE(counts(alice.id));
  ASSERT_TRUE(identity_->set_state(as_root(), alice.id, AccountState::kDisabled).ok());
  EXPECT_FALSE(counts(alice.id));
  ASSERT_TRUE(identity_->set_state(as_root(), alice.id, AccountState::kActive).ok());
  EXPECT_TRUE(counts(alice.id));
  ASSERT_TRUE(identity_->remove_user(as_root(), alice.id).ok());
  EXPECT_FALSE(counts(alice.id));
  EXPECT_FALSE(counts("service:s_gone"));
  for (const char* elsewhere : {"user:dev", "user:o_1", "service:spiffe://falaj.local/service/a"}) {
    EXPECT_TRUE(counts(elsewhere)) << elsewhere;
  }
}

TEST_F(IdentityTest, a_scoped_token_carries_its_scopes) {
  const User root = set_up();
  const auto made = identity_->directory().add_token(
      as_root(), {root.id, "", std::vector<Scope>{{"serving.predict", "pay", ""}}});
  const auto principal = with("Bearer " + made->text);
  ASSERT_TRUE(principal.ok());
  EXPECT_TRUE(within_scopes(**principal, "serving.predict", "pay", "Deployment/x"));
  EXPECT_FALSE(within_scopes(**principal, "objects.write", "pay", ""));
}

TEST_F(IdentityTest, a_password_is_hashed_once_and_then_known_for_a_while) {
  set_up();
  Credentials shown;
  const std::string header = basic("root", kPassword);
  shown.authorization = header;
  EXPECT_EQ(identity_->cost(shown), Identity::Cost::kBlocks);
  ASSERT_TRUE(identity_->authenticate(shown).ok());
  EXPECT_EQ(identity_->cost(shown), Identity::Cost::kMemory);
  const std::string wrong = basic("root", "wrong password!");
  Credentials other;
  other.authorization = wrong;
  EXPECT_EQ(identity_->cost(other), Identity::Cost::kBlocks);
  clock_.advance(Duration::minutes(5));
  EXPECT_EQ(identity_->cost(shown), Identity::Cost::kBlocks);
  ASSERT_TRUE(identity_->authenticate(shown).ok());
  // A new password ends the old one's welcome at once.
  const std::string id = identity_->find("root")->id;
  ASSERT_TRUE(identity_->set_password(as_root(), id, "another long password").ok());
  EXPECT_EQ(with(header).error().id, ErrorId::kCredentialRefused);
  EXPECT_TRUE(with(basic("root", "another long password")).ok());
}

TEST_F(IdentityTest, known_and_unknown_names_are_refused_alike) {
  set_up();
  const auto known = identity_->sign_in("root", "wrong password!", "a1");
  const auto unknown = identity_->sign_in("nobody", "wrong password!", "a2");
  const auto impossible = identity_->sign_in("no body\n", "wrong password!", "a3");
  EXPECT_EQ(known.error(), unknown.error());
  EXPECT_EQ(known.error(), impossible.error());
  for (const char* name : {"root", "nobody"}) {
    for (int i = 0; i < 4; ++i)
      (void)identity_->sign_in(name, "wrong password!", std::to_string(i));
    const auto held = identity_->sign_in(name, kPassword, "elsewhere");
    ASSERT_FALSE(held.ok());
    EXPECT_EQ(held.error().id, ErrorId::kRateLimited) << name;
    EXPECT_TRUE(identity_->back_off(name, "elsewhere"));
  }
  clock_.advance(Duration::seconds(31));
  EXPECT_TRUE(identity_->sign_in("root", kPassword, "elsewhere").ok());
}

TEST_F(IdentityTest, known_and_unknown_names_cost_one_hash_each) {
  set_up();
  const std::string gone = identity_->add_user(as_root(), "gone", kPassword).value().id;
  ASSERT_TRUE(identity_->set_state(as_root(), gone, AccountState::kDisabled).ok());
  ASSERT_TRUE(identity_->add_service(as_root(), "etl").ok());
  std::vector<std::string>& compared = crypto::testing::compared_passwords();
  for (const char* name : {"root", "nobody", "no body\n", "gone", "etl"}) {
    compared.clear();
    EXPECT_FALSE(identity_->sign_in(name, "wrong password!", name).ok()) << name;
    ASSERT_EQ(compared.size(), 1U) << name;
    EXPECT_TRUE(compared[0].starts_with("$argon2id$v=19$m=8,t=1,p=1$")) << name;
  }
}

TEST_F(IdentityTest, changing_the_own_password_needs_the_present_one) {
  set_up();
  const SignedIn session = identity_->sign_in("root", kPassword, "a").value();
  RequestContext context;
  context.principal = *session.principal;
  EXPECT_EQ(
      identity_->change_password(context, "not the password", "another password", "a").error().id,
      ErrorId::kCredentialRefused);
  EXPECT_FALSE(identity_->change_password(context, kPassword, "short", "a").ok());
  ASSERT_TRUE(identity_->change_password(context, kPassword, "another password", "a").ok());
  EXPECT_TRUE(identity_->sessions().list().empty());
  EXPECT_TRUE(identity_->sign_in("root", "another password", "a").ok());
}

TEST_F(IdentityTest, services_have_tokens_and_no_password) {
  set_up();
  const User etl = identity_->add_service(as_root(), "etl").value();
  EXPECT_TRUE(etl.id.starts_with("service:s_"));
  const auto principal = with("Bearer " + token_of(etl.id));
  ASSERT_TRUE(principal.ok());
  EXPECT_EQ((*principal)->kind, PrincipalKind::kService);
  EXPECT_EQ(with(basic("etl", kPassword)).error().id, ErrorId::kCredentialRefused);
  EXPECT_FALSE(identity_->set_password(as_root(), etl.id, kPassword).ok());
  EXPECT_EQ(identity_->resolve("service:etl"), etl.id);
  EXPECT_EQ(identity_->resolve("user:etl"), std::nullopt);
  EXPECT_EQ(identity_->resolve(etl.id), etl.id);
}

TEST_F(IdentityTest, names_are_unique_and_plain) {
  set_up();
  EXPECT_EQ(identity_->add_user(as_root(), "ROOT", kPassword).error().code, Code::kConflict);
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a:b"),
                                 std::string("-a"), std::string("fj_x"), std::string("u_123"),
                                 std::string("a\n"), std::string(129, 'a'), std::string("é")}) {
    EXPECT_EQ(identity_->add_user(as_root(), bad, kPassword).error().id, ErrorId::kInvalidName)
        << bad;
  }
  EXPECT_TRUE(identity_->add_user(as_root(), "alice@example.com", kPassword).ok());
}

TEST_F(IdentityTest, no_name_and_no_secret_stands_in_the_audit) {
  set_up();
  const User bob = identity_->add_user(as_root(), "bob.personal", kPassword).value();
  const std::string token = token_of(bob.id);
  ASSERT_TRUE(identity_->sign_in("bob.personal", kPassword, "10.1.2.3").ok());
  ASSERT_TRUE(identity_->set_state(as_root(), bob.id, AccountState::kDisabled).ok());
  std::string all;
  AuditQuery query;
  query.limit = 1000;
  const std::vector<AuditEntry> entries = audit_.list(query).value();
  for (const AuditEntry& entry : entries) all += to_json(to_value(entry));
  EXPECT_NE(all.find("user.create"), std::string::npos);
  EXPECT_NE(all.find("token.create"), std::string::npos);
  EXPECT_NE(all.find("session.start"), std::string::npos);
  EXPECT_NE(all.find("user.disable"), std::string::npos);
  for (const std::string& secret :
       {std::string("bob.personal"), std::string("10.1.2.3"),
        std::string(parse_token_text(token)->secret), std::string(kPassword)}) {
    EXPECT_EQ(all.find(secret), std::string::npos) << secret;
  }
}

TEST_F(IdentityTest, last_use_is_kept_to_the_minute) {
  const User root = set_up();
  const std::string token = token_of(root.id);
  EXPECT_EQ(identity_->directory().tokens(root.id).front().last_used, Timestamp{});
  ASSERT_TRUE(with("Bearer " + token).ok());
  identity_->tick();
  open(SignIn::kRequired);
  const Timestamp used = identity_->directory().tokens(root.id).front().last_used;
  EXPECT_LE(used, clock_.now());
  EXPECT_GT(used + Duration::minutes(1), clock_.now());
}

TEST_F(IdentityTest, tokens_are_bounded) {
  const User root = set_up();
  for (std::size_t i = 0; i < kTokensPerUserMax; ++i) token_of(root.id);
  EXPECT_EQ(identity_->directory().add_token(as_root(), {root.id, "", std::nullopt}).error().id,
            ErrorId::kQuotaReached);
  const User bob = identity_->add_user(as_root(), "bob", "").value();
  EXPECT_EQ(identity_->directory()
                .add_token(as_root(), {bob.id, "", std::nullopt, Duration::days(400)})
                .error()
                .id,
            ErrorId::kOutOfRange);
  EXPECT_EQ(with(basic("bob", "")).error().id, ErrorId::kCredentialRefused);
}

TEST_F(IdentityTest, a_jwt_without_a_provider_is_refused_and_a_certificate_is_a_service) {
  EXPECT_EQ(with("Bearer aa.bb.cc").error().id, ErrorId::kTokenMalformed);
  Credentials shown;
  shown.tls_peer = "spiffe://falaj.local/witness";
  const auto principal = identity_->authenticate(shown);
  ASSERT_TRUE(principal.ok());
  EXPECT_EQ((*principal)->id, "service:spiffe://falaj.local/witness");
  EXPECT_EQ((*principal)->kind, PrincipalKind::kService);
}

// Tells the hour, and lets something happen at the n-th look.
class MeddlingClock final : public Clock {
 public:
  explicit MeddlingClock(const Clock& base) : base_(base) {}
  Timestamp now() const override {
    if (looks_left_ > 0 && --looks_left_ == 0) meddle_();
    return base_.now();
  }
  void at_look(int number, std::function<void()> meddle) {
    meddle_ = std::move(meddle);
    looks_left_ = number;
  }

 private:
  const Clock& base_;
  std::function<void()> meddle_;
  mutable int looks_left_ = 0;
};

// The password is proven, and before the session is there the administrator has changed the user.
TEST_F(IdentityTest, a_change_by_a_cookie_needs_the_sessions_csrf_token) {
  set_up();
  const SignedIn session = identity_->sign_in("root", kPassword, "a").value();
  const std::string header = std::string(kSessionCookie) + "=" + session.session.cookie;
  Credentials shown;
  shown.cookie = header;
  shown.method = Method::kSafe;
  EXPECT_TRUE(identity_->authenticate(shown).ok());
  shown.method = Method::kUnsafe;
  EXPECT_EQ(identity_->authenticate(shown).error().id, ErrorId::kCsrfRefused);
  shown.csrf = session.session.csrf;
  EXPECT_TRUE(identity_->authenticate(shown).ok());
}

TEST_F(IdentityTest, a_sign_in_that_an_administrator_overtakes_opens_nothing) {
  set_up();
  MeddlingClock meddling(clock_);
  IdentityOptions options;
  options.passwords = {.passes = 1, .memory = 8192};
  identity_ =
      Identity::open(options, {*sql_, audit_, meddling, random_, nullptr, nullptr, nullptr},
                     crypto::SecretBytes(std::string_view("0123456789abcdef0123456789abcdef")))
          .value();
  using Change = std::function<Status(const std::string& id)>;
  const std::vector<std::pair<std::string, Change>> changes{
      {"disabled",
       [&](const auto& id) {
         return identity_->set_state(as_root(), id, AccountState::kDisabled);
       }},
      {"deleted", [&](const auto& id) { return identity_->remove_user(as_root(), id); }},
      {"reset",
       [&](const auto& id) { return identity_->set_password(as_root(), id, "another password"); }},
      {"moved", [&](const auto& id) { return identity_->set_zone(as_root(), id, Zone("eu")); }},
  };
  for (const auto& [name, change] : changes) {
    const User user = identity_->add_user(as_root(), name, kPassword).value();
    ASSERT_TRUE(identity_->sign_in(name, kPassword, "a").ok());
    // The first look is the throttle's, the second the session's.
    meddling.at_look(2, [&] { EXPECT_TRUE(change(user.id).ok()); });
    EXPECT_EQ(identity_->sign_in(name, kPassword, "a").error().id, ErrorId::kCredentialExpired)
        << name;
    for (const SessionInfo& session : identity_->sessions().list()) {
      EXPECT_NE(session.user, user.id) << name;
    }
  }
}

// However it came to be: a session is worth no more than its account is now.
TEST_F(IdentityTest, a_session_holds_no_longer_than_its_account) {
  set_up();
  const User alice = identity_->add_user(as_root(), "alice", kPassword).value();
  const SignedIn open = identity_->sign_in("alice", kPassword, "a").value();
  Credentials shown;
  const std::string cookie = std::string(kSessionCookie) + "=" + open.session.cookie;
  shown.cookie = cookie;
  EXPECT_TRUE(identity_->authenticate(shown).ok());
  // Past Identity, so that nobody ends the session.
  ASSERT_TRUE(identity_->directory().set_state(as_root(), alice.id, AccountState::kDisabled).ok());
  EXPECT_EQ(identity_->authenticate(shown).error().id, ErrorId::kCredentialExpired);
  ASSERT_TRUE(identity_->directory().set_state(as_root(), alice.id, AccountState::kActive).ok());
  EXPECT_FALSE(identity_->authenticate(shown).ok()) << "it has ended for good";
}

TEST_F(IdentityTest, what_was_given_to_somebody_who_is_gone_does_not_pass_to_a_namesake) {
  set_up();
  const auto declare = [&](const std::string& kind, const std::string& spec) {
    storage::Object object{kind, "", "one", Value(), parse_json(spec).value(), 0, {}, {}};
    EXPECT_TRUE(sql_->write([&](storage::SqlTransaction& tx) -> Status {
                      FALAJ_TRY(storage::put_object(tx, object, clock_.now()));
                      return {};
                    })
                    .ok());
  };
  declare("Grant", R"({"to":["user:alice"],"role":"admin","on":"platform"})");
  declare("Group", R"({"members":["service:etl"]})");
  // Declared before there was anybody: whom it names is the first of that name.
  const User alice = identity_->add_user(as_root(), "alice", kPassword).value();
  const User etl = identity_->add_service(as_root(), "etl").value();
  EXPECT_EQ(identity_->resolve("user:alice"), alice.id);
  ASSERT_TRUE(identity_->remove_user(as_root(), alice.id).ok());
  ASSERT_TRUE(identity_->remove_user(as_root(), etl.id).ok());
  EXPECT_EQ(identity_->resolve("user:alice"), std::nullopt);
  EXPECT_EQ(identity_->add_user(as_root(), "Alice", kPassword).error().code, Code::kConflict);
  EXPECT_EQ(identity_->add_service(as_root(), "etl").error().code, Code::kConflict);
  EXPECT_TRUE(identity_->add_service(as_root(), "alice").ok()) << "a service is no user";
  const User bob = identity_->add_user(as_root(), "bob", kPassword).value();
  EXPECT_EQ(identity_->directory().rename(as_root(), bob.id, "alice").error().code,
            Code::kConflict);
  open(SignIn::kRequired);  // Another start does not forget.
  EXPECT_FALSE(identity_->add_user(as_root(), "alice", kPassword).ok());
  declare("Grant", R"({"to":["user:bob"],"role":"admin","on":"platform"})");
  EXPECT_TRUE(identity_->add_user(as_root(), "alice", kPassword).ok()) << "nothing names it now";
  ASSERT_TRUE(identity_->directory().rename(as_root(), bob.id, "robert").ok());
  EXPECT_FALSE(identity_->add_user(as_root(), "bob", kPassword).ok()) << "renamed away";
}

TEST_F(IdentityTest, what_was_refused_is_counted_and_written_down_without_a_name) {
  set_up();
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(identity_->sign_in("amal@example.ae", "wrong wrong wrong", "10.9.8.7").ok());
  }
  EXPECT_FALSE(with("Bearer " + make_token_text('t', random_).text).ok());
  EXPECT_FALSE(with("Bearer nonsense").ok());
  identity_->tick();
  AuditQuery query;
  query.action = "sign_in.refused";
  const auto told = audit_.list(query).value();
  std::uint64_t counted = 0;
  for (const AuditEntry& entry : told) {
    counted += static_cast<std::uint64_t>(entry.detail.integer("count"));
    const std::string text = to_json(entry.detail) + entry.object + entry.actor;
    EXPECT_EQ(text.find("amal"), std::string::npos) << text;
    EXPECT_EQ(text.find("10.9.8.7"), std::string::npos) << text;
    EXPECT_EQ(text.find("10.0.0.1"), std::string::npos) << text;
    EXPECT_FALSE(entry.detail.text("address").empty()) << "a commitment: " << text;
  }
  EXPECT_EQ(counted, 6u);
  EXPECT_LE(told.size(), 3u) << "four equal ones are one entry";
  const std::string metrics = metrics_.exposition();
  EXPECT_NE(metrics.find("falaj_identity_refused_total{how=\"password\",outcome=\"refused\"} 4"),
            std::string::npos)
      << metrics;
}

TEST_F(IdentityTest, a_flood_of_refusals_does_not_fill_the_log) {
  set_up();
  const std::int64_t before = audit_.head()->sequence;
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 200; ++i) {
      const std::string authorization = "Bearer " + make_token_text('t', random_).text;
      const std::string address = "2001:db8::" + std::to_string(second * 200 + i);
      Credentials shown;
      shown.authorization = authorization;
      shown.address = address;
      EXPECT_FALSE(identity_->authenticate(shown).ok());
    }
    identity_->tick();
    clock_.advance(Duration::milliseconds(999));
  }
  EXPECT_LE(audit_.head()->sequence - before, 33);
  clock_.advance(Duration::minutes(2));
  identity_->tick();
  AuditQuery query;
  query.action = "sign_in.refused";
  std::int64_t counted = 0;
  const std::vector<AuditEntry> entries = audit_.list(query).value();
  for (const AuditEntry& entry : entries) counted += entry.detail.integer("count");
  EXPECT_EQ(counted, 12'000) << "and none is lost";
}

}  // namespace
}  // namespace falaj::security
