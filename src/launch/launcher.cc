#include "launch/launcher.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/units.h"

namespace falaj::launch {
namespace {

constexpr std::size_t kReportsKept = 100;

Timestamp monotonic_now() { return {monotonic_nanos()}; }

struct Arrived {
  std::string name;
  int slots = 0;
  std::unique_ptr<Node> node;
};
struct Ended {
  std::string node;
  ProcessEnd end;
};
struct KillAll {};
using Mail = std::variant<Arrived, Ended, Event, KillAll>;

// Bounded by what can happen: a few messages for each worker and node that there is.
class Mailbox {
 public:
  void post(Mail mail) {
    {
      MutexLock lock(mutex_);
      mails_.push_back(std::move(mail));
    }
    arrived_.notify_one();
  }
  // The next, or nothing when `until` has come.
  std::optional<Mail> take(Timestamp until) {
    MutexLock lock(mutex_);
    const auto some = [this]() FALAJ_REQUIRES(mutex_) { return !mails_.empty(); };
    if (until == Timestamp::max()) {
      arrived_.wait(mutex_, some);
    } else {
      const Duration left = until - monotonic_now();
      arrived_.wait_for(mutex_, std::chrono::nanoseconds(std::max<std::int64_t>(left.nanos, 0)),
                        some);
    }
    if (mails_.empty()) return std::nullopt;
    Mail mail = std::move(mails_.front());
    mails_.pop_front();
    return mail;
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::deque<Mail> mails_ FALAJ_GUARDED_BY(mutex_);
};

LauncherOptions prepared(LauncherOptions options) {
  Policy& policy = options.policy;
  policy.helpers = options.servers > 0 ? options.servers + 1 : 0;
  if (options.groups.empty()) return options;
  options.groups = in_order(std::move(options.groups));
  options.servers = 0;
  for (const Group& group : options.groups) {
    if (group.role == Role::kServer) options.servers += group.min;
  }
  policy.helpers = helpers_of(options.groups);
  policy.workers_min = workers_min(options.groups);
  policy.workers_max = workers_max(options.groups);
  policy.called = [groups = options.groups](int process, int world) {
    const std::string rank = process < world ? " (rank " + std::to_string(process) + ")" : "";
    return process_name(counted(groups, world), process) + rank;
  };
  return options;
}

std::string describe(const ExitStatus& status) {
  if (status.signal != 0) return "killed by signal " + std::to_string(status.signal);
  return "exit code " + std::to_string(status.code);
}

}  // namespace

class Launcher::Loop {
 public:
  explicit Loop(LauncherOptions options)
      : options_(prepared(std::move(options))), membership_(options_.policy) {}

  void post(Mail mail) { mailbox_.post(std::move(mail)); }

  NodeEvents events_for(const std::string& node) {
    NodeEvents events;
    events.printed = [this](const Printed& printed) { on_printed(printed); };
    events.ended = [this, node](ProcessEnd end) { post(Ended{node, std::move(end)}); };
    return events;
  }

  LaunchReport run() {
    wake_at_ = monotonic_now();  // After the mail that is there: says what is waited for.
    while (!membership_.finished()) {
      std::optional<Mail> mail = mailbox_.take(std::min(wake_at_, kill_at_));
      if (mail) {
        std::visit([this](auto& each) { on(each); }, *mail);
      } else {
        on_time(monotonic_now());
      }
    }
    nodes_.clear();
    report_.crashes = membership_.crashes();
    report_.preemptions = membership_.preemptions();
    return std::move(report_);
  }

 private:
  void on(Arrived& arrived) {
    const std::string name = arrived.name;
    nodes_[name] = std::move(arrived.node);
    apply(NodeJoined{name, arrived.slots});
  }

  void on(Ended& ended) {
    const ProcessEnd& end = ended.end;
    if (end.attempt == membership_.attempt() && nodes_.contains(ended.node)) {
      ends_[end.process] = end;
    }
    apply(WorkerEnded{end.attempt, end.process, end.status});
  }

  void on(Event& event) {
    apply(event);
    if (const auto* lost = std::get_if<NodeLost>(&event)) nodes_.erase(lost->node);
  }

  void on(KillAll&) {
    apply(Notice{});
    for (const auto& [name, node] : nodes_) node->kill();
  }

  void on_time(Timestamp now) {
    if (now >= kill_at_) {
      kill_at_ = Timestamp::max();
      for (const auto& [name, node] : nodes_) node->kill();
    }
    if (now >= wake_at_) {
      wake_at_ = Timestamp::max();
      apply(Woken{});
    }
  }

  void apply(const Event& event) {
    for (const Action& action : membership_.apply(event, monotonic_now())) {
      std::visit([this](const auto& each) { act(each); }, action);
    }
  }

  void act(const StartAll& all) {
    note_failure();
    Gang gang;
    gang.run_id = options_.run_id;
    gang.attempt = all.attempt;
    gang.restarts_max = options_.policy.restarts_max;
    gang.workers_min = options_.policy.workers_min;
    gang.workers_max = options_.policy.workers_max;
    gang.servers = options_.servers;
    gang.grace = options_.grace;
    gang.groups = counted(options_.groups, membership_.world());
    for (const Share& share : all.shares) {
      const int listeners = gang.members.empty() ? gang.listeners() : 0;
      gang.members.push_back(nodes_.at(share.node)->member(share.workers, listeners));
    }
    kill_at_ = wake_at_ = Timestamp::max();
    shares_ = all.shares;
    ends_.clear();
    if (options_.before_attempt) options_.before_attempt();
    began_ = monotonic_now();
    report_.attempts.push_back({all.attempt, gang.world(), {}, std::nullopt, ""});
    if (report_.attempts.size() > kReportsKept) report_.attempts.erase(report_.attempts.begin());
    for (std::size_t i = 0; i < all.shares.size(); ++i) {
      nodes_.at(all.shares[i].node)->start(gang, static_cast<int>(i));
    }
  }

  void act(const StartOne& one) {
    note_failure();
    ends_.erase(one.process);
    for (const Share& share : shares_) {
      const bool helper = one.process >= membership_.world() && share.first_rank == 0;
      const bool here =
          one.process >= share.first_rank && one.process < share.first_rank + share.workers;
      if (here || helper) nodes_.at(share.node)->start_one(one.process);
    }
  }

  void act(const StopAll& stop) {
    note_failure();
    for (const auto& [name, node] : nodes_) node->stop(stop.how, options_.grace);
    if (stop.how == StopWith::kNotice) kill_at_ = monotonic_now() + options_.grace;
  }

  void act(const WakeMe& wake) { wake_at_ = monotonic_now() + wake.after; }

  void act(const Say& say) { options_.tell(say.text); }

  void act(const Finish& finish) {
    note_failure();
    report_.code = finish.code;
    report_.reason = finish.reason;
  }

  // Writes down how this attempt failed and tells it, once.
  void note_failure() {
    if (report_.attempts.empty()) return;
    AttemptReport& attempt = report_.attempts.back();
    attempt.lasted = monotonic_now() - began_;
    const auto& failure = membership_.first_failure();
    if (attempt.first_failure || !failure || failure->attempt != attempt.attempt) return;
    const auto end = ends_.find(failure->process);
    if (end == ends_.end()) return;
    attempt.first_failure = end->second;
    attempt.failed_on = failure->node;
    const auto groups = counted(options_.groups, attempt.world);
    const InGroup own = find_process(groups, failure->process);
    if (own.group != InGroup::kAbsent) attempt.failed_group = groups[own.group].name;
    if (failure->process < attempt.world) attempt.failed_rank = failure->process;
    options_.tell(post_mortem(attempt));
  }

  void on_printed(const Printed& printed) {
    const std::string text = "[" + printed.name + "] " + printed.line + "\n";
    const auto hit = options_.rules.match(printed.line);
    MutexLock lock(printing_);
    options_.print(text);
    if (!hit) return;
    // Once for each worker and attempt: who prints it in a loop must not fill the mailbox.
    const auto [last, fresh] = hits_.try_emplace(printed.process, printed.attempt);
    if (!fresh && std::exchange(last->second, printed.attempt) == printed.attempt) return;
    post(Event(RuleMatched{printed.attempt, printed.process, hit->action, hit->pattern}));
  }

  const LauncherOptions options_;
  Membership membership_;
  Mailbox mailbox_;
  Mutex printing_;
  std::map<int, int> hits_ FALAJ_GUARDED_BY(printing_);  // Process to its last attempt with a hit.
  std::vector<Share> shares_;
  std::map<int, ProcessEnd> ends_;  // Of this attempt.
  Timestamp began_{};
  Timestamp wake_at_ = Timestamp::max();
  Timestamp kill_at_ = Timestamp::max();
  LaunchReport report_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // Last: their threads use what is above.
};

Launcher::Launcher(LauncherOptions options) : loop_(std::make_unique<Loop>(std::move(options))) {}
Launcher::~Launcher() = default;

NodeEvents Launcher::events_for(const std::string& node) { return loop_->events_for(node); }

void Launcher::join(const std::string& name, int slots, std::unique_ptr<Node> node) {
  loop_->post(Arrived{name, slots, std::move(node)});
}
void Launcher::lose(const std::string& name) { loop_->post(Event(NodeLost{name})); }
void Launcher::node_notice(const std::string& name) { loop_->post(Event(NodeNotice{name})); }
void Launcher::notice() { loop_->post(Event(Notice{})); }
void Launcher::kill() { loop_->post(KillAll{}); }
LaunchReport Launcher::run() { return loop_->run(); }

std::string post_mortem(const AttemptReport& attempt) {
  if (!attempt.first_failure) return "";
  const ProcessEnd& end = *attempt.first_failure;
  char lasted[32];
  std::snprintf(lasted, sizeof lasted, "%.1f s", attempt.lasted.as_seconds());
  const bool grouped = !attempt.failed_group.empty();
  const std::string rank = grouped && attempt.failed_rank >= 0
                               ? ", rank " + std::to_string(attempt.failed_rank) + ","
                               : "";
  const std::string group = grouped ? ", of group " + attempt.failed_group : "";
  std::string out = "post-mortem: [" + end.name + "]" + rank + " failed first of " +
                    std::to_string(attempt.world) + " workers" + group + ", on node " +
                    attempt.failed_on + ", after " + lasted + " of attempt " +
                    std::to_string(attempt.attempt) + ": " + describe(end.status) +
                    "; peak memory " + format_bytes(end.memory_peak_bytes);
  if (!end.error.empty()) out += "\n  error: " + end.error;
  for (const std::string& line : end.last_lines) out += "\n  | " + line;
  return out;
}

Value to_value(const LaunchReport& report) {
  Value value = Value::object();
  value["code"] = report.code;
  value["reason"] = report.reason;
  value["crashes"] = report.crashes;
  value["preemptions"] = report.preemptions;
  value["attempts"] = Value::array();
  for (const AttemptReport& attempt : report.attempts) {
    Value each = Value::object();
    each["attempt"] = attempt.attempt;
    each["world"] = attempt.world;
    each["seconds"] = attempt.lasted.as_seconds();
    if (attempt.first_failure) {
      const ProcessEnd& end = *attempt.first_failure;
      Value& failure = each["first_failure"];
      failure["process"] = end.name;
      failure["rank"] = attempt.failed_rank < 0 ? Value() : Value(attempt.failed_rank);
      if (!attempt.failed_group.empty()) failure["group"] = attempt.failed_group;
      failure["node"] = attempt.failed_on;
      failure["exit_code"] = end.status.code;
      failure["signal"] = end.status.signal;
      failure["error"] = end.error;
      failure["cpu_seconds"] = end.cpu_time.as_seconds();
      failure["memory_peak_bytes"] = end.memory_peak_bytes;
      failure["last_lines"] = Value::array();
      for (const std::string& line : end.last_lines) failure["last_lines"].push(line);
    }
    value["attempts"].push(std::move(each));
  }
  return value;
}

}  // namespace falaj::launch
