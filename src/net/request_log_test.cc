#include "net/internal/request_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "base/log.h"
#include "net/testing/server_fixture.h"

namespace falaj::net {
namespace {

using namespace testing;

struct Line {
  log::Level level;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;

  std::string field(std::string_view name) const {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& field) { return field.first == name; });
    return found == fields.end() ? "none" : found->second;
  }
};

class KeepingSink final : public log::Sink {
 public:
  void write(log::Level level, std::string_view event,
             const std::vector<log::Field>& fields) override {
    Line line{level, std::string(event), {}};
    for (const log::Field& field : fields) {
      const auto* text = std::get_if<std::string>(&field.value);
      const auto* number = std::get_if<std::int64_t>(&field.value);
      line.fields.emplace_back(field.key, text != nullptr     ? *text
                                          : number != nullptr ? std::to_string(*number)
                                                              : "x");
    }
    MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
  }
  // What was said about requests.
  std::vector<Line> lines() {
    MutexLock lock(mutex_);
    std::vector<Line> about = lines_;
    std::erase_if(about, [](const Line& line) { return !line.event.starts_with("request "); });
    return about;
  }

 private:
  Mutex mutex_;
  std::vector<Line> lines_ FALAJ_GUARDED_BY(mutex_);
};

class RequestLogTest : public ServerFixture {
 protected:
  void begin(log::Level least) {
    add_on_loop(Method::kGet, "/things/{id}",
                [](const Request&) { return Response::text("thing"); });
    add_on_pool(Method::kGet, "/lost/{id}", [](const Request& request) {
      return problem(Error(ErrorId::kDataLoss, "gone"), request);
    });
    add_on_pool(Method::kGet, "/throws",
                [](const Request&) -> Response { throw std::runtime_error("/srv/secret/place"); });
    log::set_sink(&sink_, least);
    start();
  }
  void TearDown() override {
    server_.reset();
    log::set_sink(nullptr, log::Level::kInfo);
  }
  static constexpr const char* kIds =
      "X-Request-Id: r-7\r\n"
      "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";

  KeepingSink sink_;
};

TEST_F(RequestLogTest, warns_of_every_failure_and_of_nothing_else) {
  begin(log::Level::kInfo);
  ask(request_text("GET /things/4242"));
  ask(request_text("GET /nothing"));
  ask(request_text("GET /lost/4242", kIds));
  const std::vector<Line> lines = sink_.lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].level, log::Level::kWarn);
  EXPECT_EQ(lines[0].event, "request failed");
  EXPECT_EQ(lines[0].field("request_id"), "r-7");
  EXPECT_EQ(lines[0].field("trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(lines[0].field("route"), "/lost/{id}");
  EXPECT_EQ(lines[0].field("status"), "500");
  EXPECT_EQ(lines[0].field("code"), to_string(ErrorId::kDataLoss));
}

TEST_F(RequestLogTest, tells_of_each_request_at_level_debug) {
  begin(log::Level::kDebug);
  ask(request_text("GET /things/4242", kIds));
  ask(request_text("GET /nothing"));
  const std::vector<Line> lines = sink_.lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].level, log::Level::kDebug);
  EXPECT_EQ(lines[0].event, "request answered");
  EXPECT_EQ(lines[0].field("request_id"), "r-7");
  EXPECT_EQ(lines[0].field("trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(lines[0].field("route"), "/things/{id}");
  EXPECT_EQ(lines[0].field("status"), "200");
  EXPECT_EQ(lines[0].field("ms"), "x");
  EXPECT_EQ(lines[1].field("route"), "unmatched");
  EXPECT_EQ(lines[1].field("status"), "404");
}

TEST_F(RequestLogTest, tells_whoever_listens_of_every_answer) {
  Mutex mutex;
  std::vector<std::string> told;
  options_.on_answered = [&](const Answered& answered) {
    MutexLock lock(mutex);
    told.push_back(std::string(answered.route) + " " + std::to_string(answered.status) + " " +
                   std::string(answered.code) + " " + std::to_string(answered.bytes_in) + " " +
                   std::to_string(answered.bytes_out));
    EXPECT_GE(answered.nanos, 0);
  };
  begin(log::Level::kError);
  ask(request_text("GET /things/4242"));
  ask(request_text("GET /nothing"));
  ask(request_text("GET /lost/4242"));
  MutexLock lock(mutex);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0], "/things/{id} 200  0 5");
  EXPECT_TRUE(told[1].starts_with("unmatched 404 ")) << told[1];
  EXPECT_TRUE(told[2].starts_with("/lost/{id} 500 FJ-")) << told[2];
}

TEST_F(RequestLogTest, what_a_handler_threw_is_not_told_to_the_client) {
  begin(log::Level::kInfo);
  const std::string reply = ask(request_text("GET /throws"));
  EXPECT_EQ(status_of(reply), 500);
  EXPECT_EQ(reply.find("secret"), std::string::npos) << reply;
  ASSERT_EQ(sink_.lines().size(), 1U);
  EXPECT_EQ(sink_.lines()[0].field("code"), to_string(ErrorId::kInternal));
}

}  // namespace
}  // namespace falaj::net
