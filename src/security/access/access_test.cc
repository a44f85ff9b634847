#include "security/access/access.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "security/access/denials.h"
#include "security/access/rate_limit.h"
#include "security/audit/request_ids.h"
#include "storage/open.h"

namespace falaj::security::access {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);

Principal user(std::string id) {
  Principal who;
  who.kind = PrincipalKind::kUser;
  who.id = std::move(id);
  return who;
}

storage::Object object(std::string kind, std::string name, const std::string& spec,
                       std::string project = "") {
  storage::Object made;
  made.kind = std::move(kind);
  made.project = std::move(project);
  made.name = std::move(name);
  made.spec = parse_json(spec).value();
  return made;
}

Grant grant(const std::string& name, const std::string& spec) {
  const Result<Grant> decoded = decode_grant(object("Grant", name, spec));
  EXPECT_TRUE(decoded.ok()) << decoded.error().message;
  return decoded.value();
}

AccessRequest asks(const Principal& who, std::string_view action, ObjectRef on,
                   std::string_view reason = "") {
  return {.principal = who, .action = action, .object = on, .now = kNow, .reason = reason};
}

// Two projects. root: everything. amal: admin of pay. ed: editor of pay. vi: viewer of one view.
Policies two_tenants() {
  return Policies(PolicyInput{
      {grant("root", R"({"to":["user:root"],"role":"admin","on":"platform"})"),
       grant("pay-admin", R"({"to":["user:amal"],"role":"admin","on":{"project":"pay"}})"),
       grant("pay-editors", R"({"to":["group:pay"],"role":"editor","on":{"project":"pay"}})"),
       grant("one-view", R"({"to":["user:vi"],"role":"viewer",
             "on":{"project":"pay","kind":"FeatureView","name":"open"}})"),
       grant("risk-label", R"({"to":["user:la"],"role":"editor",
             "on":{"project":"pay","labels":{"team":"risk"}}})"),
       grant("no-secrets", R"({"effect":"forbid","to":["user:amal"],"actions":["data.read"],
             "on":{"project":"pay","labels":{"secret":"yes"}}})"),
       grant("glass", R"({"to":["user:oncall"],"role":"break-glass","on":"platform"})")},
      {Group{"pay", {"user:ed"}}},
      {{label_key("FeatureView", "pay", "risky"), {{"team", "risk"}}}}});
}

TEST(Groups, say_where_their_members_are_unless_they_have_a_zone_of_their_own) {
  const Policies policies(
      PolicyInput{{},
                  {Group{"fin", {"user:ed", "group:audit"}, Zone("ae-fin")},
                   Group{"audit", {"user:vi"}}, Group{"berlin", {"user:la"}, Zone("eu")}},
                  {}});
  EXPECT_EQ(policies.zone_of(user("user:ed")).name(), "ae-fin");
  EXPECT_EQ(policies.zone_of(user("user:vi")).name(), "ae-fin") << "by two steps";
  EXPECT_FALSE(policies.zone_of(user("user:other")).labelled());
  Principal own = user("user:ed");
  own.zone = Zone("eu");
  EXPECT_EQ(policies.zone_of(own).name(), "eu");
  Principal provider = user("user:o_1");
  provider.groups = {"berlin", "elsewhere"};
  EXPECT_EQ(policies.zone_of(provider).name(), "eu");
  provider.groups = {"audit", "berlin"};
  EXPECT_EQ(policies.zone_of(provider).name(), "ae-fin+eu") << "no zone has such a name";
}

TEST(Roles, every_action_is_declared_once_with_its_meaning_and_some_role_has_it) {
  std::set<std::string_view> seen;
  for (const ActionInfo& info : actions()) {
    EXPECT_TRUE(seen.insert(info.action).second) << info.action;
    EXPECT_FALSE(info.meaning.empty()) << info.action;
  }
  const ActionSet free = public_actions() | own_actions();
  EXPECT_EQ(actions_of(Role::kAdmin) | free, ActionSet::all());
  EXPECT_TRUE((actions_of(Role::kAdmin) & free).empty()) << "no grant can give or take these";
}

TEST(Roles, duties_are_separate) {
  const auto has = [](Role role, std::string_view action) {
    return actions_of(role).contains(*action_index(action));
  };
  EXPECT_TRUE(has(Role::kEditor, "models.write"));
  EXPECT_FALSE(has(Role::kEditor, "models.promote")) << "who builds does not approve";
  EXPECT_TRUE(has(Role::kApprover, "models.promote"));
  EXPECT_FALSE(has(Role::kApprover, "objects.write"));
  EXPECT_TRUE(has(Role::kAuditor, "audit.export"));
  for (const char* data : {"data.read", "features.read", "serving.predict", "objects.write"}) {
    EXPECT_FALSE(has(Role::kAuditor, data)) << data;
  }
  for (const RoleInfo& info : roles()) {
    const bool all = info.role == Role::kAdmin || info.role == Role::kBreakGlass;
    EXPECT_EQ(has(info.role, "access.write"), all) << info.name;
    EXPECT_EQ(has(info.role, "identity.write"), all) << info.name;
    EXPECT_EQ(has(info.role, "keys.shred"), all) << info.name;
  }
}

TEST(Grants, are_read_strictly) {
  const char* const bad[] = {
      R"({})",
      R"({"to":["user:a"],"role":"viewer"})",          // No extent.
      R"({"to":["user:a"],"role":"viewer","on":{}})",  // Everything by accident.
      R"({"to":["user:a"],"role":"viewer","on":"everything"})",
      R"({"to":[],"role":"viewer","on":"platform"})",
      R"({"to":["alice"],"role":"viewer","on":"platform"})",
      R"({"to":["user:"],"role":"viewer","on":"platform"})",
      R"({"to":["user:a b"],"role":"viewer","on":"platform"})",
      R"({"to":["token:a"],"role":"viewer","on":"platform"})",
      R"({"to":["user:a"],"role":"root","on":"platform"})",
      R"({"to":["user:a"],"role":"viewer","actions":["*"],"on":"platform"})",
      R"({"to":["user:a"],"on":"platform"})",
      R"({"to":["user:a"],"actions":["objects.destroy"],"on":"platform"})",
      R"({"to":["user:a"],"actions":["public.read"],"on":"platform"})",
      R"({"to":["user:a"],"actions":["account.use"],"on":"platform"})",
      R"({"to":["user:a"],"role":"viewer","on":{"project":"p","name":"x"}})",
      R"({"to":["user:a"],"role":"viewer","on":{"project":"p","labels":{"a":1}}})",
      R"({"to":["user:a"],"role":"viewer","on":{"project":"p"},"effect":"allow"})",
      R"({"to":["user:a"],"role":"viewer","on":{"project":"p"},"expires":"soon"})",
      R"({"to":["user:a"],"role":"viewer","on":{"project":"p"},"until":"2026-01-01"})",
      R"({"to":["user:a"],"role":"break-glass","on":{"project":"p"},"effect":"forbid"})",
  };
  for (const char* spec : bad) EXPECT_FALSE(decode_grant(object("Grant", "g", spec)).ok()) << spec;
  EXPECT_FALSE(decode_group(object("Group", "g", R"({"members":["everyone"]})")).ok());
  EXPECT_FALSE(decode_group(object("Group", "g", R"({"members":["bob"]})")).ok());
  EXPECT_TRUE(decode_grant(administrator_grant("first", "user:u_1")).ok());
  const Error near =
      decode_grant(object("Grant", "g", R"({"to":["user:a"],"role":"edittor","on":"platform"})"))
          .error();
  EXPECT_NE(near.message.find("editor"), std::string::npos) << near.message;
}

TEST(ActionSet, a_scope_may_name_own_actions_and_a_grant_may_not) {
  EXPECT_TRUE(ActionSet::scoped("account.*").ok());
  EXPECT_TRUE(ActionSet::scoped("*").value().contains(*action_index("account.manage")));
  EXPECT_TRUE(ActionSet::scoped("objects.*").ok());
  EXPECT_FALSE(ActionSet::scoped("acount.*").ok());
  EXPECT_FALSE(ActionSet::matching("account.*").ok());
  EXPECT_FALSE(ActionSet::matching("*").value().contains(*action_index("account.manage")));
}

TEST(Decide, a_forbid_beats_every_permit_and_the_default_is_deny) {
  const Policies policies = two_tenants();
  const Labels secret{{"secret", "yes"}};
  const Principal amal = user("user:amal");
  const ObjectRef open{"pay", "FeatureView", "open", nullptr};
  EXPECT_TRUE(policies.decide(asks(amal, "data.read", open)).allowed);
  const Decision denied =
      policies.decide(asks(amal, "data.read", {"pay", "FeatureView", "open", &secret}));
  EXPECT_FALSE(denied.allowed);
  ASSERT_NE(denied.rule, nullptr);
  EXPECT_EQ(denied.rule->name, "no-secrets");
  EXPECT_FALSE(policies.decide(asks(amal, "objects.read", {"other", "", "", nullptr})).allowed);
  EXPECT_FALSE(policies.decide(asks(user("user:eve"), "objects.read", open)).allowed);
  EXPECT_EQ(policies.decide(asks(amal, "objects.destroy", open)).because, Because::kUnknownAction);
}

TEST(Decide, the_local_developer_may_do_every_declared_action) {
  const Policies policies(PolicyInput{{local_developer()}, {}, {}});
  for (const ActionInfo& info : actions()) {
    EXPECT_TRUE(
        policies.decide(asks(user("user:dev"), info.action, {"p", "K", "n", nullptr})).allowed)
        << info.action;
    EXPECT_EQ(policies.decide(asks(user("user:dev "), info.action, {})).allowed,
              (public_actions() | own_actions()).contains(*action_index(info.action)));
  }
}

TEST(Decide, scopes_only_narrow) {
  const Policies policies = two_tenants();
  Principal ed = user("user:ed");
  ed.scopes = std::vector<Scope>{parse_scope("serving.predict@pay").value(),
                                 parse_scope("models.promote@pay").value()};
  const ObjectRef fraud{"pay", "Deployment", "fraud", nullptr};
  EXPECT_TRUE(policies.decide(asks(ed, "serving.predict", fraud)).allowed);
  EXPECT_EQ(policies.decide(asks(ed, "objects.read", fraud)).because, Because::kOutOfScope);
  EXPECT_FALSE(policies.decide(asks(ed, "models.promote", fraud)).allowed)
      << "a scope adds nothing";
  EXPECT_TRUE(policies.decide(asks(ed, "account.use", {})).allowed);
  EXPECT_FALSE(policies.decide(asks(ed, "account.manage", {})).allowed)
      << "a narrow token makes no wider one";
}

TEST(Decide, a_job_may_do_what_its_scopes_name_and_nothing_that_governs) {
  const Policies policies = two_tenants();
  Principal job = user("job:1");
  job.kind = PrincipalKind::kJob;
  const ObjectRef set{"pay", "TrainingSet", "fraud", nullptr};
  EXPECT_FALSE(policies.decide(asks(job, "features.read", set)).allowed) << "no scopes, no rights";
  job.scopes = std::vector<Scope>{parse_scope("features.read@pay/TrainingSet/fraud").value(),
                                  parse_scope("access.write").value()};
  EXPECT_TRUE(policies.decide(asks(job, "features.read", set)).allowed);
  EXPECT_FALSE(policies.decide(asks(job, "features.read", {"pay", "TrainingSet", "other", nullptr}))
                   .allowed);
  EXPECT_FALSE(policies.decide(asks(job, "access.write", {})).allowed);
}

TEST(Decide, breaking_glass_needs_a_reason) {
  const Policies policies = two_tenants();
  const Principal oncall = user("user:oncall");
  const ObjectRef view{"pay", "FeatureView", "open", nullptr};
  const AccessRequest silent = asks(oncall, "objects.write", view);
  EXPECT_EQ(policies.decide(silent).because, Because::kReasonMissing);
  EXPECT_EQ(refusal(policies, silent, policies.decide(silent)).id, ErrorId::kReasonMissing);
  const Decision used = policies.decide(asks(oncall, "objects.write", view, "fire"));
  EXPECT_TRUE(used.allowed);
  EXPECT_EQ(used.because, Because::kBrokeGlass);
}

TEST(Decide, a_credential_that_has_ended_does_nothing) {
  const Policies policies = two_tenants();
  Principal root = user("user:root");
  root.expires = kNow;
  EXPECT_EQ(policies.decide(asks(root, "objects.read", {})).because, Because::kExpired);
  EXPECT_EQ(
      refusal(policies, asks(root, "objects.read", {}), {false, Because::kExpired, nullptr}).id,
      ErrorId::kCredentialExpired);
}

TEST(Refusal, what_is_not_visible_is_answered_like_what_does_not_exist) {
  const Policies policies = two_tenants();
  const auto answer = [&](const Principal& who, std::string_view action, ObjectRef on) {
    return check(policies, asks(who, action, on)).error();
  };
  const Principal ed = user("user:ed");
  const Principal vi = user("user:vi");
  // Another tenant's, whether it exists or not: the same bytes but for the name asked.
  EXPECT_EQ(answer(ed, "objects.read", {"other", "FeatureView", "x", nullptr}),
            Error(Code::kNotFound, "project 'other' was not found"));
  EXPECT_EQ(answer(ed, "serving.predict", {"none", "Deployment", "x", nullptr}),
            Error(Code::kNotFound, "project 'none' was not found"));
  // Inside a project of which one object is granted.
  EXPECT_EQ(answer(vi, "objects.read", {"pay", "FeatureView", "hidden", nullptr}),
            Error(Code::kNotFound, "FeatureView 'hidden' was not found in project 'pay'"));
  // What one sees and may not touch is honestly denied.
  EXPECT_EQ(answer(vi, "objects.write", {"pay", "FeatureView", "open", nullptr}).code,
            Code::kPermissionDenied);
  EXPECT_EQ(answer(ed, "audit.verify", {}).code, Code::kPermissionDenied);
  EXPECT_EQ(answer(Principal{}, "objects.read", {"pay", "", "", nullptr}).code,
            Code::kUnauthenticated);
  const Labels secret{{"secret", "yes"}};
  const Error forbidden =
      answer(user("user:amal"), "data.read", {"pay", "FeatureView", "x", &secret});
  EXPECT_EQ(forbidden.code, Code::kPermissionDenied);
  EXPECT_EQ(forbidden.message.find("no-secrets"), std::string::npos) << "names no rule";
}

TEST(MaySome, says_whether_a_list_can_have_a_row) {
  const Policies policies = two_tenants();
  const Principal vi = user("user:vi");
  EXPECT_TRUE(policies.may_some(asks(vi, "objects.read", {"pay", "FeatureView", "", nullptr})));
  EXPECT_TRUE(policies.may_some(asks(vi, "objects.read", {})));
  EXPECT_FALSE(policies.may_some(asks(vi, "objects.read", {"pay", "Model", "", nullptr})));
  EXPECT_FALSE(policies.may_some(asks(vi, "objects.write", {"pay", "FeatureView", "", nullptr})));
  EXPECT_FALSE(policies.may_some(asks(vi, "objects.read", {"other", "", "", nullptr})));
  EXPECT_TRUE(
      policies.may_some(asks(user("user:la"), "objects.read", {"pay", "Model", "", nullptr})))
      << "labels may turn up on anything";
}

// --- Who may grant ---

TEST(Granting, nobody_hands_out_what_they_do_not_hold) {
  const Policies policies = two_tenants();
  const auto may = [&](const Principal& who, const std::string& spec) {
    return check_apply(policies, asks(who, "", {}), object("Grant", "new", spec), std::nullopt)
        .ok();
  };
  const Principal root = user("user:root");
  const Principal amal = user("user:amal");
  const Principal ed = user("user:ed");
  const char* const platform_admin = R"({"to":["user:x"],"role":"admin","on":"platform"})";
  EXPECT_TRUE(may(root, platform_admin));
  EXPECT_FALSE(may(amal, platform_admin));
  EXPECT_TRUE(may(amal, R"({"to":["user:x"],"role":"viewer","on":{"project":"pay"}})"));
  EXPECT_TRUE(may(amal, R"({"to":["user:x"],"actions":["serving.predict"],
                            "on":{"project":"pay","kind":"Deployment","name":"fraud"}})"));
  EXPECT_FALSE(may(amal, R"({"to":["user:x"],"role":"viewer","on":{"project":"other"}})"));
  EXPECT_FALSE(may(amal, R"({"to":["user:x"],"role":"viewer","on":{"kind":"Deployment"}})"))
      << "of every project";
  // Of data.read a part is forbidden to amal: not hers to give, not even to another name of hers.
  EXPECT_FALSE(may(amal, R"({"to":["user:x"],"role":"editor","on":{"project":"pay"}})"));
  EXPECT_FALSE(may(ed, R"({"to":["user:ed"],"role":"admin","on":{"project":"pay"}})"));
  EXPECT_FALSE(may(ed, R"({"to":["user:x"],"role":"viewer","on":{"project":"pay"}})"));
  // A forbid could lock an administrator out: only who grants on the platform declares one.
  const char* const forbid =
      R"({"effect":"forbid","to":["user:root"],"role":"admin","on":{"project":"pay"}})";
  EXPECT_FALSE(may(amal, forbid));
  EXPECT_TRUE(may(root, forbid));
}

TEST(Granting, a_taken_name_does_not_tell_whose_it_is) {
  const Policies policies = two_tenants();
  const storage::Object mine =
      object("Grant", "p", R"({"to":["user:x"],"role":"viewer","on":{"project":"pay"}})");
  const auto told = [&](const char* who, const char* spec) {
    const Principal caller = user(who);
    return check_apply(policies, asks(caller, "", {}), mine, object("Grant", "p", spec))
        .error()
        .message;
  };
  const char* const others = R"({"to":["user:y"],"role":"viewer","on":{"project":"other"}})";
  const char* const platforms = R"({"to":["user:y"],"role":"viewer","on":"platform"})";
  const char* const forbid =
      R"({"effect":"forbid","to":["user:y"],"role":"viewer","on":{"project":"other"}})";
  const std::string taken = "the name of Grant 'p' is not yours to use: choose another";
  for (const char* spec : {others, platforms, forbid}) EXPECT_EQ(told("user:amal", spec), taken);
  // Who may not declare it at all is not even told that.
  const Principal ed = user("user:ed");
  const auto free = check_apply(policies, asks(ed, "", {}), mine, std::nullopt);
  EXPECT_EQ(told("user:ed", others), free.error().message);
  const auto removed =
      check_remove(policies, asks(user("user:amal"), "", {}), object("Grant", "p", others));
  EXPECT_EQ(removed.error().message, taken);
}

TEST(Granting, nobody_frees_themselves) {
  const Policies policies = two_tenants();
  const storage::Object forbid =
      object("Grant", "no-secrets",
             R"({"effect":"forbid","to":["user:amal"],"actions":["data.read"],
          "on":{"project":"pay","labels":{"secret":"yes"}}})");
  EXPECT_FALSE(check_remove(policies, asks(user("user:amal"), "", {}), forbid).ok());
  EXPECT_TRUE(check_remove(policies, asks(user("user:root"), "", {}), forbid).ok());
  storage::Object weaker = forbid;
  weaker.spec["effect"] = "permit";
  EXPECT_FALSE(check_apply(policies, asks(user("user:amal"), "", {}), weaker, forbid).ok());
  // Nor by a group that carries rights, or by leaving one that carries a forbid.
  const storage::Object group = object("Group", "pay", R"({"members":["user:amal","user:ed"]})");
  EXPECT_FALSE(check_apply(policies, asks(user("user:amal"), "", {}), group, std::nullopt).ok());
  EXPECT_TRUE(check_apply(policies, asks(user("user:root"), "", {}), group, std::nullopt).ok());
}

TEST(Granting, a_forbid_of_everyone_keeps_no_administrator_from_granting_or_taking_it_back) {
  const storage::Object vault =
      object("Grant", "vault", R"({"effect":"forbid","to":["everyone"],"actions":["data.read"],
                                   "on":{"labels":{"vault":"yes"}}})");
  const Policies policies(PolicyInput{
      {grant("root", R"({"to":["user:root"],"role":"admin","on":"platform"})"),
       grant("pay-admin", R"({"to":["user:amal"],"role":"admin","on":{"project":"pay"}})"),
       decode_grant(vault).value()},
      {},
      {}});
  const Principal administrator = user("user:root");
  const Principal of_project = user("user:amal");
  const AccessRequest root = asks(administrator, "", {});
  const AccessRequest amal = asks(of_project, "", {});
  const storage::Object editor =
      object("Grant", "new", R"({"to":["user:x"],"role":"editor","on":{"project":"pay"}})");
  EXPECT_TRUE(check_apply(policies, root, editor, std::nullopt).ok());
  EXPECT_TRUE(check_apply(policies, amal, editor, std::nullopt).ok());
  EXPECT_TRUE(check_remove(policies, root, vault).ok());
  EXPECT_FALSE(check_remove(policies, amal, vault).ok()) << "a project's administrator";
  const Labels labels{{"vault", "yes"}};
  EXPECT_FALSE(
      policies.decide(asks(administrator, "data.read", {"pay", "Source", "s", &labels})).allowed);
}

TEST(Granting, no_project_gives_itself_a_share_of_the_machine) {
  const Policies policies = two_tenants();
  storage::Object queue = object("Queue", "fast", R"({"quota":{"cpu":{"nominal":1000}}})");
  queue.project = "pay";
  EXPECT_FALSE(check_apply(policies, asks(user("user:amal"), "", {}), queue, std::nullopt).ok());
  EXPECT_FALSE(check_remove(policies, asks(user("user:amal"), "", {}), queue).ok());
  EXPECT_TRUE(check_apply(policies, asks(user("user:root"), "", {}), queue, std::nullopt).ok());
  EXPECT_TRUE(check_remove(policies, asks(user("user:root"), "", {}), queue).ok());
  storage::Object runtime = object("Runtime", "py", R"({"host":{"python":"/usr/bin/python3"}})");
  runtime.project = "pay";
  EXPECT_FALSE(check_apply(policies, asks(user("user:amal"), "", {}), runtime, std::nullopt).ok());
  EXPECT_TRUE(check_apply(policies, asks(user("user:root"), "", {}), runtime, std::nullopt).ok());
}

TEST(Granting, what_a_project_is_judged_by_is_not_written_by_its_own_people) {
  const Policies policies(
      PolicyInput{{grant("root", R"({"to":["user:root"],"role":"admin","on":"platform"})"),
                   grant("pay", R"({"to":["user:amal"],"role":"admin","on":{"project":"pay"}})"),
                   grant("risk", R"({"to":["user:la"],"role":"admin",
                         "on":{"labels":{"team":"risk"}}})"),
                   grant("hands-off", R"({"effect":"forbid","to":["user:root"],
                         "actions":["objects.write"],"on":{"labels":{"frozen":"yes"}}})")},
                  {},
                  {}});
  const auto may = [&](std::string_view who, const storage::Object& object) {
    const Principal principal = user(std::string(who));
    const AccessRequest request = asks(principal, "", {});
    const bool applies = check_apply(policies, request, object, object).ok();
    EXPECT_EQ(applies, check_remove(policies, request, object).ok()) << object.kind;
    return applies;
  };
  for (const char* kind : {"Project", "Zone", "Queue", "SchedulingPolicy", "Node"}) {
    storage::Object declared = object(kind, "pay", R"({"zone":"ae","purpose":"marketing"})");
    declared.labels["team"] = "risk";  // Whoever writes it chooses them.
    EXPECT_FALSE(may("user:amal", declared)) << kind;
    EXPECT_FALSE(may("user:la", declared)) << kind;
    EXPECT_TRUE(may("user:root", declared)) << kind;
    declared.labels["frozen"] = "yes";
    EXPECT_FALSE(may("user:root", declared)) << "a forbid by label still binds: " << kind;
  }
  for (const char* kind : {"Project", "Queue"}) {
    storage::Object inside = object(kind, "pay", R"({"zone":"ae"})");
    inside.project = "pay";
    EXPECT_FALSE(may("user:amal", inside)) << kind;
  }
}

TEST(Granting, the_last_administrator_stays) {
  const Policies policies = two_tenants();
  const storage::Object last =
      object("Grant", "root", R"({"to":["user:root"],"role":"admin","on":"platform"})");
  const Principal root = user("user:root");
  EXPECT_EQ(check_remove(policies, asks(root, "", {}), last).error().code, Code::kConflict);
  storage::Object less = last;
  less.spec["role"] = "viewer";
  EXPECT_EQ(check_apply(policies, asks(root, "", {}), less, last).error().code, Code::kConflict);
  storage::Object wider = last;
  wider.spec["to"].push("user:second");
  EXPECT_TRUE(check_apply(policies, asks(root, "", {}), wider, last).ok());
}

TEST(Objects, labels_decide_as_they_were_and_as_they_shall_be) {
  const Policies policies = two_tenants();
  const Principal la = user("user:la");
  storage::Object risky = object("FeatureView", "risky", "{}", "pay");
  risky.labels["team"] = "risk";
  storage::Object sales = object("FeatureView", "sales", "{}", "pay");
  sales.labels["team"] = "sales";
  EXPECT_TRUE(check_apply(policies, asks(la, "", {}), risky, std::nullopt).ok());
  EXPECT_FALSE(check_apply(policies, asks(la, "", {}), sales, std::nullopt).ok());
  storage::Object taken = sales;
  taken.labels["team"] = "risk";
  EXPECT_FALSE(check_apply(policies, asks(la, "", {}), taken, sales).ok()) << "taken over";
  EXPECT_FALSE(
      check_apply(policies, asks(la, "", {}), object("FeatureView", "risky", "{}", "pay"), risky)
          .ok());
  EXPECT_TRUE(may_read(policies, asks(la, "", {}), risky));
  EXPECT_FALSE(may_read(policies, asks(la, "", {}), sales));
}

TEST(Objects, a_label_that_a_forbid_goes_by_is_taken_off_by_who_grants) {
  const Policies policies(PolicyInput{
      {grant("pay-admin", R"({"to":["user:amal"],"role":"admin","on":{"project":"pay"}})"),
       grant("pay-editor", R"({"to":["user:ed"],"role":"editor","on":{"project":"pay"}})"),
       grant("vault", R"({"effect":"forbid","to":["everyone"],"actions":["data.read"],
             "on":{"labels":{"vault":"yes"}}})"),
       grant("was", R"({"effect":"forbid","to":["everyone"],"actions":["data.read"],
             "on":{"labels":{"old":"yes"}},"expires":"2020-01-01T00:00:00Z"})")},
      {},
      {}});
  const auto labelled = [](std::initializer_list<std::pair<const char*, const char*>> labels) {
    storage::Object view = object("FeatureView", "secret", "{}", "pay");
    for (const auto& [key, value] : labels) view.labels[key] = value;
    return view;
  };
  const Principal ed = user("user:ed");
  const Principal amal = user("user:amal");
  const auto turns = [&](const Principal& who, const storage::Object& from,
                         const storage::Object& to) {
    return check_apply(policies, asks(who, "", {}), to, from);
  };
  const storage::Object secret = labelled({{"vault", "yes"}});
  const Status refused = turns(ed, secret, labelled({}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("vault=yes"), std::string::npos);
  EXPECT_NE(refused.error().message.find("access.write"), std::string::npos);
  EXPECT_EQ(refused.error().message.find("Grant '"), std::string::npos) << "not theirs to read";
  EXPECT_FALSE(turns(ed, secret, labelled({{"vault", "no"}})).ok()) << "another value";
  EXPECT_FALSE(check_remove(policies, asks(ed, "", {}), secret).ok()) << "and declared again";
  // What it does not bind, and what stays bound, is the editor's as before.
  EXPECT_TRUE(turns(ed, secret, labelled({{"vault", "yes"}, {"team", "risk"}})).ok());
  EXPECT_TRUE(turns(ed, labelled({{"team", "risk"}}), labelled({})).ok());
  EXPECT_TRUE(turns(ed, labelled({}), secret).ok()) << "put on";
  EXPECT_TRUE(turns(ed, labelled({{"old", "yes"}}), labelled({})).ok()) << "has expired";
  EXPECT_TRUE(check_remove(policies, asks(ed, "", {}), labelled({{"team", "risk"}})).ok());
  EXPECT_TRUE(turns(amal, secret, labelled({})).ok());
  EXPECT_TRUE(check_remove(policies, asks(amal, "", {}), secret).ok());
}

TEST(Objects, a_project_is_read_by_its_people_and_written_by_the_platform) {
  const Policies policies = two_tenants();
  const storage::Object pay = object("Project", "pay", R"({"zone":"ae"})");
  const storage::Object other = object("Project", "other", R"({"zone":"ae"})");
  EXPECT_TRUE(may_read(policies, asks(user("user:ed"), "", {}), pay));
  EXPECT_FALSE(may_read(policies, asks(user("user:ed"), "", {}), other));
  EXPECT_FALSE(check_apply(policies, asks(user("user:amal"), "", {}), pay, pay).ok())
      << "its quota and zone are not its own to set";
  EXPECT_TRUE(check_apply(policies, asks(user("user:root"), "", {}), pay, pay).ok());
  const storage::Object grant =
      object("Grant", "g", R"({"to":["user:x"],"role":"viewer","on":{"project":"pay"}})");
  EXPECT_TRUE(may_read(policies, asks(user("user:amal"), "", {}), grant));
  EXPECT_FALSE(may_read(policies, asks(user("user:ed"), "", {}), grant));
}

// --- The service ---

TEST(Access, publishes_what_is_stored_and_resolves_names_to_ids) {
  const auto sql = storage::make_fake_sql();
  ASSERT_TRUE(sql->migrate({storage::kObjectsMigration}).ok());
  FakeClock clock(kNow);
  Access access(
      *sql, clock,
      {.built_in = {}, .resolve = [](const std::string& subject) -> std::optional<std::string> {
         if (subject == "user:alice") return "user:u_1";
         return std::nullopt;
       }});
  const ObjectRef view{"pay", "FeatureView", "v", nullptr};
  EXPECT_FALSE(access.policies()->decide(asks(user("user:u_1"), "objects.read", view)).allowed);
  const auto put = [&](const storage::Object& made) {
    ASSERT_TRUE(sql->write([&](storage::SqlTransaction& tx) -> Status {
                     FALAJ_TRY(storage::put_object(tx, made, kNow));
                     return {};
                   })
                    .ok());
  };
  put(object("Grant", "g", R"({"to":["user:alice"],"role":"viewer","on":{"project":"pay"}})"));
  ASSERT_TRUE(access.refresh().ok());
  EXPECT_TRUE(access.policies()->decide(asks(user("user:u_1"), "objects.read", view)).allowed);
  EXPECT_FALSE(access.policies()->decide(asks(user("user:alice"), "objects.read", view)).allowed)
      << "a name that somebody else may choose is no identity";
  put(object("Grant", "h", R"({"to":["user:alice"],"rank":"viewer"})"));
  EXPECT_TRUE(access.current().ok());
  EXPECT_FALSE(access.refresh().ok());
  EXPECT_FALSE(access.policies()->decide(asks(user("user:u_1"), "objects.read", view)).allowed)
      << "what it was may be taken away by now";
  EXPECT_EQ(access.current().error().code, Code::kUnavailable);
  EXPECT_FALSE(access.retry().ok());
  put(object("Grant", "h", R"({"to":["user:alice"],"role":"viewer","on":{"project":"pay"}})"));
  EXPECT_TRUE(access.retry().ok());
  EXPECT_TRUE(access.current().ok());
  EXPECT_TRUE(access.policies()->decide(asks(user("user:u_1"), "objects.read", view)).allowed);
}

// An editor who could say where a receiver is could send alarms anywhere.
TEST(Declaring, where_a_webhook_goes_is_for_who_may_approve_transfers) {
  const Policies policies(PolicyInput{
      {grant("ed", R"({"to":["user:ed"],"role":"editor","on":{"project":"pay"}})"),
       grant("ap", R"({"to":["user:ap"],"role":"approver","on":{"project":"pay"}})"),
       grant("both1", R"({"to":["user:both"],"role":"editor","on":{"project":"pay"}})"),
       grant("both2", R"({"to":["user:both"],"role":"approver","on":{"project":"pay"}})")},
      {},
      {}});
  const auto hook =
      object("Webhook", "out", R"({"url":"https://evil.example/","zone":"ae"})", "pay");
  const auto applies = [&](const char* who) {
    return check_apply(policies, asks(user(who), "", {}), hook, std::nullopt).ok();
  };
  EXPECT_FALSE(applies("user:ed"));
  EXPECT_FALSE(applies("user:ap"));
  EXPECT_TRUE(applies("user:both"));
}

TEST(RateLimiter, gives_a_second_at_once_and_then_the_rate) {
  RateLimiter limiter;
  Timestamp now = kNow;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limiter.take("user:1", 10, now)) << i;
  const auto wait = limiter.take("user:1", 10, now);
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(*wait, Duration::milliseconds(100));
  EXPECT_FALSE(limiter.take("user:2", 10, now)) << "another key";
  now = now + *wait;
  EXPECT_FALSE(limiter.take("user:1", 10, now));
  EXPECT_TRUE(limiter.take("user:1", 10, now));
  int passed = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    if (!limiter.take("user:1", 10, now + Duration::milliseconds(ms))) ++passed;
  }
  EXPECT_EQ(passed, 99);
  EXPECT_FALSE(limiter.take("user:1", 10, kNow - Duration::hours(1)) &&
               limiter.take("user:1", 10, kNow - Duration::hours(1) + Duration::seconds(1)))
      << "a clock set back locks nobody out";
  EXPECT_EQ(retry_after_seconds(Duration::milliseconds(1)), 1);
  EXPECT_EQ(retry_after_seconds(Duration::milliseconds(1001)), 2);
}

TEST(RateLimiter, holds_a_bounded_number_of_keys) {
  RateLimiter limiter;
  std::uint64_t passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    if (!limiter.take("user:" + std::to_string(i), 1, kNow)) ++passed;
  }
  EXPECT_LE(passed, 16U * 4097U) << "past the limit keys share one allowance";
  EXPECT_FALSE(limiter.take("user:fresh", 1, kNow + Duration::seconds(2))) << "rest is forgotten";
}

TEST(Denials, a_flood_is_counted_and_each_can_be_asked_about) {
  Denials denials;
  const auto denied = [](int i, std::string who) {
    Denial denial;
    denial.request_id = "r" + std::to_string(i);
    denial.principal = std::move(who);
    denial.action = "objects.read";
    denial.project = "p" + std::to_string(i);
    return denial;
  };
  denials.add(denied(0, "user:eve"));
  ASSERT_EQ(denials.due(kNow).size(), 1U) << "the first is told at once";
  for (int i = 1; i <= 100'000; ++i) denials.add(denied(i, "user:eve"));
  EXPECT_TRUE(denials.due(kNow + Duration::seconds(59)).empty());
  const auto later = denials.due(kNow + Duration::seconds(60));
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].count, 100'000U);
  EXPECT_EQ(later[0].first.request_id, "r1");
  EXPECT_EQ(denials.find("r100000")->project, "p100000");
  EXPECT_FALSE(denials.find("r1").has_value()) << "only the last few thousand are kept";
  EXPECT_TRUE(denials.due(kNow + Duration::minutes(5)).empty());
  denials.add(denied(1, "user:eve"));
  EXPECT_EQ(denials.due(kNow + Duration::minutes(5)).size(), 1U) << "a first again";
  for (int i = 0; i < 5000; ++i) denials.add(denied(i, "user:" + std::to_string(i)));
  std::uint64_t told = 0;
  for (int i = 0; i < 100; ++i) {
    const auto due = denials.due(kNow + Duration::minutes(6));
    EXPECT_LE(due.size(), 64U);
    for (const DenialSummary& summary : due) told += summary.count;
  }
  EXPECT_EQ(told, 5000U) << "none is lost";
}

TEST(Denials, an_id_that_another_chose_too_hides_nobody_s) {
  Denials denials;
  const auto denied = [](std::string who, std::string project) {
    Denial denial;
    denial.request_id = carry_chosen_id(who, "payreq1");
    denial.principal = std::move(who);
    denial.project = std::move(project);
    return denial;
  };
  denials.add(denied("user:pay", "old"));
  denials.add(denied("user:pay", "new"));
  for (int i = 0; i < 3; ++i) denials.keep(denied("user:mallory", "shop"));
  EXPECT_EQ(denials.find("payreq1")->principal, "user:mallory") << "the newest";
  // One's own, as the carried id says, and by the id in the log.
  const std::string own = carry_chosen_id("user:pay", "payreq1");
  EXPECT_EQ(denials.find(own)->project, "new");
  EXPECT_EQ(denials.find(request_ids_of(own).ours)->project, "new");
  EXPECT_FALSE(denials.find(carry_chosen_id("user:other", "payreq1")).has_value());
  EXPECT_FALSE(denials.find("payreq2").has_value());
}

TEST(Policies, lets_nobody_hand_out_what_speaks_for_those_who_may_do_more) {
  const Policies policies(PolicyInput{
      {grant("root", R"({"to":["user:root"],"role":"admin","on":"platform"})"),
       grant("desk", R"({"to":["user:desk"],"actions":["identity.write"],"on":"platform"})"),
       grant("pay", R"({"to":["group:pay"],"role":"editor","on":{"project":"pay"}})"),
       grant("pay-admin", R"({"to":["user:amal"],"role":"admin","on":{"project":"pay"}})"),
       grant("over", R"({"to":["service:old"],"role":"admin","on":"platform",
             "expires":"2020-01-01T00:00:00Z"})"),
       grant("never", R"({"effect":"forbid","to":["service:plain"],"actions":["*"],
             "on":"platform"})"),
       grant("all", R"({"to":["everyone"],"actions":["objects.read"],"on":{"project":"open"}})"),
       grant("glass", R"({"to":["service:fire"],"role":"break-glass","on":"platform"})")},
      {Group{"pay", {"group:builders"}}, Group{"builders", {"service:bot", "user:awaited"}}},
      {}});
  const auto may = [&](const std::string& who, std::string_view subject) {
    const Principal asker = user("user:" + who);
    return policies.may_act_for(asks(asker, "", {}), subject).ok();
  };
  for (const char* subject : {"user:root", "service:bot", "user:awaited", "service:fire"}) {
    EXPECT_TRUE(may("root", subject)) << subject;
    EXPECT_FALSE(may("desk", subject)) << subject;
  }
  EXPECT_TRUE(may("amal", "service:bot")) << "all of it lies in the project";
  EXPECT_FALSE(may("amal", "user:root"));
  for (const char* subject : {"service:unknown", "service:old", "service:plain", "user:desk"}) {
    EXPECT_TRUE(may("desk", subject)) << subject;
  }
  Principal limited = user("user:root");
  limited.scopes = std::vector<Scope>{parse_scope("identity.write").value()};
  EXPECT_FALSE(policies.may_act_for(asks(limited, "", {}), "service:bot").ok())
      << "a credential gives no more than itself";
}

}  // namespace
}  // namespace falaj::security::access
