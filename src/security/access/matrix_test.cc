#include "security/access/matrix.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "security/access/access.h"

namespace falaj::security::access {
namespace {

constexpr Timestamp kNow = Timestamp::from_seconds(1'780'000'000);
using State = MatrixInput::Account::State;

storage::Object object(std::string kind, std::string name, const std::string& spec) {
  storage::Object made;
  made.kind = std::move(kind);
  made.name = std::move(name);
  made.spec = parse_json(spec).value();
  return made;
}

MatrixInput small_input() {
  MatrixInput input;
  input.grants = {object("Grant", "editors",
                         R"({"to":["group:risk"],"role":"editor","on":{"project":"payments"}})"),
                  object("Grant", "no-models",
                         R"({"to":["user:alice"],"actions":["models.*"],"effect":"forbid",)"
                         R"("on":{"project":"payments","kind":"Model"}})"),
                  object("Grant", "root",
                         R"({"to":["user:u_root","user:gone"],"role":"admin","on":"platform"})")};
  input.groups = {object("Group", "risk", R"({"members":["user:alice","user:u_left"]})")};
  input.projects = {"payments", "churn"};
  input.accounts = {{"user:u_alice", State::kActive},
                    {"user:u_left", State::kDisabled},
                    {"user:u_none", State::kActive},
                    {"user:u_root", State::kActive}};
  input.resolve = [](const std::string& name) -> std::optional<std::string> {
    if (name == "user:alice") return "user:u_alice";
    if (name == "user:gone") return std::nullopt;
    return name;
  };
  return input;
}

const Value* row_of(const Value& matrix, std::string_view id) {
  for (const Value& row : matrix["decisions"]["principals"].as_array()) {
    if (row.text("id") == id) return &row;
  }
  return nullptr;
}

// The cell of a principal, in a place as it is written in the table.
std::string cell(const Value& matrix, std::string_view id, const std::string& place,
                 std::string_view action) {
  const Value* const row = row_of(matrix, id);
  const auto& places = matrix["decisions"]["places"].as_array();
  for (std::size_t i = 0; row != nullptr && i < places.size(); ++i) {
    if (places[i] != parse_json(place).value()) continue;
    const auto number = std::to_string((*row)["outcomes"].as_array()[i].as_int());
    return matrix["decisions"]["outcomes"][number].text(action);
  }
  return "no such cell";
}

constexpr const char* kPlatform = R"("platform")";
constexpr const char* kPayments = R"({"project":"payments"})";
constexpr const char* kModels = R"({"project":"payments","kind":"Model"})";

TEST(AccessMatrix, says_for_each_principal_what_decide_says) {
  const Value matrix = access_matrix(small_input(), kNow).value();
  EXPECT_EQ(cell(matrix, "user:u_alice", kPayments, "models.write"), "allow permitted editors");
  EXPECT_EQ(cell(matrix, "user:u_alice", kModels, "models.write"), "deny forbidden no-models");
  EXPECT_EQ(cell(matrix, "user:u_alice", kPlatform, "models.write"), "deny no_permit");
  EXPECT_EQ(cell(matrix, "user:u_left", kPayments, "models.write"), "deny expired");
  EXPECT_EQ(cell(matrix, "user:u_none", kPayments, "objects.read"), "deny no_permit");
  EXPECT_EQ(cell(matrix, "user:u_root", kPlatform, "keys.shred"), "allow permitted root");
  EXPECT_EQ(cell(matrix, "group:risk", kPayments, "jobs.submit"), "allow permitted editors");
  EXPECT_EQ(cell(matrix, "everyone", kPayments, "objects.read"), "deny no_permit");
  EXPECT_EQ(cell(matrix, "user:gone", kPlatform, "keys.shred"), "allow permitted root");
  EXPECT_EQ(row_of(matrix, "user:gone")->text("state"), "unknown");
  EXPECT_EQ(matrix["decisions"]["left_out"].integer("principals", -1), 0);
}

TEST(AccessMatrix, holds_no_name_that_no_grant_holds) {
  MatrixInput input = small_input();
  EXPECT_EQ(to_json((*row_of(access_matrix(input, kNow).value(), "user:u_alice"))["named"]),
            R"(["user:alice"])");
  input.grants.clear();
  input.groups.clear();
  const std::string text = to_json(access_matrix(input, kNow).value());
  EXPECT_EQ(text.find("user:alice"), std::string::npos) << text;
}

TEST(AccessMatrix, writes_the_end_of_a_grant_in_utc) {
  MatrixInput input;
  input.grants = {object("Grant", "brief",
                         R"({"to":["everyone"],"role":"viewer","on":"platform",)"
                         R"("expires":"2030-01-01T04:00:00+04:00"})")};
  const Value matrix = access_matrix(input, kNow).value();
  EXPECT_EQ(matrix["grants"].as_array()[0]["spec"].text("expires"), "2030-01-01T00:00:00Z");
  EXPECT_EQ(cell(matrix, "everyone", kPlatform, "objects.read"), "allow permitted brief");
  const Timestamp later = parse_timestamp("2030-01-01T00:00:00Z").value();
  EXPECT_EQ(cell(access_matrix(input, later).value(), "everyone", kPlatform, "objects.read"),
            "deny no_permit");
}

TEST(AccessMatrix, says_what_was_left_out) {
  const Value whole = access_matrix(small_input(), kNow).value();
  const std::size_t places = whole["decisions"]["places"].as_array().size();
  const std::size_t rows = whole["decisions"]["principals"].as_array().size();
  ASSERT_EQ(places, 4u);  // The platform, two projects, the models of one.
  Value cut = access_matrix(small_input(), kNow, {1'000, 2 * places + 1, 2'000}).value();
  EXPECT_EQ(cut["decisions"]["principals"].as_array().size(), 2u);
  EXPECT_EQ(cut["decisions"]["left_out"].integer("principals"), static_cast<int>(rows) - 2);
  EXPECT_NE(row_of(cut, "everyone"), nullptr);
  cut = access_matrix(small_input(), kNow, {1, 100'000, 2'000}).value();
  EXPECT_EQ(cut["decisions"]["left_out"].integer("places"), static_cast<int>(places) - 1);
  cut = access_matrix(small_input(), kNow, {1'000, 100'000, places}).value();
  EXPECT_EQ(cut["decisions"]["principals"].as_array().size(), 1u);
}

TEST(AccessMatrix, is_refused_when_a_grant_cannot_be_read) {
  MatrixInput input = small_input();
  input.grants.push_back(object("Grant", "newer", R"({"to":["everyone"],"role":"oracle"})"));
  EXPECT_FALSE(access_matrix(input, kNow).ok());
}

}  // namespace
}  // namespace falaj::security::access
