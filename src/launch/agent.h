// launch/agent.h — this machine as a node of a launch that is coordinated elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launch/channel.h"
#include "launch/local_node.h"

namespace falaj::launch {

struct AgentOptions {
  Endpoint coordinator;
  ChannelOptions channel;
  Duration patience = Duration::minutes(1);  // For the coordinator to be there.
  std::string name;                          // How the node is called.
  int slots = 1;
  // Its argv is used instead of the coordinator's when it has any. An empty host: the address from
  // which the coordinator is reached. An empty folder: a temporary one.
  LocalNodeOptions node;
  std::function<void(std::string_view line)> tell;
};

class Agent {
 public:
  // Joins. kUnavailable, kFailedPrecondition as of Channel::open().
  static Result<std::unique_ptr<Agent>> join(AgentOptions options);
  virtual ~Agent() = default;  // Kills what still runs.
  // Does what the coordinator says until the gang ends: its exit code. Also 0 when this node left
  // after notice(); 1 when the coordinator was lost, its workers having been killed.
  virtual int run() = 0;
  // This machine is to go: the gang checkpoints and goes on without it. Thread-safe.
  virtual void notice() = 0;
  // At once. Thread-safe.
  virtual void kill() = 0;
};

}  // namespace falaj::launch
