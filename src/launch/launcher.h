// launch/launcher.h — runs a gang to its end: starts, watches, restarts by Membership's rules.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launch/log_rules.h"
#include "launch/membership.h"
#include "launch/node.h"

namespace falaj::launch {

struct LauncherOptions {
  std::string run_id;
  Policy policy;  // Its helpers follow from `servers`, or with its workers from `groups`.
  int servers = 0;
  std::vector<Group> groups{};  // check_groups() let them pass; empty: workers that are all alike.
  Duration grace = Duration::seconds(30);  // From a notice to SIGKILL.
  LogRules rules;
  // What workers print, as "[rank] line\n". Called on many threads, one call at a time; may block.
  std::function<void(std::string_view text)> print;
  // What happens, one line for people. Called on the thread of run().
  std::function<void(std::string_view line)> tell;
  // Before each attempt, for what belongs to one gang (keys of the rendezvous).
  std::function<void()> before_attempt;
};

// How one attempt went.
struct AttemptReport {
  int attempt = 0;
  int world = 0;
  Duration lasted{};
  std::optional<ProcessEnd> first_failure;
  std::string failed_on;       // The node of it, …
  std::string failed_group{};  // … with groups its own, "" without, …
  int failed_rank = -1;        // … and of a worker its rank.
};

struct LaunchReport {
  int code = 0;  // membership.h: 0, 75, 77, 143, or that of the worker that failed.
  std::string reason;
  int crashes = 0;
  int preemptions = 0;
  std::vector<AttemptReport> attempts;  // The last 100.
};
Value to_value(const LaunchReport& report);
// Which worker failed first, how, and what it printed last; "" when nothing failed.
std::string post_mortem(const AttemptReport& attempt);

// Everything but run() is thread-safe and returns at once.
class Launcher {
 public:
  explicit Launcher(LauncherOptions options);
  ~Launcher();  // Kills what still runs.

  // What nodes report to: give it to make_local_node() and its like, each under the node's name.
  NodeEvents events_for(const std::string& node);
  // Takes the node into the gang. Names are unique; a name that was lost may come again.
  void join(const std::string& name, int slots, std::unique_ptr<Node> node);
  void lose(const std::string& name);
  void node_notice(const std::string& name);

  // The gang is to go: every worker is told and has the grace to checkpoint.
  void notice();
  // The gang is to go at once.
  void kill();

  // Returns when the gang has ended. Once.
  LaunchReport run();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace falaj::launch
