// Ten thousand clients at once: the server holds them all, answers each, refuses the one too many.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include "net/server.h"
#include "net/testing/raw_socket.h"

namespace falaj::net {
namespace {

using testing::RawSocket;

constexpr std::size_t kWanted = 10'000;
constexpr std::size_t kSpare = 200;  // Descriptors for everything else.

// How many connections this process may hold, after asking for as many as it is allowed.
std::size_t connections_possible() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t most = limit.rlim_cur;
  return most <= kSpare ? 0 : std::min(kWanted, most - kSpare);
}

// Serves until `until_closed` ends; its port goes to `port_to`. Runs in a process of its own, for
// both ends of every connection would not fit into one process's limit.
[[noreturn]] void serve(std::size_t connections_max, int port_to, int until_closed) {
  Router router;
  Route route(Method::kGet, "/hello", Permission::anyone(), Target::nothing(), "Says hello.",
              [](const Request&) { return Response::text("hello"); });
  route.runs_on = RunsOn::kLoop;
  router.add(std::move(route));
  telemetry::Metrics metrics;
  ServerOptions options;
  options.connections_max = connections_max;
  {
    const auto server = Server::start(options, router, nullptr, metrics);
    if (!server.ok()) ::_exit(1);
    const std::uint16_t port = server.value()->port();
    if (::write(port_to, &port, sizeof port) != sizeof port) ::_exit(1);
    char byte = 0;
    while (::read(until_closed, &byte, 1) > 0) {
    }
  }
  ::_exit(0);
}

class ServerProcess {
 public:
  explicit ServerProcess(std::size_t connections_max) {
    int port_pipe[2] = {-1, -1};
    int end_pipe[2] = {-1, -1};
    EXPECT_EQ(::pipe(port_pipe), 0);
    EXPECT_EQ(::pipe(end_pipe), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(port_pipe[0]);
      ::close(end_pipe[1]);
      serve(connections_max, port_pipe[1], end_pipe[0]);
    }
    ::close(port_pipe[1]);
    ::close(end_pipe[0]);
    end_ = end_pipe[1];
    EXPECT_EQ(::read(port_pipe[0], &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
    ::close(port_pipe[0]);
  }
  std::uint16_t port() const { return port_; }

  std::size_t resident_kib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    status >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
  }

  // The exit status after it was told to end.
  int end() {
    ::close(end_);
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  int end_ = -1;
};

TEST(Connections, ten_thousand_are_held_and_answered_and_one_more_is_refused) {
  const std::size_t count = connections_possible();
  if (count < 100) GTEST_SKIP() << "the limit on open files allows only " << count;
  if (count < kWanted) std::printf("limit on open files: %zu of %zu connections\n", count, kWanted);
  ServerProcess server(count);
  const std::size_t before = server.resident_kib();
  const std::string request = testing::request_text("GET /hello");

  std::vector<std::unique_ptr<RawSocket>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<RawSocket>(server.port()));
    ASSERT_TRUE(clients.back()->connected()) << i;
  }
  // Twice around: each is answered, stays open, and is answered again.
  for (int round = 0; round < 2; ++round) {
    for (const auto& client : clients) ASSERT_TRUE(client->write(request));
    std::size_t answered = 0;
    for (const auto& client : clients) {
      if (testing::body_of(client->reply()) == "hello") ++answered;
    }
    ASSERT_EQ(answered, count);
  }
  std::printf("%zu connections cost the server %zu KiB\n", count, server.resident_kib() - before);

  RawSocket one_more(server.port());
  EXPECT_EQ(testing::status_of(one_more.rest()), 503);

  clients.clear();
  // The places come back once the server has seen the clients go.
  int status = 0;
  for (int i = 0; i < 100'000 && status != 200; ++i) {
    RawSocket again(server.port());
    again.write(request);
    status = testing::status_of(again.reply());
  }
  EXPECT_EQ(status, 200);
  EXPECT_EQ(server.end(), 0);
}

}  // namespace
}  // namespace falaj::net
