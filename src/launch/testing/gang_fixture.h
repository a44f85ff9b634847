// launch/testing/gang_fixture.h — launches of real processes: workers are bash scripts that print
// what they were told.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "launch/launch.h"

namespace falaj::launch {

class GangTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "falaj_launch_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  LocalNodeOptions bash(const std::string& text) const {
    LocalNodeOptions node;
    if (!text.empty()) node.argv = {"bash", "-c", text};
    node.inherited = {{"PATH", "/usr/bin:/bin"}, {"FOLDER", folder_}};
    node.work_dir = folder_;
    return node;
  }

  LaunchOptions script(const std::string& text, int workers, int restarts = 0) {
    LaunchOptions options;
    options.slots = workers;
    options.launcher.run_id = "test";
    options.launcher.policy.workers_min = options.launcher.policy.workers_max = workers;
    options.launcher.policy.restarts_max = restarts;
    options.launcher.policy.pause_first = Duration::milliseconds(1);
    options.launcher.print = [this](std::string_view line) { note(line); };
    options.launcher.tell = [this](std::string_view line) { told_ += std::string(line) + "\n"; };
    options.node = bash(text);
    return options;
  }

  // Runs it to its end, and `meanwhile` on another thread.
  LaunchReport launch(LaunchOptions options, const std::function<void(Launch&)>& meanwhile = {}) {
    auto run = Launch::create(std::move(options));
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
    if (!run.ok()) return {};
    std::thread other([&] {
      if (meanwhile) meanwhile(**run);
      if (HasFailure()) (*run)->launcher().kill();  // Nobody else may end it then.
    });
    LaunchReport report = (*run)->run();
    other.join();
    return report;
  }

  // Waits until the workers have printed it.
  void expect_printed(const std::string& text) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, std::chrono::seconds(30), [&]() FALAJ_REQUIRES(mutex_) {
      return output_.find(text) != std::string::npos;
    })) << text;
  }
  void touch(const std::string& name) const { std::ofstream(folder_ + "/" + name).put('\n'); }
  std::string output() {
    MutexLock lock(mutex_);
    return output_;
  }
  bool has(const std::string& text) { return output().find(text) != std::string::npos; }

  std::string folder_;
  std::string told_;  // Read when the launch is over.

 private:
  void note(std::string_view line) {
    MutexLock lock(mutex_);
    output_ += line;
    changed_.notify_all();
  }

  Mutex mutex_;
  CondVar changed_;
  std::string output_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::launch
