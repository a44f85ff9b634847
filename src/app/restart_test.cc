#include "app/restart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace falaj::app {
namespace {

TEST(Listeners, are_for_the_process_they_were_left_to) {
  const ListenerNumbers numbers{12, -1};
  EXPECT_EQ(parse_listeners(to_text(4711, numbers), 4711), numbers);
  EXPECT_EQ(parse_listeners(to_text(4711, numbers), 4712), std::nullopt);
  for (const char* damaged : {"", "4711", "4711 http=1", "4711 grpc=1 http=2", "x http=1 grpc=2",
                              "4711 http=1 grpc=", "4711 http=1x grpc=2", "4711 http=1 grpc=2 3",
                              "4711 http=99999999999 grpc=2"}) {
    EXPECT_EQ(parse_listeners(damaged, 4711), std::nullopt) << damaged;
  }
}

TEST(Listeners, are_taken_out_of_the_environment_and_kept_from_children) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const std::string text = to_text(::getpid(), {pipe[0], pipe[1]});
  ::setenv("FALAJ_INHERITED_SOCKETS", text.c_str(), 1);
  const Listeners taken = take_listeners();
  EXPECT_EQ(taken.http.get(), pipe[0]);
  EXPECT_EQ(taken.grpc.get(), pipe[1]);
  EXPECT_EQ(std::getenv("FALAJ_INHERITED_SOCKETS"), nullptr);
  EXPECT_NE(::fcntl(pipe[0], F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_FALSE(take_listeners().http.valid());
}

TEST(Listeners, that_are_no_open_descriptors_are_none) {
  const std::string text = to_text(::getpid(), {1, 1'000'000});
  ::setenv("FALAJ_INHERITED_SOCKETS", text.c_str(), 1);
  const Listeners taken = take_listeners();
  EXPECT_FALSE(taken.http.valid()) << "standard output is nobody's to take";
  EXPECT_FALSE(taken.grpc.valid());
}

TEST(Successor, is_what_this_process_was_started_as) {
  const Result<Successor> next = successor();
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_TRUE(std::filesystem::equivalent(next->program, "/proc/self/exe"));
  ASSERT_FALSE(next->words.empty());
}

TEST(Schema, is_told_on_a_line_of_its_own) {
  EXPECT_EQ(schema_of("falaj 0.1.0 would start\nschema 61\n").value_or(0), 61U);
  EXPECT_EQ(schema_of("schema 7").value_or(0), 7U);
  for (const char* other : {"", "no schema 7", "schema x\n", "schema 7 8\n"}) {
    EXPECT_FALSE(schema_of(other).ok()) << other;
  }
}

// Successors are scripts here: what they say is all that counts.
class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    std::string name = ::testing::TempDir() + "/restart-XXXXXX";
    folder_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~CheckTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Status check_script(const std::string& body) {
    const std::string path = folder_ + "/next";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return check({path, {"falaj", "serve", "--data", "x"}}, 5);
  }
  std::string folder_;
};

TEST_F(CheckTest, passes_a_program_that_says_it_would_start_and_knows_enough) {
  const Status asked = check_script(R"([ "$*" = "serve --data x --check" ] && echo "schema 5")");
  EXPECT_TRUE(asked.ok()) << asked.error().message;
  EXPECT_TRUE(check_script("echo schema 6").ok());
}

TEST_F(CheckTest, refuses_what_is_older_fails_says_nothing_or_is_not_there) {
  const auto why = [](const Status& status) { return status.ok() ? "" : status.error().message; };
  EXPECT_NE(why(check_script("echo schema 4")).find("knows 4 of the 5"), std::string::npos);
  EXPECT_NE(why(check_script("echo bad setting; exit 1")).find("bad setting"), std::string::npos);
  EXPECT_FALSE(check_script("true").ok());
  EXPECT_FALSE(check({folder_ + "/missing", {"falaj"}}, 5).ok());
}

TEST_F(CheckTest, what_cannot_be_run_leaves_everything_as_it_was) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Listeners listeners{Descriptor(pipe[0]), Descriptor(pipe[1])};
  const Error error = become({folder_ + "/missing", {"falaj"}}, listeners);
  EXPECT_NE(error.message.find("missing"), std::string::npos);
  EXPECT_NE(::fcntl(pipe[0], F_GETFD) & FD_CLOEXEC, 0) << "a child of now must not have it";
}

}  // namespace
}  // namespace falaj::app
