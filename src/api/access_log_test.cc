#include "api/access_log.h"

#include <gtest/gtest.h>

#include <map>

#include "api/testing/caller.h"
#include "base/log.h"

namespace falaj::api {
namespace {

class AccessLog : public ::testing::Test, protected log::Sink {
 protected:
  void SetUp() override { log::set_sink(this, log::Level::kInfo); }
  void TearDown() override { log::set_sink(nullptr, log::Level::kInfo); }
  void write(log::Level, std::string_view event, const std::vector<log::Field>& fields) override {
    EXPECT_EQ(event, "request");
    ++lines_;
    for (const log::Field& field : fields) {
      const auto* text = std::get_if<std::string>(&field.value);
      const auto* number = std::get_if<std::int64_t>(&field.value);
      said_[std::string(field.key)] = text != nullptr     ? *text
                                      : number != nullptr ? std::to_string(*number)
                                                          : "x";
    }
  }
  static net::Request request() {
    net::Request request;
    request.method = net::Method::kPost;
    request.path = "/api/v1/deployments/fraud/customers/alice";
    request.query = "project=pay&name=alice";
    request.headers.emplace_back("X-Request-Id", "alice-7");
    request.request_id = "alice-7";
    request.peer = "192.0.2.7:99";
    request.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    return request;
  }

  std::map<std::string, std::string> said_;
  int lines_ = 0;
};

TEST_F(AccessLog, tells_what_was_asked_of_whom_and_nothing_personal) {
  net::Request asked = request();
  asked.principal = "user:dev";
  asked.caller = testing::developer();
  access_log()({asked, "/api/v1/deployments/{name}", 404, "FJ-5001", 12, 34, 5'000'000});
  ASSERT_EQ(lines_, 1);
  EXPECT_EQ(said_["project"], "pay");
  EXPECT_EQ(said_["who"], "user");
  EXPECT_EQ(said_["method"], "POST");
  EXPECT_EQ(said_["route"], "/api/v1/deployments/{name}");
  EXPECT_EQ(said_["status"], "404");
  EXPECT_EQ(said_["code"], "FJ-5001");
  EXPECT_EQ(said_["bytes_in"], "12");
  EXPECT_EQ(said_["bytes_out"], "34");
  EXPECT_EQ(said_["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_FALSE(said_["request_id"].empty());
  for (const auto& [key, value] : said_) {
    EXPECT_EQ(value.find("alice"), std::string::npos) << key;
    EXPECT_EQ(value.find("user:dev"), std::string::npos) << key;
    EXPECT_EQ(value.find("192.0.2.7"), std::string::npos) << key;
  }
}

TEST_F(AccessLog, names_no_project_for_who_was_not_let_in) {
  const net::Request asked = request();
  access_log()({asked, "unmatched", 401});
  EXPECT_EQ(said_["project"], "");
  EXPECT_EQ(said_["who"], "nobody");
  log::set_sink(this, log::Level::kWarn);
  access_log()({asked, "unmatched", 401});
  EXPECT_EQ(lines_, 1);
}

}  // namespace
}  // namespace falaj::api
