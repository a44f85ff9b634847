// launch/listener.h — lets other machines join a launch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/channel.h"
#include "launch/launcher.h"
#include "launch/local_node.h"
#include "launch/rendezvous.h"

namespace falaj::launch {

struct ListenerOptions {
  Endpoint at;
  ChannelOptions channel;
  std::vector<std::string> argv;  // What nodes run that bring no command of their own.
  LocalRankArgument local_rank = LocalRankArgument::kNo;
  std::string own_name = {};  // Of the coordinator's own node; "": it has none.
  // Who was let in by which certificate, and who was not and why. Called by several threads; may be
  // empty.
  std::function<void(std::string_view line)> tell = {};
};

// One thread for those who arrive and one for each node, 1,024 at most, of which 32 may
// still have to prove that they know the secret. Then it is a node of the launcher until it leaves
// or is silent. A second node of one name is refused.
class Listener {
 public:
  // `launcher` and `keys` outlive it.
  static Result<std::unique_ptr<Listener>> start(const ListenerOptions& options, Launcher& launcher,
                                                 Keys& keys);
  virtual ~Listener() = default;  // Closes every connection.
  virtual std::uint16_t port() const = 0;
  // The gang has ended: tells every node how, and they end likewise.
  virtual void finish(const LaunchReport& report) = 0;
};

}  // namespace falaj::launch
