// net/testing/server_fixture.h — a real server on a free port, for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "net/server.h"
#include "net/testing/raw_socket.h"

namespace falaj::net::testing {

// A folder of its own for each test; removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = ::testing::TempDir() + "/net-XXXXXX";
    path_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~TempFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

 private:
  std::string path_;
};

// Something that one thread waits for and another makes happen.
class Event {
 public:
  void set() {
    MutexLock lock(mutex_);
    happened_ = true;
    condition_.notify_all();
  }
  // False (and a test failure) when it does not come within twenty seconds.
  bool wait() {
    MutexLock lock(mutex_);
    const bool came = condition_.wait_for(mutex_, std::chrono::seconds(20),
                                          [this]() FALAJ_REQUIRES(mutex_) { return happened_; });
    EXPECT_TRUE(came) << "the event did not come";
    return came;
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool happened_ FALAJ_GUARDED_BY(mutex_) = false;
};

class ServerFixture : public ::testing::Test {
 protected:
  // Adds a route that answers `handler`'s reply; change it before start().
  Route route(Method method, std::string_view path, SyncHandler handler) {
    return Route(method, path, Permission::anyone(), Target::nothing(), "A test's route.",
                 std::move(handler));
  }
  void add_on_loop(Method method, std::string_view path, SyncHandler handler) {
    Route added = route(method, path, std::move(handler));
    added.runs_on = RunsOn::kLoop;
    router_.add(std::move(added));
  }
  void add_on_pool(Method method, std::string_view path, SyncHandler handler) {
    router_.add(route(method, path, std::move(handler)));
  }
  void add_hello() {
    add_on_loop(Method::kGet, "/hello", [](const Request&) { return Response::text("hello"); });
  }

  void start() {
    auto started = Server::start(options_, router_, gate_, metrics_);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = std::move(started).value();
  }
  std::uint16_t port() const { return server_->port(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
  // One request on a connection of its own.
  std::string ask(std::string_view text) {
    RawSocket socket(port());
    socket.write(text);
    return socket.reply();
  }

  TempFolder folder_;
  ServerOptions options_;
  Router router_;
  Gate gate_;
  telemetry::Metrics metrics_;
  std::unique_ptr<Server> server_;  // Last: goes first.
};

}  // namespace falaj::net::testing
