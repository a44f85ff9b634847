#include "cli/connection.h"

#include <gtest/gtest.h>

namespace falaj::cli {
namespace {

TEST(Connection, exit_codes_follow_the_class_of_the_error) {
  EXPECT_EQ(exit_code(Code::kNotFound), ExitCode::kNotFound);
  EXPECT_EQ(exit_code(Code::kPermissionDenied), ExitCode::kDenied);
  EXPECT_EQ(exit_code(Code::kUnauthenticated), ExitCode::kDenied);
  EXPECT_EQ(exit_code(Code::kConflict), ExitCode::kConflict);
  EXPECT_EQ(exit_code(Code::kDeadlineExceeded), ExitCode::kTimeout);
  EXPECT_EQ(exit_code(Code::kInternal), ExitCode::kFailed);
}

TEST(Connection, names_are_escaped_in_addresses) {
  EXPECT_EQ(url_encode("customer-activity_1.x~"), "customer-activity_1.x~");
  EXPECT_EQ(url_encode("a/b c?d&e=%"), "a%2Fb%20c%3Fd%26e%3D%25");
  EXPECT_EQ(url_encode("ع"), "%D8%B9");
}

TEST(Connection, nobody_there_is_said_with_the_address) {
  const auto connection = Connection::open({"http://127.0.0.1:1", "default"});
  ASSERT_TRUE(connection.ok());
  const Result<Value> reply = connection.value()->get("/version");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().id, ErrorId::kServerUnreachable);
  EXPECT_NE(reply.error().message.find("127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace falaj::cli
