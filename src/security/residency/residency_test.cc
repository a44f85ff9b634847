#include "security/residency/residency.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace falaj::security::residency {
namespace {

const Timestamp kNow = Timestamp::from_seconds(1'790'000'000);

Regime regime(const std::string& name, const std::string& territory) {
  Regime out;
  out.name = name;
  out.territory = territory;
  out.as_of = "2026-11-16";
  out.breach_deadline = Duration::hours(72);
  out.grounds = {{"contract", "a contract"}};
  return out;
}

// world ⊃ nothing; ae ⊃ ae-fin, ae-health; eu ⊃ eu-de.
ZoneMap zones() {
  Regime fin = regime("fin", "AE");
  fin.retention = Duration::days(5 * 365);
  fin.evidence = {"regulator-approval", "customer-consent"};
  fin.breach_deadline = Duration::hours(24);
  Regime health = regime("health", "AE");
  health.exceptions = {"x-1", "x-2"};
  health.processing_abroad = ProcessingAbroad::kException;
  return ZoneMap({{Zone("ae"), Zone(), "law", Duration::days(30)},
                  {Zone("ae-fin"), Zone("ae"), "fin", {}},
                  {Zone("ae-health"), Zone("ae"), "health", {}},
                  {Zone("eu"), Zone(), "gdpr", {}},
                  {Zone("eu-de"), Zone("eu"), "", {}}},
                 {regime("law", "AE"), fin, health, regime("gdpr", "EU")});
}

Flow flow(const std::string& from, const std::string& to, Exit exit = Exit::kExport) {
  return {.exit = exit,
          .project = "payments",
          .data = Zone(from),
          .destination = Zone(to),
          .purpose = "fraud",
          .object = "FeatureView/activity",
          .bytes = 10};
}

Transfer transfer(const std::string& from, const std::string& to) {
  Transfer out;
  out.project = "payments";
  out.name = "t1";
  out.from = Zone(from);
  out.to = Zone(to);
  out.ground = "contract";
  out.expires = kNow + Duration::days(1);
  out.approver = "user:officer";
  return out;
}

Decision ask(const Flow& f, const std::vector<Transfer>& transfers = {}) {
  return decide(f, zones(), transfers, kNow);
}

TEST(Residency, data_may_be_in_its_zone_and_below_at_every_exit) {
  for (const Exit exit : all_exits()) {
    EXPECT_TRUE(ask(flow("ae", "ae", exit)).allowed);
    EXPECT_TRUE(ask(flow("ae", "ae-fin", exit)).allowed);
    EXPECT_TRUE(ask(flow("eu", "eu-de", exit)).allowed);
  }
}

TEST(Residency, data_may_be_nowhere_else_at_any_exit) {
  const std::vector<std::pair<std::string, std::string>> ways{
      {"ae-fin", "ae"}, {"ae-fin", "ae-health"}, {"ae", "eu"}, {"eu-de", "eu"}, {"eu", "ae-fin"}};
  for (const Exit exit : all_exits()) {
    for (const auto& [from, to] : ways) {
      const Decision decision = ask(flow(from, to, exit));
      EXPECT_FALSE(decision.allowed) << exit_name(exit) << " " << from << " " << to;
      EXPECT_EQ(decision.error, ErrorId::kZoneRefused);
      EXPECT_NE(decision.rule.find("'" + from + "'"), std::string::npos);
    }
  }
}

TEST(Residency, unlabelled_and_undeclared_are_refused) {
  const auto refused = [](const Flow& asked, ErrorId id, std::string_view rule) {
    const Decision decision = ask(asked);
    EXPECT_FALSE(decision.allowed);
    EXPECT_EQ(decision.error, id);
    EXPECT_NE(decision.rule.find(rule), std::string::npos) << decision.rule;
  };
  refused(flow("", "ae"), ErrorId::kZoneMissing, "the data carries no zone");
  refused(flow("mars", "mars"), ErrorId::kZoneMissing, "of the data is not declared");
  refused(flow("ae", ""), ErrorId::kZoneRefused, "the destination declares no zone");
  refused(flow("ae", "mars"), ErrorId::kZoneRefused, "of the destination is not declared");
}

TEST(Residency, an_approved_transfer_is_the_way_across) {
  const Decision decision = ask(flow("ae", "eu-de"), {transfer("ae", "eu")});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.transfer, "t1");
  EXPECT_NE(decision.rule.find("user:officer"), std::string::npos);
}

TEST(Residency, a_transfer_covers_only_what_it_says) {
  const auto refused = [&](const Flow& f, const Transfer& t, std::string_view why) {
    const Decision decision = ask(f, {t});
    EXPECT_FALSE(decision.allowed) << why;
    EXPECT_NE(decision.rule.find(why), std::string::npos) << decision.rule;
  };
  Transfer t = transfer("ae", "eu");
  t.approver = "";
  refused(flow("ae", "eu"), t, "is not approved");
  t.ground = "whim";
  refused(flow("ae", "eu"), t, "is not approved, stands on ground 'whim'");
  t = transfer("ae", "eu");
  t.expires = kNow;
  refused(flow("ae", "eu"), t, "expired");
  t = transfer("ae", "eu");
  t.exits = {Exit::kServe};
  refused(flow("ae", "eu"), t, "does not cover export");
  t = transfer("ae", "eu");
  t.objects = {"Model/fraud", "TrainingSet/*"};
  refused(flow("ae", "eu"), t, "does not name FeatureView/activity");
  t.objects.emplace_back("FeatureView/*");
  EXPECT_TRUE(ask(flow("ae", "eu"), {t}).allowed);
  Flow several = flow("ae", "eu");
  several.object = "FeatureView";  // A list of them.
  EXPECT_TRUE(ask(several, {t}).allowed);
  several.object = "FeatureViews/x";
  EXPECT_FALSE(ask(several, {t}).allowed);
  t.purpose = "marketing";
  refused(flow("ae", "eu"), t, "purpose 'marketing'");
  t = transfer("ae", "eu");
  t.ground = "because";
  refused(flow("ae", "eu"), t, "ground 'because', which is none of regime law");
  t = transfer("ae", "eu");
  t.project = "other";
  EXPECT_FALSE(ask(flow("ae", "eu"), {t}).allowed);
  // One for the wider zone does not free what lies in a stricter one, nor the way back.
  EXPECT_FALSE(ask(flow("ae-fin", "eu"), {transfer("ae", "eu")}).allowed);
  EXPECT_FALSE(ask(flow("eu", "ae"), {transfer("ae", "eu")}).allowed);
  EXPECT_FALSE(ask(flow("ae", "eu"), {transfer("ae", "eu-de")}).allowed);
}

TEST(Residency, no_transfer_covers_labels_lines_and_dumps) {
  for (const Exit exit : {Exit::kMetric, Exit::kLog, Exit::kDump}) {
    EXPECT_FALSE(ask(flow("ae", "eu", exit), {transfer("ae", "eu")}).allowed);
  }
}

TEST(Residency, a_regime_asks_for_evidence_and_exception_codes) {
  Transfer fin = transfer("ae-fin", "eu");
  EXPECT_NE(ask(flow("ae-fin", "eu"), {fin}).rule.find("regulator-approval"), std::string::npos);
  fin.evidence = {{"regulator-approval", "CB-17"}, {"customer-consent", ""}};
  EXPECT_NE(ask(flow("ae-fin", "eu"), {fin}).rule.find("customer-consent"), std::string::npos);
  fin.evidence["customer-consent"] = "C-9";
  EXPECT_TRUE(ask(flow("ae-fin", "eu"), {fin}).allowed);

  Transfer health = transfer("ae-health", "eu");
  const Decision abroad = ask(flow("ae-health", "eu", Exit::kSchedule), {health});
  EXPECT_EQ(abroad.error, ErrorId::kTransferInvalid);
  EXPECT_NE(abroad.rule.find("processing abroad are refused"), std::string::npos);
  health.exception = "x-3";
  EXPECT_FALSE(ask(flow("ae-health", "eu"), {health}).allowed);
  health.exception = "x-2";
  EXPECT_TRUE(ask(flow("ae-health", "eu", Exit::kSchedule), {health}).allowed);
}

TEST(ZoneMap, what_is_derived_takes_the_strictest) {
  EXPECT_EQ(zones().strictest({Zone("ae"), Zone("ae-fin"), Zone("ae")})->name(), "ae-fin");
  EXPECT_EQ(zones().strictest({Zone("ae-fin"), Zone("ae")})->name(), "ae-fin");
  EXPECT_EQ(zones().strictest({Zone("ae-fin"), Zone("ae-health")}).error().id,
            ErrorId::kZoneRefused);
  EXPECT_EQ(zones().strictest({Zone("ae"), Zone("ae-fin"), Zone("eu")}).error().id,
            ErrorId::kZoneRefused);
  EXPECT_EQ(zones().strictest({Zone("ae"), Zone()}).error().id, ErrorId::kZoneMissing);
  EXPECT_EQ(zones().strictest({Zone("mars")}).error().id, ErrorId::kZoneMissing);
  EXPECT_EQ(zones().strictest({}).error().id, ErrorId::kZoneMissing);
}

TEST(ZoneMap, a_bad_parent_opens_nothing) {
  const ZoneMap map({{Zone("ae"), Zone(), "law", {}},
                     {Zone("us"), Zone("ae"), "us", {}},       // Another territory.
                     {Zone("lost"), Zone("nowhere"), "", {}},  // No such parent.
                     {Zone("a"), Zone("b"), "", {}},           // A circle.
                     {Zone("b"), Zone("a"), "", {}}},
                    {regime("law", "AE"), regime("us", "US")});
  EXPECT_FALSE(map.holds(Zone("ae"), Zone("us")));
  EXPECT_FALSE(map.holds(Zone("nowhere"), Zone("lost")));
  EXPECT_FALSE(map.holds(Zone("a"), Zone("b")));
  EXPECT_TRUE(map.holds(Zone("b"), Zone("b")));
  EXPECT_EQ(map.chain(Zone("a")).size(), 1u);
}

TEST(ZoneMap, the_longest_retention_and_the_shortest_deadline_win) {
  const Timestamp made = Timestamp::from_seconds(1'000'000'000);
  EXPECT_EQ(zones().retention_until(Zone("ae-fin"), made), made + Duration::days(5 * 365));
  EXPECT_EQ(zones().retention_until(Zone("ae"), made), made + Duration::days(30));
  EXPECT_EQ(zones().retention_until(Zone("eu"), made), Timestamp::min());
  EXPECT_EQ(zones().breach_deadline(Zone("ae-fin")), Duration::hours(24));
  EXPECT_EQ(zones().breach_deadline(Zone("eu-de")), Duration::hours(72));
}

TEST(Residency, exits_are_ten_and_have_names) {
  EXPECT_EQ(all_exits().size(), kExits);
  for (const Exit exit : all_exits()) EXPECT_EQ(*exit_from_name(exit_name(exit)), exit);
  EXPECT_FALSE(exit_from_name("side-door").ok());
}

TEST(Residency, a_refusal_says_what_where_and_why) {
  const Flow f = flow("ae-fin", "eu");
  const Error error = refusal(f, ask(f));
  EXPECT_EQ(error.id, ErrorId::kZoneRefused);
  EXPECT_EQ(error.message,
            "export of FeatureView/activity (zone ae-fin) to eu: data of zone 'ae-fin' stays in "
            "'ae-fin' and the zones below it (regime fin, 2026-11-16); no Transfer leads to 'eu'");
}

constexpr std::string_view kRegime = R"({
  "name": "r", "title": "R", "territory": "AE", "as_of": "2026-11-16",
  "notice": "Not legal advice. Ask.", "sources": ["article 1"], "breach_deadline": "72h",
  "grounds": [{"name": "contract", "meaning": "m"}]})";

TEST(Regime, reads_what_it_writes) {
  const Value value = *parse_json(kRegime);
  const auto parsed = regime_from_value(value, "r.yaml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_TRUE(parsed->has_ground("contract"));
  const auto again = regime_from_value(to_value(*parsed), "r.yaml");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(to_value(*again)), to_json(to_value(*parsed)));
}

TEST(Regime, is_read_strictly) {
  const auto broken = [](std::string_view key, Value with) {
    Value value = *parse_json(kRegime);
    value[key] = std::move(with);
    return !regime_from_value(value, "r.yaml").ok();
  };
  EXPECT_TRUE(broken("grunds", Value::array()));
  EXPECT_TRUE(broken("notice", "This is legal advice"));
  EXPECT_TRUE(broken("sources", Value::array()));
  EXPECT_TRUE(broken("breach_deadline", nullptr));
  EXPECT_TRUE(broken("as_of", "yesterday"));
  EXPECT_TRUE(broken("territory", nullptr));
  EXPECT_TRUE(broken("processing_abroad", "sure"));
  EXPECT_TRUE(broken("processing_abroad", "exception"));  // Without any exception.
}

}  // namespace
}  // namespace falaj::security::residency
