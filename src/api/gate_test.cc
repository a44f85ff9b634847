#include "api/gate.h"

#include <gtest/gtest.h>

#include "api/caller.h"
#include "base/json.h"
#include "security/access/decision_count.h"
#include "security/access/testing/access_world.h"

namespace falaj::api {
namespace {

namespace access = security::access;
using net::Method;
using net::Target;

// Keeps texts as they are: what is sealed is tested where the real one is.
class KeepingVault final : public security::OpeningVault {
 public:
  Result<std::string> seal(const std::string&, std::string_view, std::string_view text) override {
    return std::string(text);
  }
  Result<std::string> open(const std::string&, std::string_view, std::string_view text) override {
    return std::string(text);
  }
};

// A gate over real policies and a real audit log; callers are named by a header.
class GateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.declare("Grant", "root", R"({"to":["user:root"],"role":"admin","on":"platform"})");
    world_.declare("Grant", "pay", R"({"to":["user:ed"],"role":"editor","on":{"project":"pay"}})");
    world_.declare("Grant", "shop",
                   R"({"to":["user:sam"],"role":"editor","on":{"project":"shop"}})");
    world_.declare("Grant", "one", R"({"to":["user:vi"],"role":"viewer",
            "on":{"project":"pay","kind":"Deployment","name":"fraud"}})");
    world_.declare("Grant", "glass",
                   R"({"to":["user:oncall"],"role":"break-glass","on":"platform"})");
    ASSERT_TRUE(world_.access.refresh().ok());
    make_gate(0);
  }
  void make_gate(std::int64_t rate) {
    const auto admit =
        [](const net::Route&, const net::Request&, const access::ObjectRef& object,
           const security::Principal& who) -> Result<std::function<void(std::size_t)>> {
      if (object.project == "abroad" && !who.id.empty()) {
        return Error{ErrorId::kZoneRefused, "it stays in its zone"};
      }
      return std::function<void(std::size_t)>();
    };
    gate_.emplace(
        GateParts{.authenticate = [](net::Request& request,
                                     security::Asking) -> Result<security::PrincipalPtr> {
                    security::Principal who;
                    who.id = net::find_header(request.headers, "X-User");
                    if (!who.id.empty()) who.kind = security::PrincipalKind::kUser;
                    if (who.id == "user:expired") {
                      return Error{ErrorId::kCredentialExpired, "the token has expired"};
                    }
                    return std::make_shared<const security::Principal>(std::move(who));
                  },
                  .access = world_.access,
                  .denials = denials_,
                  .emergencies = emergencies_,
                  .audit = world_.audit,
                  .metrics = metrics_,
                  .requests_per_second = rate,
                  .platform_kinds = {"Zone", "Project", "Grant", "Group"},
                  .project_of_record = [this](const std::string& kind,
                                              const std::string& id) -> Result<std::string> {
                    ++looked_up_;
                    // Declared: two projects, and a view in one of them.
                    if ((kind == "Project" || kind == "FeatureView") && id.empty())
                      return std::string();
                    if (kind == "Project" && (id == "/pay" || id == "/shop")) return std::string();
                    if (kind == "FeatureView" && id == "pay/v") return std::string("pay");
                    if (id == "of-pay") return std::string("pay");
                    if (id == "of-platform") return std::string();
                    return Error{Code::kNotFound, "no such"};
                  },
                  .holder_of = [this](const std::string&, const std::string& project,
                                      const std::string& id) -> Result<std::string> {
                    ++looked_up_;
                    if (project == "pay" && id == "of-clicks") return std::string("clicks");
                    if (project == "pay" && id == "of-vault") return std::string("vault");
                    return Error{Code::kNotFound, "no such"};
                  },
                  .admit = admit,
                  .passed =
                      [this](const security::access::AccessRequest& asked) {
                        passed_.push_back(asked.principal.id + " " + std::string(asked.action) +
                                          " " + std::string(asked.object.project) + "/" +
                                          std::string(asked.object.kind) + "/" +
                                          std::string(asked.object.name));
                      },
                  .projects_serving = [this](const std::string& name) -> std::vector<std::string> {
                    ++looked_up_;
                    if (name == "fraud") return {"pay", "shop"};
                    if (name == "risk") return {"pay"};
                    return {};
                  },
                  .quotas = &quotas_});
  }
  net::Route route(std::string_view path, std::string_view action, Target target) {
    return net::Route(Method::kGet, path, net::Permission(action), std::move(target), "A test's.",
                      [](const net::Request&) { return net::Response{}; });
  }
  // "ok", or the error's code and message.
  std::string pass(const net::Route& at, const std::string& who, const std::string& query = "",
                   std::map<std::string, std::string, std::less<>> params = {},
                   const std::string& reason = "") {
    request_ = {};
    request_.query = query;
    request_.params = std::move(params);
    request_.request_id = "r" + std::to_string(++asked_);
    if (!who.empty()) request_.headers.emplace_back("x-user", "user:" + who);
    if (!reason.empty()) request_.headers.emplace_back("X-Falaj-Reason", reason);
    const Status status = gate_->pass(at, request_);
    if (status.ok()) return "ok";
    return std::string(code_name(status.error().code)) + ": " + status.error().message;
  }
  std::vector<security::AuditEntry> entries(const std::string& action) {
    security::AuditQuery query;
    query.action = action;
    return world_.audit.list(query).value();
  }

  access::testing::AccessWorld world_;
  access::Denials denials_;
  telemetry::Metrics metrics_;
  access::Emergencies emergencies_{*world_.sql, world_.audit, metrics_, world_.clock};
  security::Quotas quotas_{*world_.sql};
  std::optional<Gate> gate_;
  net::Request request_;
  int asked_ = 0;
  int looked_up_ = 0;
  std::vector<std::string> passed_;
};

// What the query says is not what a qualified name means.
TEST_F(GateTest, who_counts_is_told_what_was_decided_upon) {
  const net::Route infer =
      route("/v2/models/{m}", "serving.predict", Target::qualified("Deployment", "m"));
  EXPECT_EQ(pass(infer, "ed", "project=" + std::string(7000, 'x'), {{"m", "fraud"}}), "ok");
  EXPECT_NE(pass(infer, "ed", "project=pay", {{"m", "shop.fraud"}}), "ok");
  EXPECT_EQ(passed_, (std::vector<std::string>{"user:ed serving.predict pay/Deployment/fraud"}));
}

TEST_F(GateTest, whoever_may_is_still_asked_where_they_are) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}), "ok");
  EXPECT_EQ(pass(get, "root", "project=shop", {{"name", "v"}}), "ok");
  EXPECT_EQ(pass(get, "root", "project=abroad", {{"name", "v"}}),
            "permission_denied: it stays in its zone");
}

TEST_F(GateTest, a_refusal_by_zone_can_be_asked_about_and_is_no_second_entry) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  EXPECT_NE(pass(get, "root", "project=abroad", {{"name", "v"}}), "ok");
  const auto denial = denials_.find(request_.request_id);
  ASSERT_TRUE(denial.has_value());
  EXPECT_EQ(denial->because, access::Because::kOtherZone);
  EXPECT_EQ(denial->sentence, "it stays in its zone");
  ASSERT_TRUE(gate_->tick().ok());
  EXPECT_TRUE(entries("access.denied").empty()) << "residency has an entry of its own";
}

TEST_F(GateTest, a_handler_asks_where_the_caller_is_for_what_a_body_names) {
  const auto put = route("/objects", "objects.write", Target::body());
  ASSERT_EQ(pass(put, "root"), "ok");
  EXPECT_TRUE(admit(request_, {"pay", "FeatureView", "v", nullptr}).ok());
  EXPECT_TRUE(admit(request_, {"", "Zone", "z", nullptr}).ok());
  const Status far = admit(request_, {"abroad", "FeatureView", "v", nullptr});
  ASSERT_FALSE(far.ok());
  EXPECT_EQ(far.error().id, ErrorId::kZoneRefused);
  EXPECT_TRUE(denials_.find(request_.request_id).has_value());
}

TEST_F(GateTest, what_an_object_holds_is_decided_as_the_object) {
  world_.declare("Grant", "clicks", R"({"to":["user:cy"],"actions":["data.read"],
      "on":{"project":"pay","kind":"FeatureView","name":"clicks"}})");
  world_.declare("Grant", "all", R"({"to":["user:al"],"actions":["data.read"],
      "on":{"project":"pay"}})");
  world_.declare("Grant", "no-vault", R"({"effect":"forbid","to":["everyone"],
      "actions":["data.read"],"on":{"project":"pay","kind":"FeatureView","name":"vault"}})");
  ASSERT_TRUE(world_.access.refresh().ok());
  const auto get = route("/q/{id}", "data.read", Target::holder("FeatureView", "id"));
  const auto ask = [&](const std::string& who, const std::string& id) {
    return pass(get, who, "project=pay", {{"id", id}});
  };
  EXPECT_EQ(ask("cy", "of-clicks"), "ok");
  EXPECT_EQ(ask("al", "of-clicks"), "ok");
  EXPECT_EQ(passed_.back(), "user:al data.read pay/FeatureView/clicks");
  // A forbidden object's file and one that there is not: the same words, but for the id.
  EXPECT_EQ(ask("al", "of-vault"), "not_found: nothing of project 'pay' has the id 'of-vault'");
  EXPECT_EQ(ask("al", "of-none"), "not_found: nothing of project 'pay' has the id 'of-none'");
  EXPECT_EQ(ask("cy", "of-vault"), ask("cy", "of-none"));
  EXPECT_EQ(ask("sam", "of-clicks").substr(0, 9), "not_found");
}

TEST_F(GateTest, asks_for_the_object_that_the_route_names) {
  const auto predict =
      route("/d/{name}:predict", "serving.predict", Target::object("Deployment", "name"));
  EXPECT_EQ(pass(predict, "ed", "project=pay", {{"name", "fraud"}}), "ok");
  EXPECT_EQ(principal_of(request_).id, "user:ed");
  EXPECT_EQ(request_.principal, "user:ed");
  EXPECT_EQ(pass(predict, "root", "project=pay", {{"name", "fraud"}}), "ok");
  EXPECT_EQ(pass(predict, "", "project=pay", {{"name", "fraud"}}).substr(0, 15), "unauthenticated");
  EXPECT_EQ(pass(predict, "expired", "project=pay", {{"name", "fraud"}}).substr(0, 15),
            "unauthenticated");
  EXPECT_EQ(pass(predict, "vi", "project=pay", {{"name", "fraud"}}).substr(0, 17),
            "permission_denied");
  EXPECT_EQ(pass(predict, "vi", "project=pay", {{"name", "other"}}),
            "not_found: Deployment 'other' was not found in project 'pay'");
  EXPECT_EQ(pass(predict, "sam", "project=pay", {{"name", "fraud"}}),
            "not_found: project 'pay' was not found");
  EXPECT_EQ(pass(predict, "sam", "project=nowhere", {{"name", "fraud"}}),
            "not_found: project 'nowhere' was not found");
  EXPECT_EQ(pass(predict, "sam", "", {{"name", "fraud"}}),
            "not_found: project 'default' was not found");
}

TEST_F(GateTest, a_record_of_another_tenant_and_one_that_is_not_there_are_one_answer) {
  const auto run = route("/runs/{id}", "models.read", Target::record("Run", "id"));
  EXPECT_EQ(pass(run, "ed", "", {{"id", "of-pay"}}), "ok");
  EXPECT_EQ(project_of(request_).str(), "pay") << "the record says whose it is";
  EXPECT_EQ(pass(run, "ed", "project=shop", {{"id", "of-pay"}}), "ok");
  EXPECT_EQ(project_of(request_).str(), "pay") << "whatever the query says";
  EXPECT_EQ(pass(run, "sam", "", {{"id", "of-pay"}}), "not_found: Run 'of-pay' was not found");
  EXPECT_EQ(pass(run, "sam", "", {{"id", "of-none"}}), "not_found: Run 'of-none' was not found");
  EXPECT_EQ(pass(run, "sam", "", {{"id", "of-platform"}}),
            "not_found: Run 'of-platform' was not found");
  EXPECT_EQ(pass(run, "sam", "project=shop", {{"id", "of-pay"}}),
            "not_found: Run 'of-pay' was not found")
      << "one's own project in the query opens nothing";
  EXPECT_EQ(pass(run, "root", "", {{"id", "of-none"}}), "ok") << "the handler says what is wrong";
  EXPECT_EQ(pass(run, "", "", {{"id", "of-pay"}}).substr(0, 15), "unauthenticated");
}

// Time tells as much as words: what is another's, and what is nobody's, take the same look-ups and
// the same decisions.
TEST_F(GateTest, what_is_anothers_takes_the_work_of_what_is_not_there) {
  const auto work = [&](const net::Route& at, const std::string& who, const std::string& query,
                        std::map<std::string, std::string, std::less<>> params) {
    const int looked_up = looked_up_;
    const std::uint64_t decided = access::decisions_made();
    const std::string said = pass(at, who, query, std::move(params));
    EXPECT_NE(said, "ok");
    return std::pair(looked_up_ - looked_up, access::decisions_made() - decided);
  };
  const auto run = route("/runs/{id}", "models.read", Target::record("Run", "id"));
  const auto infer =
      route("/m/{model}", "serving.predict", Target::qualified("Deployment", "model"));
  const auto held = route("/q/{id}", "data.read", Target::holder("FeatureView", "id"));
  const auto view = route("/v/{name}", "features.read", Target::object("FeatureView", "name"));
  for (const std::string who : {"sam", "nobody-special", ""}) {
    EXPECT_EQ(work(run, who, "", {{"id", "of-pay"}}), work(run, who, "", {{"id", "of-none"}}));
    EXPECT_EQ(work(infer, who, "", {{"model", "risk"}}),
              work(infer, who, "", {{"model", "nothing"}}));
    EXPECT_EQ(work(infer, who, "", {{"model", "pay.risk"}}),
              work(infer, who, "", {{"model", "none.risk"}}));
    EXPECT_EQ(work(held, who, "project=pay", {{"id", "of-clicks"}}),
              work(held, who, "project=pay", {{"id", "of-none"}}));
    EXPECT_EQ(work(view, who, "project=pay", {{"name", "v"}}),
              work(view, who, "project=none", {{"name", "v"}}));
  }
  EXPECT_GT(work(run, "sam", "", {{"id", "of-pay"}}).second, 0u) << "decisions are counted";
}

TEST_F(GateTest, a_model_name_is_looked_up_among_ones_own) {
  const auto infer =
      route("/m/{model}", "serving.predict", Target::qualified("Deployment", "model"));
  EXPECT_EQ(pass(infer, "ed", "", {{"model", "fraud"}}), "ok");
  EXPECT_EQ(found_project(request_), "pay");
  EXPECT_EQ(pass(infer, "sam", "", {{"model", "fraud"}}), "ok");
  EXPECT_EQ(found_project(request_), "shop");
  EXPECT_EQ(pass(infer, "ed", "", {{"model", "pay.fraud"}}), "ok");
  EXPECT_EQ(pass(infer, "ed", "", {{"model", "shop.fraud"}}),
            "not_found: project 'shop' was not found");
  const std::string unknown = pass(infer, "ed", "", {{"model", "nothing"}});
  EXPECT_EQ(unknown, "not_found: Request for unknown model: 'nothing' is not found");
  EXPECT_EQ(pass(infer, "oncall", "", {{"model", "fraud"}}),
            "not_found: Request for unknown model: 'fraud' is not found");
  const std::string several = pass(infer, "root", "", {{"model", "fraud"}});
  EXPECT_NE(several.find("pay.fraud, shop.fraud"), std::string::npos) << several;
}

TEST_F(GateTest, a_model_that_every_project_refuses_is_not_reached_by_its_bare_name) {
  world_.declare("Grant", "all",
                 R"({"to":["user:carol"],"actions":["serving.predict"],"on":"platform"})");
  for (const char* project : {"pay", "shop"}) {
    world_.declare("Grant", std::string("not-") + project,
                   R"({"to":["user:carol"],"actions":["*"],"effect":"forbid","on":{"project":")" +
                       std::string(project) + R"("}})");
  }
  ASSERT_TRUE(world_.access.refresh().ok());
  const auto infer =
      route("/m/{model}", "serving.predict", Target::qualified("Deployment", "model"));
  const std::string hidden = "not_found: Request for unknown model: 'fraud' is not found";
  EXPECT_EQ(pass(infer, "carol", "", {{"model", "fraud"}}), hidden);
  EXPECT_EQ(denials_.find(request_.request_id)->because, access::Because::kForbidden);
  EXPECT_EQ(denials_.find(request_.request_id)->project, "") << "whose it is stays untold";
  // Nobody has this one: no denial, and the same words for who may use everything.
  EXPECT_EQ(pass(infer, "root", "", {{"model", "nothing"}}),
            "not_found: Request for unknown model: 'nothing' is not found");
  EXPECT_FALSE(denials_.find(request_.request_id).has_value());
}

TEST_F(GateTest, lists_open_for_who_may_see_a_row) {
  const auto list = route("/list", "models.read", Target::listed("Deployment"));
  EXPECT_EQ(pass(list, "vi", "project=pay"), "ok");
  EXPECT_TRUE(may(request_, "models.read", {"pay", "Deployment", "fraud", nullptr}));
  EXPECT_FALSE(may(request_, "models.read", {"pay", "Deployment", "other", nullptr}));
  EXPECT_EQ(pass(list, "sam", "project=pay"), "not_found: project 'pay' was not found");
  const auto whole = route("/whole", "models.read", Target::in_project("Deployment"));
  EXPECT_EQ(pass(whole, "vi", "project=pay").substr(0, 17), "permission_denied");
  const auto across = route("/across", "objects.read", Target::across_projects("Object"));
  EXPECT_EQ(pass(across, "vi"), "ok");
  EXPECT_EQ(pass(across, "eve").substr(0, 17), "permission_denied");
}

TEST_F(GateTest, declared_objects_above_projects_ignore_the_query) {
  const auto get = route("/o/{kind}/{name}", "objects.read", Target::declared("kind", "name"));
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"kind", "FeatureView"}, {"name", "v"}}), "ok");
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"kind", "Zone"}, {"name", "ae"}}).substr(0, 17),
            "permission_denied");
  EXPECT_EQ(pass(get, "ed", "project=shop", {{"kind", "Project"}, {"name", "pay"}}), "ok");
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"kind", "Project"}, {"name", "shop"}}),
            "not_found: project 'shop' was not found");
  const auto put = route("/d/{kind}/{name}", "objects.write", Target::declared("kind", "name"));
  EXPECT_EQ(pass(put, "ed", "project=pay", {{"kind", "Project"}, {"name", "pay"}}).substr(0, 17),
            "permission_denied");
  EXPECT_NE(pass(put, "ed", "project=pay", {{"kind", "Grant"}, {"name", "root"}}), "ok");
  EXPECT_EQ(pass(put, "root", "project=pay", {{"kind", "Grant"}, {"name", "root"}}), "ok");
}

TEST_F(GateTest, breaking_glass_is_written_down_before_the_handler_runs) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  EXPECT_EQ(pass(get, "oncall", "project=pay", {{"name", "v"}}).substr(0, 17), "permission_denied");
  EXPECT_TRUE(entries("access.break_glass").empty());
  EXPECT_EQ(pass(get, "oncall", "project=pay", {{"name", "v"}}, "the model denies everyone"), "ok");
  ASSERT_EQ(entries("access.break_glass").size(), 1U);
  EXPECT_EQ(entries("access.break_glass")[0].actor, "user:oncall");
  EXPECT_EQ(entries("access.break_glass")[0].project, "pay");
  // What the handler decides row by row counts as used when a reason is stated.
  const auto list = route("/list", "models.read", Target::across_projects("Deployment"));
  EXPECT_EQ(pass(list, "oncall", "", {}, "looking"), "ok");
  EXPECT_EQ(entries("access.break_glass").size(), 2U);
  // A route of the event loop is no exception: its request is moved to where it may wait.
  auto hot = route("/hot/{name}", "serving.predict", Target::object("Deployment", "name"));
  hot.runs_on = net::RunsOn::kLoop;
  EXPECT_EQ(pass(hot, "oncall", "project=pay", {{"name", "fraud"}}, "fire"), "ok");
  EXPECT_TRUE(Gate::blocks(request_));
  EXPECT_EQ(entries("access.break_glass").size(), 3U);
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}, "just talking"), "ok");
  EXPECT_EQ(entries("access.break_glass").size(), 3U) << "who needs no glass breaks none";
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}, std::string(501, 'x')).substr(0, 16),
            "invalid_argument");
}

TEST_F(GateTest, a_reason_that_was_not_written_down_opens_nothing_in_the_handler) {
  // Everybody may ask this; what about others it tells, the handler decides.
  const auto ask = route("/access:decide", "account.use", Target::platform("Account"));
  EXPECT_EQ(pass(ask, "oncall", "", {}, "curious"), "ok");
  EXPECT_FALSE(may(request_, "access.read", {"pay", "", "", nullptr}));
  EXPECT_TRUE(entries("access.break_glass").empty());
  const auto list = route("/list", "models.read", Target::across_projects("Deployment"));
  EXPECT_EQ(pass(list, "oncall", "", {}, "the model denies everyone"), "ok");
  EXPECT_TRUE(may(request_, "models.read", {"pay", "Deployment", "fraud", nullptr}));
  EXPECT_EQ(entries("access.break_glass").size(), 1U);
}

TEST_F(GateTest, what_cannot_be_written_down_does_not_happen_and_what_happened_is_not_lost) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  const auto rename = [&](const std::string& from, const std::string& to) {
    return world_.sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(tx.execute("ALTER TABLE " + from + " RENAME TO " + to));
      return {};
    });
  };
  pass(get, "sam", "project=pay", {{"name", "v"}});
  pass(get, "eve", "project=pay", {{"name", "v"}});
  ASSERT_TRUE(rename("audit", "audit_away").ok());
  EXPECT_NE(pass(get, "oncall", "project=pay", {{"name", "v"}}, "fire"), "ok");
  EXPECT_FALSE(gate_->tick().ok());
  ASSERT_TRUE(rename("audit_away", "audit").ok());
  ASSERT_TRUE(gate_->tick().ok());
  EXPECT_EQ(entries("access.denied").size(), 2U) << "of sam and of eve";
}

TEST_F(GateTest, a_request_that_goes_on_is_asked_again_whenever_its_handler_wants_to_know) {
  const auto events = route("/events", "monitoring.read", Target::in_project("Project"));
  make_gate(1);  // Asking again is no request: it uses nothing up.
  ASSERT_EQ(pass(events, "ed", "project=pay"), "ok");
  net::Request kept = kept_of(request_);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask_again(kept).ok());
  EXPECT_TRUE(may(kept, "monitoring.read", {"pay", "", "", nullptr}));
  world_.declare("Grant", "pay", R"({"to":["user:ed"],"role":"editor","on":{"project":"shop"}})");
  ASSERT_TRUE(world_.access.refresh().ok());
  EXPECT_FALSE(ask_again(kept).ok()) << "the grant is gone";
  net::Request nobodys;
  EXPECT_FALSE(ask_again(nobodys).ok()) << "no gate let it through";
}

TEST_F(GateTest, breaking_glass_raises_an_alarm_that_another_closes) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  EXPECT_EQ(pass(get, "oncall", "project=pay", {{"name", "v"}}).substr(0, 17), "permission_denied");
  EXPECT_TRUE(emergencies_.list("pay")->empty()) << "nothing was broken";
  for (int i = 0; i < 3; ++i) pass(get, "oncall", "project=pay", {{"name", "v"}}, "fire");
  const auto raised = emergencies_.list("pay").value();
  ASSERT_EQ(raised.size(), 1U) << "one alarm, however often";
  EXPECT_EQ(raised[0].principal, "user:oncall");
  EXPECT_EQ(raised[0].uses, 3);
  EXPECT_EQ(raised[0].action, "objects.read");
  EXPECT_EQ(raised[0].entry, entries("access.break_glass")[0].sequence);
  EXPECT_TRUE(raised[0].open());
  EXPECT_TRUE(emergencies_.list("shop")->empty());

  security::RequestContext context;
  context.principal.id = "user:oncall";
  EXPECT_EQ(emergencies_.close(context, raised[0].id).error().code, Code::kPermissionDenied);
  context.principal.id = "user:root";
  ASSERT_TRUE(emergencies_.close(context, raised[0].id).ok());
  EXPECT_EQ(emergencies_.close(context, raised[0].id).error().code, Code::kConflict);
  EXPECT_EQ(emergencies_.close(context, 99).error().code, Code::kNotFound);
  EXPECT_EQ(entries("access.emergency_closed").size(), 1U);
  pass(get, "oncall", "project=pay", {{"name", "v"}}, "again");
  EXPECT_EQ(emergencies_.list("pay")->size(), 2U) << "the next one is an alarm of its own";
}

TEST_F(GateTest, what_a_handler_denies_is_found_like_what_the_gate_denies) {
  const auto put = route("/o", "objects.write", Target::body());
  ASSERT_EQ(pass(put, "ed"), "ok") << "the body is the handler's";
  EXPECT_TRUE(check(request_, "objects.write", {"pay", "FeatureView", "v", nullptr}).ok());
  EXPECT_FALSE(denials_.find(request_.request_id).has_value());
  EXPECT_FALSE(check(request_, "objects.write", {"shop", "FeatureView", "v", nullptr}).ok());
  const auto denial = denials_.find(request_.request_id);
  ASSERT_TRUE(denial.has_value());
  EXPECT_EQ(denial->principal, "user:ed");
  EXPECT_EQ(denial->project, "shop");
  // Allowed as such, and yet refused: in the refusal's own words.
  ASSERT_EQ(pass(put, "root"), "ok");
  const Status refused = note_denied(request_, "access.write", {"", "Grant", "g", nullptr},
                                     Error{Code::kPermissionDenied, "more than you hold"});
  EXPECT_EQ(refused.error().message, "more than you hold");
  EXPECT_EQ(denials_.find(request_.request_id)->because, access::Because::kNotTheirs);
  EXPECT_EQ(denials_.find(request_.request_id)->sentence, "more than you hold");
  // What is no denial is none.
  ASSERT_EQ(pass(put, "root"), "ok");
  EXPECT_FALSE(note_denied(request_, "access.write", {}, Error{Code::kConflict, "twice"}).ok());
  EXPECT_TRUE(note_denied(request_, "access.write", {}, {}).ok());
  EXPECT_FALSE(denials_.find(request_.request_id).has_value());
}

TEST_F(GateTest, a_project_has_its_quota_of_predictions) {
  world_.declare("Project", "pay", R"({"zone":"ae","quota":{"predictions_per_second":2}})");
  world_.declare("Project", "shop", R"({"zone":"ae"})");
  ASSERT_TRUE(quotas_.refresh().ok());
  const auto predict =
      route("/d/{name}:predict", "serving.predict", Target::object("Deployment", "name"));
  const auto infer =
      route("/m/{model}", "serving.predict", Target::qualified("Deployment", "model"));
  EXPECT_EQ(pass(predict, "ed", "project=pay", {{"name", "fraud"}}), "ok");
  EXPECT_EQ(pass(infer, "ed", "", {{"model", "pay.fraud"}}), "ok") << "by either dialect";
  const std::string over = pass(predict, "root", "project=pay", {{"name", "fraud"}});
  EXPECT_EQ(over,
            "resource_exhausted: project 'pay' asked for more predictions than its quota of 2 a "
            "second: wait 1 s")
      << "whoever asks";
  EXPECT_EQ(request_.retry_after, 1);
  EXPECT_EQ(pass(predict, "sam", "project=shop", {{"name", "fraud"}}), "ok");
  EXPECT_EQ(pass(predict, "sam", "project=pay", {{"name", "fraud"}}),
            "not_found: project 'pay' was not found");
  const auto read = route("/d/{name}", "models.read", Target::object("Deployment", "name"));
  EXPECT_EQ(pass(read, "ed", "project=pay", {{"name", "fraud"}}), "ok") << "only predictions count";
  world_.clock.advance(Duration::milliseconds(501));
  EXPECT_EQ(pass(predict, "ed", "project=pay", {{"name", "fraud"}}), "ok");
  world_.declare("Project", "pay", R"({"zone":"ae","quota":{"predictions_per_second":0}})");
  ASSERT_TRUE(quotas_.refresh().ok());
  EXPECT_EQ(pass(predict, "ed", "project=pay", {{"name", "fraud"}}).substr(0, 19),
            "failed_precondition");
}

TEST_F(GateTest, denials_are_counted_in_the_audit_and_explained_by_request) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  for (int i = 0; i < 1000; ++i) pass(get, "sam", "project=pay", {{"name", "v"}});
  ASSERT_TRUE(gate_->tick().ok());
  const auto told = entries("access.denied");
  ASSERT_EQ(told.size(), 1U) << "one for the thousand";
  EXPECT_EQ(told[0].actor, "user:sam");
  EXPECT_EQ(told[0].project, "pay") << "its own auditors see who tried";
  EXPECT_EQ(told[0].detail.integer("count"), 1000);
  const auto denial = denials_.find("r1000");
  ASSERT_TRUE(denial.has_value());
  EXPECT_NE(denial->sentence.find("no grant permits"), std::string::npos) << denial->sentence;
  EXPECT_EQ(told[0].detail.text("name"), "v");
}

TEST_F(GateTest, what_a_caller_makes_up_is_a_commitment_in_the_log) {
  KeepingVault vault;
  world_.audit.set_openings(&vault);
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  const auto user = route("/users/{name}", "identity.read", Target::platform("User", "name"));
  const auto any = route("/any/{kind}/{name}", "data.read", Target::declared("kind", "name"));
  // The newest denial in the log as text, and what opens its commitments.
  const auto logged = [&] {
    EXPECT_TRUE(gate_->tick().ok());
    const security::AuditEntry entry = entries("access.denied")[0];
    std::string texts;
    for (const auto& opening : world_.audit.openings(entry.sequence).value()) {
      EXPECT_EQ(entry.detail.text(opening.name),
                security::commitment_of(opening.salt, opening.text));
      texts += opening.name + "=" + opening.text + " ";
    }
    return std::pair(world_.audit.lines(entry.sequence, 1)->front(), texts);
  };
  EXPECT_NE(pass(get, "eve", "project=omar-khalid-784", {{"name", "alice@example.com"}}), "ok");
  auto [line, texts] = logged();
  EXPECT_EQ(line.find("omar"), std::string::npos) << line;
  EXPECT_EQ(line.find("alice"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("project":"")"), std::string::npos) << line;
  EXPECT_EQ(texts, "name=alice@example.com project=omar-khalid-784 ");
  // People, however well known.
  EXPECT_NE(pass(user, "eve", "", {{"name", "omar"}}), "ok");
  std::tie(line, texts) = logged();
  EXPECT_EQ(line.find("omar"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("kind":"User")"), std::string::npos) << line;
  EXPECT_EQ(texts, "name=omar ");
  // A kind is in the path too.
  EXPECT_NE(pass(any, "eve", "project=pay", {{"kind", "Khalid"}, {"name", "x"}}), "ok");
  std::tie(line, texts) = logged();
  EXPECT_EQ(line.find("Khalid"), std::string::npos) << line;
  EXPECT_EQ(texts, "kind=Khalid name=x ");
  // What could be no name is not even kept sealed.
  EXPECT_NE(pass(get, "mal", "project=" + std::string(300, 'P'), {{"name", "\xff"}}), "ok");
  std::tie(line, texts) = logged();
  EXPECT_EQ(line.find("PPP"), std::string::npos) << line;
  EXPECT_EQ(texts, "");
  // A glass that was broken for a person.
  EXPECT_EQ(pass(user, "oncall", "", {{"name", "omar"}}, "locked out"), "ok");
  const security::AuditEntry broken = entries("access.break_glass")[0];
  EXPECT_EQ(broken.object, "User of the platform");
  EXPECT_EQ(world_.audit.lines(broken.sequence, 1)->front().find("omar"), std::string::npos);
  EXPECT_EQ(world_.audit.openings(broken.sequence)->front().text, "omar");
  EXPECT_TRUE(world_.audit.verify().ok());
}

TEST_F(GateTest, the_log_has_an_id_of_ours_for_one_that_the_caller_chose) {
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  const std::string mine = "layla.784-1980-7654321-1";
  const auto ask = [&](const std::string& who, const std::string& sent, const std::string& taken) {
    request_ = {};
    request_.query = "project=pay";
    request_.params = {{"name", "v"}};
    request_.request_id = taken;
    request_.headers = {{"x-user", "user:" + who}, {"X-Request-Id", sent}};
    EXPECT_FALSE(gate_->pass(get, request_).ok());
    EXPECT_TRUE(gate_->tick().ok());
    return entries("access.denied")[0].request_id;
  };
  const std::string ours = ask("eve", mine, mine);
  EXPECT_EQ(request_.request_id, mine) << "the answer bears the caller's";
  EXPECT_NE(ours, mine);
  EXPECT_EQ(entries("access.denied")[0].detail.text("request_id").substr(0, 7), "sha256:");
  // It can be asked about by both; by ours also when another caller chose the same.
  EXPECT_EQ(denials_.find(mine)->principal, "user:eve");
  EXPECT_NE(ask("mallory", mine, mine), ours);
  EXPECT_EQ(denials_.find(mine)->principal, "user:mallory");
  EXPECT_EQ(denials_.find(ours)->principal, "user:eve");
  // Of a stream's messages, and in the place of one that was not taken over.
  EXPECT_EQ(ask("ann", mine, mine + "-2").find("layla"), std::string::npos);
  EXPECT_EQ(ask("bob", "no id", "5f0c1d"), "5f0c1d");
}

TEST_F(GateTest, a_principal_and_a_project_have_their_rate) {
  make_gate(2);
  const auto get = route("/o/{name}", "objects.read", Target::object("FeatureView", "name"));
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}), "ok");
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}), "ok");
  const std::string limited = pass(get, "ed", "project=pay", {{"name", "v"}});
  EXPECT_EQ(limited.substr(0, 18), "resource_exhausted") << limited;
  EXPECT_EQ(request_.retry_after, 1);
  EXPECT_EQ(pass(get, "sam", "project=shop", {{"name", "v"}}), "ok") << "another caller";
  // Outsiders cannot use up a project's allowance.
  for (int i = 0; i < 100; ++i) {
    pass(get, "eve" + std::to_string(i), "project=pay", {{"name", "v"}});
  }
  world_.clock.advance(Duration::seconds(1));
  EXPECT_EQ(pass(get, "ed", "project=pay", {{"name", "v"}}), "ok");
  // Its people together have ten times the rate of one of them.
  world_.declare("Grant", "all", R"({"to":["everyone"],"role":"viewer","on":{"project":"shop"}})");
  ASSERT_TRUE(world_.access.refresh().ok());
  world_.clock.advance(Duration::seconds(1));
  const auto people = [&](int i) {
    return pass(get, "p" + std::to_string(i), "project=shop", {{"name", "v"}});
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(people(i), "ok") << i;
  EXPECT_NE(people(20).find("this project asked more than 20 times a second"), std::string::npos);
}

}  // namespace
}  // namespace falaj::api
