#include "app/residency_gate.h"

#include <gtest/gtest.h>

#include "security/residency/testing/zone_world.h"

namespace falaj::app {
namespace {

using security::Principal;
using security::PrincipalKind;
using security::residency::ZoneWorld;

class ResidencyGate : public ::testing::Test {
 protected:
  Result<std::function<void(std::size_t)>> ask(const std::string& project, const std::string& peer,
                                               net::Gives gives = net::Gives::kAnswer) {
    net::Route route(net::Method::kGet, "/x", net::Permission("features.read"),
                     net::Target::in_project("FeatureView"), "A test's.",
                     [](const net::Request&) { return net::Response::text(""); });
    route.gives = gives;
    net::Request request;
    request.peer = peer;
    return admit(*world_.exits, {route, request, {project, "FeatureView", "", nullptr}, caller_});
  }
  std::string words(const std::string& project, const std::string& peer) {
    const auto asked = ask(project, peer);
    return asked.ok() ? "" : asked.error().message;
  }

  ZoneWorld world_;
  Principal caller_{PrincipalKind::kUser, "user:u_1", "alice"};
};

constexpr const char* kElsewhere = "10.1.2.3";
constexpr const char* kHere = "127.0.0.1";

TEST_F(ResidencyGate, a_caller_whose_place_nobody_declared_is_told_how_it_is_declared) {
  EXPECT_TRUE(ask("p-ae-fin", kHere).ok()) << "who sits on the machine is on it";
  EXPECT_NE(words("p-ae-fin", kElsewhere).find("falaj users zone alice ae-fin"), std::string::npos)
      << words("p-ae-fin", kElsewhere);
  caller_ = {PrincipalKind::kService, "service:s_1", "scorer"};
  EXPECT_NE(words("p-ae-fin", kElsewhere).find("falaj users zone service:scorer ae-fin"),
            std::string::npos);
  caller_ = {PrincipalKind::kUser, "user:o_1", "bob", {"risk"}};
  EXPECT_NE(words("p-ae-fin", kElsewhere).find("falaj groups zone risk ae-fin"), std::string::npos);
}

TEST_F(ResidencyGate, a_declared_zone_decides_wherever_the_call_comes_from) {
  caller_.zone = Zone("ae-fin");
  EXPECT_TRUE(ask("p-ae-fin", kElsewhere).ok());
  EXPECT_TRUE(ask("p-ae", kElsewhere).ok()) << "ae-fin lies inside ae";
  caller_.zone = Zone("eu");
  EXPECT_EQ(ask("p-ae-fin", kElsewhere).error().id, ErrorId::kZoneRefused);
  EXPECT_EQ(ask("p-ae-fin", kHere).error().id, ErrorId::kZoneRefused);
  EXPECT_EQ(words("p-ae-fin", kElsewhere).find("falaj users zone"), std::string::npos)
      << "there is nothing to declare";
}

TEST_F(ResidencyGate, groups_that_disagree_let_nothing_through) {
  caller_.zone = Zone("ae-fin+eu");
  EXPECT_NE(words("p-ae-fin", kElsewhere).find("your groups name several zones"),
            std::string::npos);
  EXPECT_FALSE(ask("p-eu", kElsewhere).ok());
  EXPECT_FALSE(ask("p-eu", kHere).ok());
}

TEST_F(ResidencyGate, files_are_counted_as_exports) {
  caller_.zone = Zone("eu");
  const auto sent = ask("p-eu", kElsewhere, net::Gives::kFile);
  ASSERT_TRUE(sent.ok());
  (*sent)(1234);
  const auto rows = world_.exits->ledger("p-eu").value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].exit, "export");
  EXPECT_EQ(rows[0].bytes, 1234);
}

TEST_F(ResidencyGate, a_file_has_its_entry_before_it_leaves) {
  caller_.zone = Zone("eu");
  const auto entries = [this] { return world_.audit->head()->sequence; };
  const std::int64_t before = entries();
  EXPECT_FALSE(ask("p-ae-fin", kElsewhere, net::Gives::kFile).ok());
  EXPECT_EQ(entries(), before + 1) << "no tick was needed";
  EXPECT_FALSE(ask("p-ae-fin", kElsewhere, net::Gives::kAnswer).ok());
  EXPECT_EQ(entries(), before + 1) << "an answer's entry comes with the next tick";
  // Under a transfer, and the log cannot be written: nothing leaves.
  world_.declare_transfer("user:a", "p-ae", "t1", "ae", "eu");
  ASSERT_TRUE(world_.exits->approve(world_.context("p-ae", "user:officer"), "t1").ok());
  caller_.zone = Zone("eu");
  ASSERT_TRUE(ask("p-ae", kElsewhere, net::Gives::kFile).ok());
  EXPECT_GT(entries(), before + 1);
  ASSERT_TRUE(world_.sql
                  ->write([](storage::SqlTransaction& tx) -> Status {
                    FALAJ_TRY(
                        tx.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT "
                                   "RAISE(ABORT, 'no'); END"));
                    return {};
                  })
                  .ok());
  EXPECT_EQ(ask("p-ae", kElsewhere, net::Gives::kFile).error().id, ErrorId::kAuditUnavailable);
}

TEST_F(ResidencyGate, rows_of_lists_follow_the_same_rule_and_leave_no_trace) {
  const auto far = [this](const std::string& project, const char* peer,
                          const std::string& object = "") {
    return !out_of_reach(*world_.exits, {project, object}, caller_, peer).empty();
  };
  EXPECT_TRUE(far("p-ae-fin", kElsewhere));
  EXPECT_FALSE(far("p-ae-fin", kHere));
  caller_.zone = Zone("eu");
  EXPECT_FALSE(far("p-eu", kElsewhere));
  EXPECT_TRUE(far("p-ae", kElsewhere));
  EXPECT_TRUE(world_.exits->ledger("").value().empty());
}

}  // namespace
}  // namespace falaj::app
