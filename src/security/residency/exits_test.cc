#include "security/residency/exits.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "security/residency/testing/zone_world.h"

namespace falaj::security::residency {
namespace {

Flow flow(const std::string& project, const std::string& from, const std::string& to,
          Exit exit = Exit::kExport) {
  return {.exit = exit,
          .project = project,
          .data = Zone(from),
          .destination = Zone(to),
          .purpose = {},
          .object = "FeatureView/activity",
          .bytes = 100};
}

std::int64_t count_of(const std::vector<LedgerRow>& rows, std::int64_t LedgerRow::*what) {
  std::int64_t sum = 0;
  for (const LedgerRow& row : rows) sum += row.*what;
  return sum;
}

TEST(Exits, refuse_everything_before_they_know_the_zones) {
  ZoneWorld world;
  Exits exits(*world.sql, *world.audit, world.clock, {});
  EXPECT_FALSE(exits.pass(world.context("p-ae"), flow("p-ae", "ae", "ae")).ok());
}

TEST(Exits, count_what_passes_and_what_is_refused) {
  ZoneWorld world;
  const auto context = world.context("p-ae");
  const auto passage = world.exits->pass(context, flow("p-ae", "ae", "ae-fin"));
  ASSERT_TRUE(passage.ok());
  world.exits->count(*passage, 11);
  const auto refused = world.exits->pass(context, flow("p-ae", "ae", "eu"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kZoneRefused);
  for (int round = 0; round < 2; ++round) {  // From memory, then from the store.
    const auto rows = world.exits->ledger("p-ae");
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), 2u);
    EXPECT_EQ(count_of(*rows, &LedgerRow::flows), 1);
    EXPECT_EQ(count_of(*rows, &LedgerRow::bytes), 111);
    EXPECT_EQ(count_of(*rows, &LedgerRow::refused), 1);
    ASSERT_TRUE(world.exits->tick().ok());
  }
  EXPECT_TRUE(world.exits->ledger("p-eu")->empty());
}

TEST(Exits, answers_that_repeat_are_counted_each_and_decided_anew_after_a_change) {
  ZoneWorld world;
  int asked = 0;
  const auto object = [&] {
    ++asked;
    return std::string("Deployment/fraud");
  };
  const auto context = [&] { return world.context("p-ae"); };
  const Visit visit{Exit::kServe, "p-ae", Zone("ae"), Caller::kElsewhere};
  for (int i = 0; i < 5; ++i) {
    const auto passage = world.exits->answer(visit, object, context);
    ASSERT_TRUE(passage.ok());
    world.exits->count(*passage, 7);
  }
  EXPECT_EQ(asked, 1);
  ASSERT_TRUE(world.exits->tick().ok());
  ASSERT_TRUE(world.exits->answer(visit, object, context).ok());  // Counted after the write too.
  EXPECT_EQ(count_of(*world.exits->ledger("p-ae"), &LedgerRow::flows), 6);
  EXPECT_EQ(count_of(*world.exits->ledger("p-ae"), &LedgerRow::bytes), 35);

  Visit abroad = visit;
  abroad.declared = Zone("eu");
  EXPECT_EQ(world.exits->answer(abroad, object, context).error().id, ErrorId::kZoneRefused);
  Visit other = visit;
  other.project = "p-eu";
  EXPECT_EQ(world.exits->answer(other, object, context).error().id, ErrorId::kZoneRefused);

  storage::Object moved;
  moved.kind = "Project";
  moved.name = "p-ae";
  moved.spec = *parse_json(R"({"zone": "eu"})");
  world.put(moved);
  ASSERT_TRUE(world.exits->refresh().ok());
  EXPECT_EQ(world.exits->answer(visit, object, context).error().id, ErrorId::kZoneRefused);
}

TEST(Exits, refusals_that_are_alike_are_one_entry) {
  ZoneWorld world;
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(world.exits->pass(world.context("p-ae"), flow("p-ae", "ae", "eu")).ok());
  }
  ASSERT_TRUE(world.exits->tick().ok());
  const auto entries = world.entries("residency.refuse");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].detail.integer("flows"), 50);
  EXPECT_EQ(entries[0].detail.text("code"), "FJ-7031");
}

TEST(Exits, a_transfer_counts_once_approved_and_each_use_is_audited) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  const auto context = world.context("p-ae");
  EXPECT_EQ(world.exits->pass(context, flow("p-ae", "ae", "eu")).error().id,
            ErrorId::kTransferInvalid);
  EXPECT_EQ(world.exits->approve(world.context("p-ae", "user:author"), "t1").error().code,
            Code::kPermissionDenied);
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  const auto passage = world.exits->pass_recorded(context, flow("p-ae", "ae", "eu"));
  ASSERT_TRUE(passage.ok()) << passage.error().message;
  EXPECT_EQ(world.exits->ledger("p-ae")->back().transfer, "t1");
  ASSERT_EQ(world.entries("transfer.use").size(), 1u);  // Before any tick.
  ASSERT_TRUE(world.exits->pass(context, flow("p-ae", "ae", "eu")).ok());
  ASSERT_TRUE(world.exits->pass(context, flow("p-ae", "ae", "eu")).ok());
  ASSERT_TRUE(world.exits->tick().ok());
  const auto uses = world.entries("transfer.use");
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].detail.integer("flows"), 2);
  EXPECT_EQ(uses[0].detail.integer("bytes"), 200);
  EXPECT_EQ(uses[0].object, "Transfer/p-ae/t1");
  EXPECT_EQ(world.entries("transfer.approve").size(), 1u);
}

TEST(Exits, the_use_of_a_transfer_is_audited_with_the_bytes_that_crossed) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  const auto context = world.context("p-ae");
  Flow answer = flow("p-ae", "ae", "eu", Exit::kServe);
  Flow file = flow("p-ae", "ae", "eu");
  answer.bytes = file.bytes = 0;  // Nobody knows yet.
  {
    const auto served = world.exits->pass(context, answer);
    ASSERT_TRUE(world.exits->tick().ok());
    EXPECT_TRUE(world.entries("transfer.use").empty()) << "it is on its way";
    world.exits->count(*served, 300);
    world.exits->count(*served, 38);
  }
  ASSERT_TRUE(world.exits->tick().ok());
  const auto served = world.entries("transfer.use");
  ASSERT_EQ(served.size(), 1u);
  EXPECT_EQ(served[0].detail.integer("flows"), 1);
  EXPECT_EQ(served[0].detail.integer("bytes"), 338);
  {
    const auto exported = world.exits->pass_recorded(context, file);
    ASSERT_EQ(world.entries("transfer.use").size(), 2u) << "before a byte left";
    EXPECT_FALSE(world.entries("transfer.use")[0].detail.has("bytes"));
    world.exits->count(*exported, 600);
  }
  ASSERT_TRUE(world.exits->tick().ok());
  const auto sent = world.entries("transfer.sent");
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].detail.integer("bytes"), 600);
  EXPECT_EQ(sent[0].object, "Transfer/p-ae/t1");
  EXPECT_EQ(count_of(*world.exits->ledger("p-ae"), &LedgerRow::bytes), 938);
}

// What is counted in memory is lost with the process; what the log says must not be.
TEST(Exits, a_recorded_use_is_in_the_ledger_as_soon_as_in_the_log) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  const auto context = world.context("p-ae");
  ASSERT_TRUE(world.exits->pass_recorded(context, flow("p-ae", "ae", "eu")).ok());
  EXPECT_FALSE(world.exits->pass_recorded(context, flow("p-ae", "ae", "eu-de", Exit::kDump)).ok());
  ASSERT_TRUE(world.exits->pass_recorded(context, flow("p-ae", "ae", "ae")).ok());
  const Exits after_a_crash(*world.sql, *world.audit, world.clock, {});
  const auto rows = after_a_crash.ledger("p-ae");
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(count_of(*rows, &LedgerRow::flows), 1);
  EXPECT_EQ(count_of(*rows, &LedgerRow::bytes), 100);
  EXPECT_EQ(count_of(*rows, &LedgerRow::refused), 1);
  EXPECT_EQ(count_of(*world.exits->ledger("p-ae"), &LedgerRow::flows), 2);
}

TEST(Exits, no_use_of_a_transfer_is_lost_in_a_flood_of_refusals) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  const auto context = world.context("p-ae");
  Flow refused = flow("p-ae", "ae", "eu", Exit::kDump);
  for (int i = 0; i < 5000; ++i) {
    refused.object = "FeatureView/" + std::to_string(i);
    EXPECT_FALSE(world.exits->pass(context, refused).ok());
  }
  Flow use = flow("p-ae", "ae", "eu");
  for (int i = 0; i < 3; ++i) {
    use.object = "TrainingSet/" + std::to_string(i);
    ASSERT_TRUE(world.exits->pass(context, use).ok());
  }
  ASSERT_TRUE(world.exits->tick().ok());
  const auto uses = world.entries("transfer.use");
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].object, "Transfer/p-ae/t1");
  EXPECT_EQ(uses[0].detail.integer("flows"), 3);
  EXPECT_EQ(uses[0].detail.integer("bytes"), 300);
}

TEST(Exits, a_use_that_lasts_is_audited_every_minute) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  const auto stream = world.exits->pass(world.context("p-ae"), flow("p-ae", "ae", "eu"));
  for (int second = 0; second < 120; ++second) {
    world.clock.advance(Duration::seconds(1));
    world.exits->count(*stream, 1);
    ASSERT_TRUE(world.exits->tick().ok());
  }
  EXPECT_EQ(world.entries("transfer.use").size(), 1u);
  EXPECT_EQ(world.entries("transfer.sent").size(), 1u);
}

TEST(Exits, one_that_is_approved_keeps_its_approver) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  const auto first = world.exits->approve(world.context("p-ae", "user:officer"), "t1");
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->before);
  const auto second = world.exits->approve(world.context("p-ae", "user:other"), "t1");
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->before);
  EXPECT_EQ(second->approver, "user:officer");
  EXPECT_EQ(world.entries("transfer.approve").size(), 1u);
}

TEST(Exits, a_changed_or_expired_transfer_needs_a_new_approval) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world.exits->approve(world.context("p-ae", "user:officer"), "t1").ok());
  ASSERT_TRUE(world.exits->pass(world.context("p-ae"), flow("p-ae", "ae", "eu")).ok());
  world.clock.advance(Duration::days(2));
  EXPECT_FALSE(world.exits->pass(world.context("p-ae"), flow("p-ae", "ae", "eu")).ok());
  world.declare_transfer("user:author", "p-ae", "t1", "ae", "eu");  // With a new expiry.
  const auto changed = world.exits->pass(world.context("p-ae"), flow("p-ae", "ae", "eu"));
  ASSERT_FALSE(changed.ok());
  EXPECT_NE(changed.error().message.find("is not approved"), std::string::npos);
}

TEST(Exits, a_transfer_that_its_regime_refuses_cannot_be_approved) {
  ZoneWorld world;
  world.declare_transfer("user:author", "p-ae-fin", "t1", "ae-fin", "eu");
  const auto approved = world.exits->approve(world.context("p-ae-fin", "user:officer"), "t1");
  ASSERT_FALSE(approved.ok());
  EXPECT_EQ(approved.error().id, ErrorId::kTransferInvalid);
  EXPECT_NE(approved.error().message.find("regulator-approval"), std::string::npos);
}

TEST(Exits, this_machine_stands_where_it_says) {
  ZoneWorld world;
  EXPECT_EQ(world.exits->machine_for(Zone("eu")).name(), "eu");
  Exits here(*world.sql, *world.audit, world.clock,
             {.regimes = ZoneWorld::regimes(), .machine = {Zone("eu"), Zone("ae-fin")}});
  ASSERT_TRUE(here.refresh().ok());
  EXPECT_EQ(here.machine_for(Zone("ae")).name(), "ae-fin");
  EXPECT_EQ(here.machine_for(Zone("ae-health")).name(), "eu");  // And decide() will refuse it.
}

TEST(Exits, callers_without_a_zone_are_where_the_regime_lets_them_be) {
  ZoneWorld world;
  const Exits& exits = *world.exits;
  EXPECT_EQ(exits.caller_zone(Zone("ae"), Zone("eu"), Caller::kElsewhere).name(), "eu");
  EXPECT_EQ(exits.caller_zone(Zone("ae"), Zone(), Caller::kElsewhere).name(), "ae");
  EXPECT_FALSE(exits.caller_zone(Zone("ae-fin"), Zone(), Caller::kElsewhere).labelled());
  EXPECT_EQ(exits.caller_zone(Zone("ae-fin"), Zone(), Caller::kOnThisMachine).name(), "ae-fin");
}

TEST(Exits, another_purpose_is_refused) {
  ZoneWorld world;
  EXPECT_TRUE(world.exits->check_purpose("p-ae", "fraud", "TrainJob/x").ok());
  EXPECT_TRUE(world.exits->check_purpose("p-ae", "", "TrainJob/x").ok());
  const Status other = world.exits->check_purpose("p-ae", "marketing", "TrainJob/x");
  EXPECT_EQ(other.error().id, ErrorId::kPurposeRefused);
}

TEST(Exits, a_project_that_was_deleted_keeps_its_zone_and_so_does_a_zone_its_parent) {
  ZoneWorld world;
  for (const auto& [kind, name] : {std::pair("Project", "p-ae-fin"), {"Zone", "ae-fin"}}) {
    ASSERT_TRUE(world.sql
                    ->write([&](storage::SqlTransaction& tx) {
                      return storage::delete_object(tx, kind, "", name);
                    })
                    .ok());
  }
  ASSERT_TRUE(world.exits->refresh().ok());
  EXPECT_EQ(world.exits->zone_of("p-ae-fin"), Zone("ae-fin"));
  const RequestContext context = world.context("p-ae-fin");
  EXPECT_FALSE(world.exits->pass(context, flow("p-ae-fin", "ae-fin", "eu")).ok());
  EXPECT_TRUE(world.exits->pass(context, flow("p-ae-fin", "ae-fin", "ae-fin")).ok());
  EXPECT_EQ(world.exits->zone_of("p-never"), Zone());
}

TEST(Exits, retention_and_legal_hold_lock) {
  ZoneWorld world;
  const Timestamp made = world.clock.now();
  const auto check = [&](const std::string& project, const std::string& zone) {
    return world.exits->check_erasable(project, Zone(zone), made, "Segment/1");
  };
  EXPECT_TRUE(check("p-eu", "eu").ok());
  EXPECT_EQ(check("p-ae-fin", "ae-fin").error().id, ErrorId::kRetentionHeld);
  world.clock.advance(Duration::days(5 * 365));
  EXPECT_TRUE(check("p-ae-fin", "ae-fin").ok());
  EXPECT_EQ(check("p-held", "eu").error().id, ErrorId::kRetentionHeld);
}

TEST(Declarations, what_data_was_kept_under_never_changes) {
  const auto all = kinds({ZoneWorld::regime("law", "AE")});
  const auto& zone = all[0];
  storage::Object before;
  before.kind = "Zone";
  before.name = "ae-fin";
  before.spec = *parse_json(R"({"parent": "ae", "regime": "law"})");
  storage::Object after = before;
  after.spec["retention"] = "5y";
  EXPECT_TRUE(zone.check_change(before, after).ok());
  after.spec["parent"] = "eu";
  EXPECT_EQ(zone.check_change(before, after).error().id, ErrorId::kImmutableField);
  after = before;
  after.spec["regime"] = "lax";
  EXPECT_EQ(zone.check_change(before, after).error().id, ErrorId::kImmutableField);
  EXPECT_FALSE(zone.check(after).ok());  // And there is no such regime.
  before.kind = after.kind = "Project";
  before.spec = *parse_json(R"({"zone": "ae"})");
  after.spec = *parse_json(R"({"zone": "eu"})");
  EXPECT_EQ(all[1].check_change(before, after).error().id, ErrorId::kImmutableField);
}

TEST(Declarations, a_transfer_that_could_never_be_approved_is_refused) {
  const auto all = kinds(ZoneWorld::regimes());
  auto objects = ZoneWorld::objects();
  const auto find = [&](const storage::Reference& wanted) -> const storage::Object* {
    for (const storage::Object& object : objects) {
      if (object.kind == wanted.kind && object.name == wanted.name) return &object;
    }
    return nullptr;
  };
  const auto said = [&](std::string_view spec) {
    storage::Object object;
    object.kind = "Transfer";
    object.project = "p";
    object.name = "t";
    object.spec = *parse_json(spec);
    const Status checked = all[2].check_beside(object, find);
    return checked.ok() ? "" : checked.error().message;
  };
  const std::string whim =
      said(R"({"from":"ae-fin","to":"eu","ground":"whim","expires":"2027-01-01"})");
  EXPECT_NE(whim.find("none of regime fin (contract)"), std::string::npos) << whim;
  EXPECT_NE(whim.find("falaj zones regimes fin"), std::string::npos) << whim;
  const std::string bare =
      said(R"({"from":"ae-fin","to":"eu","ground":"contract","expires":"2027-01-01"})");
  EXPECT_NE(bare.find("regulator-approval"), std::string::npos) << bare;
  EXPECT_EQ(said(R"({"from":"ae-fin","to":"eu","ground":"contract","expires":"2027-01-01",
                     "evidence":{"regulator-approval":"CB-1"}})"),
            "");
  const std::string below =
      said(R"({"from":"eu-de","to":"ae","ground":"whim","expires":"2027-01-01"})");
  EXPECT_NE(below.find("regime gdpr"), std::string::npos) << "the regime above: " << below;

  // Of a project in ae-fin nothing can cross from anywhere else.
  storage::Object project;
  project.kind = "Project";
  project.name = "p";
  project.spec = *parse_json(R"({"zone":"ae-fin"})");
  objects.push_back(project);
  EXPECT_EQ(said(R"({"from":"ae-fin","to":"eu","ground":"contract","expires":"2027-01-01",
                     "evidence":{"regulator-approval":"CB-1"}})"),
            "");
  const std::string elsewhere =
      said(R"({"from":"ae","to":"eu","ground":"contract","expires":"2027-01-01"})");
  EXPECT_NE(elsewhere.find("set 'from' to 'ae-fin'"), std::string::npos) << elsewhere;
}

TEST(Declarations, a_transfer_is_read_strictly) {
  const auto refused = [](std::string_view spec) {
    storage::Object object;
    object.kind = "Transfer";
    object.project = "p";
    object.name = "t";
    object.spec = *parse_json(spec);
    return !decode_transfer(object).ok();
  };
  EXPECT_FALSE(refused(
      R"({"from":"ae","to":"eu","ground":"contract","expires":"2027-01-01","exits":["export"]})"));
  EXPECT_TRUE(refused(R"({"from":"ae","to":"eu","ground":"contract"})"));
  EXPECT_TRUE(refused(R"({"from":"ae","to":"ae","ground":"c","expires":"2027-01-01"})"));
  EXPECT_TRUE(refused(R"({"from":"ae","to":"eu","ground":"c","expires":"soon"})"));
  EXPECT_TRUE(refused(
      R"({"from":"ae","to":"eu","ground":"c","expires":"2027-01-01","approver":"user:me"})"));
  EXPECT_TRUE(
      refused(R"({"from":"ae","to":"eu","ground":"c","expires":"2027-01-01","exits":["all"]})"));
  EXPECT_TRUE(refused(
      R"({"from":"ae","to":"eu","ground":"c","expires":"2027-01-01","evidence":{"a":""}})"));
}

}  // namespace
}  // namespace falaj::security::residency
