// launch/membership.h — who is in the gang, and what is done when that changes: a pure state
// machine.
//
// Events go in (a worker ended, a node came or went, a notice, a rule matched), actions come out
// (start, stop, wait, finish). It keeps no clock and starts nothing, so every history can be
// replayed. Two budgets: crashes are the program's fault, preemptions are the platform's; a worker
// that ends with 75 and a node that joins spend neither.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"

namespace falaj::launch {

// What an exit code of a worker means. Any other code, and death by a signal, is a crash.
inline constexpr int kExitDone = 0;
inline constexpr int kExitReschedule = 75;  // "I have checkpointed, start me again": costs nothing.
inline constexpr int kExitUserError = 77;   // "Trying again will not help."
inline constexpr int kExitPreempted =
    143;  // Of the whole gang: stopped before it could checkpoint.

struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: it exited by itself.
  // As a shell shows it: 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : code; }
  auto operator<=>(const ExitStatus&) const = default;
};

// After a crash: everybody starts anew with new ranks; or the dead alone, for programs that take
// lost peers back by themselves.
enum class OnCrash : std::uint8_t { kRestartAll, kKeepSurvivors };
// kOpen: nodes may join later, so that too few of them are waited for.
enum class Joining : std::uint8_t { kClosed, kOpen };
// What a matching log line does. kRetry and kExcludeNode spend the preemption budget: the line says
// that the machine is at fault.
enum class RuleAction : std::uint8_t { kStop, kRetry, kExcludeNode };

struct Policy {
  int workers_min = 1;
  int workers_max = 1;
  int helpers = 0;  // Processes beside the workers (parameter servers), numbered after them.
  // How a process of so many workers is told of; empty: "worker N".
  std::function<std::string(int process, int world)> called{};
  int restarts_max = 0;      // Crashes that are forgiven.
  int preemptions_max = -1;  // Losses of nodes and retries by rule that are forgiven; -1: all.
  OnCrash on_crash = OnCrash::kRestartAll;
  Joining joining = Joining::kClosed;
  Duration gather = Duration::seconds(1);  // With enough nodes, how long more are waited for.
  // The first restart is at once. One that follows a round shorter than `steady` waits, twice as
  // long each time, up to `pause_max`.
  Duration steady = Duration::seconds(10);
  Duration pause_first = Duration::seconds(1);
  Duration pause_max = Duration::minutes(1);
};

// ---- Events. Those of an attempt that is over are ignored. ----
struct NodeJoined {
  std::string node;
  int slots = 1;  // Workers that it can take.
};
// It is gone with all its workers: silent for too long, or it closed the connection.
struct NodeLost {
  std::string node;
};
// It will be gone soon: everybody is told, checkpoints and starts again without it.
struct NodeNotice {
  std::string node;
};
struct WorkerEnded {
  int attempt = 0;
  int process = 0;  // Rank; past the world, a helper.
  ExitStatus status;
};
struct RuleMatched {
  int attempt = 0;
  int process = 0;
  RuleAction action = RuleAction::kStop;
  std::string rule;
};
struct Notice {};  // The whole gang is to go.
struct Woken {};   // The pause that was asked for is over.
using Event =
    std::variant<NodeJoined, NodeLost, NodeNotice, WorkerEnded, RuleMatched, Notice, Woken>;

// ---- Actions, to be done in order. ----
struct Share {
  std::string node;
  int first_rank = 0;
  int workers = 0;
  bool operator==(const Share&) const = default;
};
struct StartAll {
  int attempt = 0;
  std::vector<Share> shares;  // The longest in the gang first, so that rank 0 stays where it was.
};
struct StartOne {  // The same rank again, in the same attempt.
  int attempt = 0;
  int process = 0;
};
// kNotice: they are told, and get the grace to checkpoint. kQuick: nothing is worth waiting for.
enum class StopWith : std::uint8_t { kQuick, kNotice };
struct StopAll {
  StopWith how = StopWith::kQuick;
};
struct WakeMe {
  Duration after{};
};
struct Say {  // For people: what happened and what follows.
  std::string text;
};
struct Finish {
  int code = 0;
  std::string reason;
};
using Action = std::variant<StartAll, StartOne, StopAll, WakeMe, Say, Finish>;

// The worker that failed first in the newest round that failed.
struct Failure {
  int attempt = 0;
  int process = 0;
  std::string node;
  ExitStatus status;
};

// Not thread-safe. Cost of an event: proportional to the workers.
class Membership {
 public:
  explicit Membership(const Policy& policy) : policy_(policy) {}

  // `now` is monotonic. After Finish there are no more actions.
  std::vector<Action> apply(const Event& event, Timestamp now);

  bool finished() const { return phase_ == Phase::kFinished; }
  int attempt() const { return attempt_; }
  int world() const { return world_; }
  int crashes() const { return crashes_; }
  int preemptions() const { return preemptions_; }
  const std::optional<Failure>& first_failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { kWaiting, kPausing, kRunning, kStopping, kFinished };
  struct Node {
    std::string name;
    int slots = 0;
    bool usable = true;  // False: excluded by a rule, or about to go.
  };

  void on(const NodeJoined& event);
  void on(const NodeLost& event);
  void on(const NodeNotice& event);
  void on(const WorkerEnded& event);
  void on(const RuleMatched& event);
  void on(const Notice& event);
  void on(const Woken& event);

  void crashed(const WorkerEnded& event);
  void restart_one(int process);
  void worker_done();
  void ended_on_notice(const WorkerEnded& event);
  void judge();
  void charge_preemption(StopWith how, const std::string& reason);
  void stop(StopWith how, std::optional<Finish> then);
  void settle();
  void begin_round();
  void start();
  void finish(int code, std::string reason);
  void say(std::string text);
  std::string called(int process) const;
  int capacity() const;  // At most workers_max.
  Duration next_pause();
  Node* find(const std::string& name);
  std::string budgets() const;

  const Policy policy_;
  Phase phase_ = Phase::kWaiting;
  std::vector<Node> nodes_;             // In the order in which they joined.
  std::map<int, std::string> running_;  // Process to node.
  std::set<std::string> excluded_;
  std::set<int> done_;  // Workers of this attempt that ended with 0.
  int attempt_ = -1;
  int world_ = 0;
  int crashes_ = 0;
  int preemptions_ = 0;
  int quick_rounds_ = 0;      // In a row.
  bool noticed_ = false;      // The whole gang is to go.
  bool judged_ = false;       // It was running then: its workers' codes say how it ended.
  bool checkpointed_ = true;  // Since the notice, everybody ended with 0 or 75.
  bool gathered_ = false;
  bool told_waiting_ = false;   // Since the last round.
  std::optional<Finish> then_;  // Once everybody has stopped; nothing: another round.
  std::optional<Failure> failure_;
  Timestamp now_{};
  Timestamp round_began_{};
  std::vector<Action> actions_;
};

}  // namespace falaj::launch
