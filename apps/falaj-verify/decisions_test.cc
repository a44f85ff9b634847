// The server decides, this program decides again: over random grants both must agree in every cell.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/json.h"
#include "parts.h"
#include "security/access/access.h"
#include "security/access/matrix.h"

namespace falaj_verify {
namespace {

namespace access = falaj::security::access;
using falaj::Value;

class Decisions : public testing::Test {
 protected:
  std::size_t pick(std::size_t n) { return random_() % n; }
  template <std::size_t N>
  std::string one(const char* const (&of)[N]) {
    return of[pick(N)];
  }

  Value random_extent() {
    Value on;
    if (pick(5) == 0) return Value("platform");
    if (pick(3) != 0) on["project"] = one({"payments", "churn"});
    if (pick(3) == 0) {
      on["kind"] = one({"Model", "Deployment"});
      if (pick(2) == 0) on["name"] = "fraud";
    }
    if (pick(5) == 0) on["labels"]["team"] = one({"risk", "ops"});
    return on.is_null() ? Value("platform") : on;
  }

  std::string random_subject() {
    return one({"user:u_1", "user:u_2", "user:alice", "user:nobody", "service:s_1", "group:a",
                "group:b", "group:c", "everyone"});
  }

  falaj::storage::Object random_grant(std::size_t number) {
    falaj::storage::Object grant;
    grant.kind = "Grant";
    grant.name = "g" + std::to_string(number);
    for (std::size_t i = 0; i <= pick(2); ++i) grant.spec["to"].push(random_subject());
    const bool forbid = pick(4) == 0;
    if (forbid) grant.spec["effect"] = "forbid";
    if (forbid || pick(2) == 0) {
      grant.spec["actions"].push(one({"jobs.*", "*", "objects.read", "keys.shred", "data.*"}));
    } else {
      grant.spec["role"] = one({"viewer", "editor", "admin", "break-glass", "auditor"});
    }
    grant.spec["on"] = random_extent();
    // One is over, and says so by another clock than UTC; one ends later.
    if (pick(5) == 0) grant.spec["expires"] = "2026-11-16T12:00:00+04:00";
    if (pick(5) == 0) grant.spec["expires"] = "2027-01-01";
    return grant;
  }

  access::MatrixInput random_input() {
    using State = access::MatrixInput::Account::State;
    access::MatrixInput input;
    for (std::size_t i = 0; i < 1 + pick(8); ++i) input.grants.push_back(random_grant(i));
    for (const char* const name : {"a", "b", "c"}) {
      falaj::storage::Object group;
      group.kind = "Group";
      group.name = name;
      group.spec["members"] = Value::array();
      for (std::size_t i = 0; i < pick(3); ++i) {
        const std::string member = random_subject();
        if (member != "everyone") group.spec["members"].push(member);
      }
      input.groups.push_back(group);
    }
    input.projects = {"payments"};  // Grants may name one that nobody declared.
    input.accounts = {
        {"user:u_1", State::kActive}, {"user:u_2", State::kDisabled}, {"user:u_3", State::kActive}};
    input.built_in = {access::local_developer()};
    input.resolve = [](const std::string& name) -> std::optional<std::string> {
      if (name == "user:alice") return "user:u_3";
      if (name == "user:nobody") return std::nullopt;
      return name;
    };
    return input;
  }

  static std::string judged(const Value& matrix) {
    return check_decisions(parse_json(falaj::to_json(matrix)).value());
  }

  const falaj::Timestamp now_ = falaj::parse_timestamp("2026-11-16T08:00:00.001Z").value();
  std::mt19937_64 random_{20'261'118};
};

TEST_F(Decisions, of_the_server_are_decided_alike_here) {
  std::set<std::string> kinds;  // Of cells: each must have come up.
  for (int i = 0; i < 400; ++i) {
    const Value matrix = access::access_matrix(random_input(), now_).value();
    ASSERT_EQ(judged(matrix), "") << falaj::to_json(matrix);
    for (const auto& [number, outcome] : matrix["decisions"]["outcomes"].as_object()) {
      for (const auto& [action, cell] : outcome.as_object()) {
        const std::string& text = cell.as_string();
        kinds.insert(text.substr(0, text.find(' ', 6)));
      }
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"allow permitted", "deny expired", "deny forbidden",
                                          "deny no_permit", "deny reason_missing"}));
}

TEST_F(Decisions, are_found_out_in_every_single_cell_that_is_forged) {
  std::size_t cells = 0;
  for (int i = 0; i < 5; ++i) {
    const Value matrix = access::access_matrix(random_input(), now_).value();
    for (const auto& [number, outcome] : matrix["decisions"]["outcomes"].as_object()) {
      for (const auto& [action, cell] : outcome.as_object()) {
        Value forged = matrix;
        const bool allowed = cell.as_string().starts_with("allow");
        forged["decisions"]["outcomes"][number][action] =
            allowed ? "deny no_permit" : "allow permitted g0";
        ASSERT_NE(judged(forged), "") << number << " " << action;
        ++cells;
      }
    }
  }
  EXPECT_GT(cells, 500u);
}

TEST_F(Decisions, of_a_table_with_a_hole_do_not_hold) {
  const Value matrix = access::access_matrix(random_input(), now_).value();
  for (const char* const part : {"at", "places", "principals", "outcomes"}) {
    Value holed = matrix;
    holed["decisions"].as_object().erase(part);
    EXPECT_NE(judged(holed), "") << part;
  }
  Value holed = matrix;
  holed["decisions"]["places"].as_array().pop_back();
  EXPECT_NE(judged(holed), "");
  holed.as_object().erase("decisions");
  EXPECT_NE(judged(holed), "");
  holed = matrix;
  holed["roles"].as_object().erase("admin");
  EXPECT_NE(judged(holed), "") << "no action is decided on";
}

TEST_F(Decisions, of_a_place_that_was_dropped_with_its_column_are_missed) {
  std::size_t dropped = 0;
  for (int i = 0; i < 40; ++i) {
    const access::MatrixInput input = random_input();
    const Value matrix = access::access_matrix(input, now_).value();
    const auto& places = matrix["decisions"]["places"].as_array();
    for (std::size_t at = 0; at < places.size(); ++at) {
      // What a living grant names, or the platform.
      bool needed = at == 0;
      for (const auto& grant : input.grants) {
        const bool over = grant.spec.text("expires").starts_with("2026");
        needed = needed || (!over && grant.spec["on"] == places[at]);
      }
      if (!needed) continue;
      Value forged = matrix;
      Value& table = forged["decisions"];
      const auto drop = [at](Value& list) {
        auto& items = list.as_array();
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      };
      drop(table["places"]);
      for (Value& principal : table["principals"].as_array()) drop(principal["outcomes"]);
      ASSERT_NE(judged(forged), "") << at << falaj::to_json(matrix);
      ++dropped;
      if (at == 0) continue;
      table["left_out"]["places"] = 1;
      ASSERT_EQ(judged(forged), "") << "it says so";
    }
  }
  EXPECT_GT(dropped, 60u);
}

TEST_F(Decisions, of_an_action_that_was_dropped_are_missed) {
  const auto drop = [](Value& list, const std::string& action) {
    std::erase_if(list.as_array(), [&](const Value& each) { return each == Value(action); });
  };
  access::MatrixInput input = random_input();
  falaj::storage::Object grant = random_grant(9);
  grant.spec = Value::object();
  grant.spec["to"].push("user:u_1");
  grant.spec["actions"].push("jobs.submit");
  grant.spec["on"] = "platform";
  input.grants = {grant};  // No other names an action.
  const Value matrix = access::access_matrix(input, now_).value();
  ASSERT_EQ(judged(matrix), "");
  for (const char* const action : {"jobs.submit", "keys.shred"}) {
    Value forged = matrix;
    for (auto& [number, outcome] : forged["decisions"]["outcomes"].as_object()) {
      ASSERT_EQ(outcome.as_object().erase(action), 1u) << action;
    }
    Value holed = forged;
    EXPECT_NE(judged(holed), "") << "the column alone";
    drop(forged["roles"]["admin"], action);
    EXPECT_NE(judged(forged), "") << action << " of another role";
    for (auto& [role, actions] : forged["roles"].as_object()) drop(actions, action);
    for (Value& each : forged["built_in"].as_array()) drop(each["spec"]["actions"], action);
    EXPECT_EQ(judged(forged).empty(), action != std::string("jobs.submit")) << "named by a grant";
  }
  Value wider = matrix;
  drop(wider["roles"]["admin"], "keys.shred");
  EXPECT_NE(judged(wider), "") << "the list alone";
}

TEST_F(Decisions, of_a_grant_whose_end_cannot_be_read_are_malformed) {
  access::MatrixInput input = random_input();
  input.grants[0].spec["expires"] = "";
  ASSERT_EQ(judged(access::access_matrix(input, now_).value()), "") << "it has none";
  const Value matrix = access::access_matrix(input, now_).value();
  for (const Value& end : {Value("soon"), Value(7), Value(true), Value("2026-02-31T00:00:00Z"),
                           Value("2026-11-16T12:00:00+04:00")}) {
    Value forged = matrix;
    forged["grants"].as_array()[0]["spec"]["expires"] = end;
    EXPECT_EQ(judged(forged), "it is malformed") << falaj::to_json(end);
  }
}

}  // namespace
}  // namespace falaj_verify
