// launch/launch.h — `falaj launch` on this machine: a launcher with what it needs around it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/channel.h"
#include "launch/launcher.h"
#include "launch/local_node.h"

namespace falaj::launch {

struct ListenOptions {
  Endpoint at;  // Port 0: a free one.
  ChannelOptions channel;
  std::function<void(std::string_view line)> tell = {};  // As ListenerOptions::tell.
};

struct LaunchOptions {
  LauncherOptions launcher;
  LocalNodeOptions node;      // An empty folder: a temporary one, removed at the end.
  int slots = 1;              // Workers that this machine takes; 0: it only coordinates.
  std::string name = "this";  // Of this machine, in messages.
  // With it other machines may join, and too few of them are waited for.
  std::optional<ListenOptions> listen;
};

// Not thread-safe but for launcher().
class Launch {
 public:
  // kNotFound for a missing program, kInvalidArgument for a host that is not this machine's or
  // counts out of bounds. Nothing is started yet.
  static Result<std::unique_ptr<Launch>> create(LaunchOptions options);
  virtual ~Launch() = default;
  virtual Launcher& launcher() = 0;
  // Where other machines join; 0 without LaunchOptions::listen.
  virtual std::uint16_t port() const = 0;
  // Returns when the gang has ended.
  virtual LaunchReport run() = 0;
};

// A folder of its own under TMPDIR for one launch, removed when dropped.
class LaunchFolder {
 public:
  static Result<LaunchFolder> create();
  // A folder that somebody else owns.
  static LaunchFolder given(std::string path) { return LaunchFolder(std::move(path), ""); }
  LaunchFolder(LaunchFolder&& other) noexcept;
  LaunchFolder& operator=(LaunchFolder&&) = delete;
  ~LaunchFolder();
  const std::string& path() const { return path_; }

 private:
  LaunchFolder(std::string path, std::string owned)
      : path_(std::move(path)), owned_(std::move(owned)) {}
  std::string path_;
  std::string owned_;  // "": not removed.
};

}  // namespace falaj::launch
