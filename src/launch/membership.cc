#include "launch/membership.h"

#include <algorithm>
#include <utility>

namespace falaj::launch {
namespace {

std::string text(int number) { return std::to_string(number); }

std::string text(const ExitStatus& status) {
  return status.signal != 0 ? "signal " + text(status.signal) : "exit code " + text(status.code);
}

bool checkpointed(const ExitStatus& status) {
  return status.signal == 0 && (status.code == kExitDone || status.code == kExitReschedule);
}

}  // namespace

std::vector<Action> Membership::apply(const Event& event, Timestamp now) {
  actions_.clear();
  if (phase_ == Phase::kFinished) return {};
  now_ = now;
  std::visit([this](const auto& each) { on(each); }, event);
  return std::exchange(actions_, {});
}

void Membership::on(const NodeJoined& event) {
  if (find(event.node) != nullptr || excluded_.contains(event.node) || event.slots < 1) return;
  nodes_.push_back({event.node, event.slots});
  if (phase_ == Phase::kWaiting || (phase_ == Phase::kPausing && !gathered_)) {
    return begin_round();
  }
  if (phase_ != Phase::kRunning || world_ >= policy_.workers_max ||
      policy_.on_crash == OnCrash::kKeepSurvivors) {
    return;
  }
  say("node " + event.node + " joined: starting again with up to " + text(capacity()) + " workers");
  quick_rounds_ = 0;
  stop(StopWith::kNotice, std::nullopt);
}

void Membership::on(const NodeLost& event) {
  if (find(event.node) == nullptr) return;
  const bool expected = !find(event.node)->usable;
  std::erase_if(nodes_, [&](const Node& node) { return node.name == event.node; });
  const std::size_t before = running_.size();
  std::erase_if(running_, [&](const auto& each) { return each.second == event.node; });
  const bool had_workers = running_.size() != before;
  if (phase_ == Phase::kStopping) {
    if (had_workers) checkpointed_ = false;
    return settle();
  }
  if (phase_ != Phase::kRunning) return;
  if (!had_workers || expected) return settle();
  charge_preemption(StopWith::kQuick, "node " + event.node + " is lost");
}

void Membership::on(const NodeNotice& event) {
  Node* node = find(event.node);
  if (node == nullptr || !node->usable) return;
  node->usable = false;
  const bool runs_here = std::any_of(running_.begin(), running_.end(),
                                     [&](const auto& each) { return each.second == event.node; });
  if (phase_ != Phase::kRunning || !runs_here) return;
  charge_preemption(StopWith::kNotice, "node " + event.node + " is about to go");
}

void Membership::on(const WorkerEnded& event) {
  const auto found = running_.find(event.process);
  if (event.attempt != attempt_ || found == running_.end()) return;
  const std::string node = found->second;
  running_.erase(found);
  if (phase_ == Phase::kStopping) {
    if (judged_) ended_on_notice(event);
    return settle();
  }
  if (event.status == ExitStatus{}) {
    if (event.process < world_) done_.insert(event.process);
    return worker_done();
  }
  if (event.status == ExitStatus{kExitReschedule, 0}) {
    say(called(event.process) + " asks to be started again (75)");
    return stop(StopWith::kNotice, std::nullopt);
  }
  failure_ = Failure{attempt_, event.process, node, event.status};
  if (event.status == ExitStatus{kExitUserError, 0}) {
    return stop(StopWith::kQuick,
                Finish{kExitUserError, called(event.process) + " says that trying again will not "
                                                               "help (77)"});
  }
  crashed(event);
}

void Membership::crashed(const WorkerEnded& event) {
  const std::string what = called(event.process) + " failed: " + text(event.status);
  if (crashes_ >= policy_.restarts_max) {
    return stop(
        StopWith::kQuick,
        Finish{
            event.status.shell_code(),
            what + (policy_.restarts_max == 0
                        ? "; no crash is forgiven (--restarts N, of a TrainJob faults.crashes_max)"
                        : "; all " + text(policy_.restarts_max) + " restarts are used")});
  }
  ++crashes_;
  if (policy_.on_crash == OnCrash::kKeepSurvivors) {
    say(what + "; starting it alone again (" + budgets() + ")");
    return restart_one(event.process);
  }
  say(what + "; starting everybody again (" + budgets() + ")");
  stop(StopWith::kQuick, std::nullopt);
}

void Membership::restart_one(int process) {
  running_[process] = failure_->node;
  actions_.emplace_back(StartOne{attempt_, process});
}

// The helpers have nothing left to serve once every worker is done.
void Membership::worker_done() {
  if (static_cast<int>(done_.size()) < world_) {
    if (running_.empty()) settle();
    return;
  }
  if (running_.empty()) return finish(kExitDone, "done");
  stop(StopWith::kQuick, Finish{kExitDone, "done"});
}

void Membership::ended_on_notice(const WorkerEnded& event) {
  if (event.process >= world_) return;
  checkpointed_ = checkpointed_ && checkpointed(event.status);
  if (event.status == ExitStatus{}) done_.insert(event.process);
}

void Membership::on(const RuleMatched& event) {
  const auto found = running_.find(event.process);
  if (phase_ != Phase::kRunning || event.attempt != attempt_ || found == running_.end()) return;
  const std::string reason =
      called(event.process) + " printed what rule '" + event.rule + "' looks for";
  failure_ = Failure{attempt_, event.process, found->second, {}};
  if (event.action == RuleAction::kStop) return stop(StopWith::kQuick, Finish{1, reason});
  if (event.action == RuleAction::kExcludeNode) {
    excluded_.insert(found->second);
    if (Node* node = find(found->second)) node->usable = false;
  }
  charge_preemption(StopWith::kQuick, reason);
}

void Membership::on(const Notice&) {
  if (noticed_) return;
  noticed_ = true;
  if (phase_ == Phase::kStopping) {
    // They were told to stop for another reason; what they had saved is what there is.
    if (!then_) then_ = Finish{kExitReschedule, "asked to stop while starting again"};
    return;
  }
  if (phase_ != Phase::kRunning) return finish(kExitReschedule, "asked to stop before a start");
  say("asked to stop: every worker is told, and may checkpoint");
  judged_ = true;
  checkpointed_ = true;
  stop(StopWith::kNotice, std::nullopt);
}

void Membership::on(const Woken&) {
  // At the very beginning: nobody may have joined yet, which is said.
  if (phase_ == Phase::kWaiting && policy_.joining == Joining::kOpen) return begin_round();
  if (phase_ != Phase::kPausing) return;
  gathered_ = true;
  begin_round();
}

void Membership::charge_preemption(StopWith how, const std::string& reason) {
  if (policy_.preemptions_max >= 0 && preemptions_ >= policy_.preemptions_max) {
    return stop(how, Finish{kExitPreempted, reason + "; all " + text(policy_.preemptions_max) +
                                                " preemptions are used"});
  }
  ++preemptions_;
  say(reason + "; starting everybody again (" + budgets() + ")");
  stop(how, std::nullopt);
}

void Membership::stop(StopWith how, std::optional<Finish> then) {
  phase_ = Phase::kStopping;
  then_ = std::move(then);
  if (!running_.empty()) actions_.emplace_back(StopAll{how});
  settle();
}

// Goes on once nobody runs any more.
void Membership::settle() {
  if (!running_.empty() || phase_ == Phase::kFinished) return;
  if (phase_ == Phase::kRunning) {
    // The last ones left with their node after others were done: those are not done for good.
    phase_ = Phase::kStopping;
    then_.reset();
  }
  if (phase_ != Phase::kStopping) return;
  if (judged_) return judge();
  if (!then_) return begin_round();
  finish(then_->code, then_->reason);
}

// How a gang ended that was given notice.
void Membership::judge() {
  const bool complete = static_cast<int>(done_.size()) == world_;
  if (complete) return finish(kExitDone, "done");
  if (checkpointed_) return finish(kExitReschedule, "stopped on notice, having checkpointed");
  finish(kExitPreempted, "stopped on notice; work since the last checkpoint is lost");
}

void Membership::begin_round() {
  const int workers = capacity();
  if (workers < policy_.workers_min) {
    const std::string missing =
        text(workers) + " of at least " + text(policy_.workers_min) + " workers have a place";
    if (policy_.joining == Joining::kClosed) {
      const int code = failure_ ? std::max(1, failure_->status.shell_code()) : 1;
      return finish(code, missing + ", and no node can join");
    }
    if (!std::exchange(told_waiting_, true)) {
      say("waiting for " + text(policy_.workers_min - workers) + " more worker(s)");
    }
    phase_ = Phase::kWaiting;
    gathered_ = false;
    return;
  }
  if (gathered_ || (workers == policy_.workers_max && phase_ == Phase::kPausing)) return start();
  Duration pause = phase_ == Phase::kStopping ? next_pause() : Duration{};
  if (policy_.joining == Joining::kOpen && workers < policy_.workers_max) {
    pause = std::max(pause, policy_.gather);
  }
  if (pause.nanos == 0) return start();
  const bool pausing = phase_ == Phase::kPausing;
  phase_ = Phase::kPausing;
  if (!pausing) actions_.emplace_back(WakeMe{pause});
}

Duration Membership::next_pause() {
  const bool quick = (now_ - round_began_) < policy_.steady;
  quick_rounds_ = quick ? quick_rounds_ + 1 : 0;
  if (quick_rounds_ < 2) return {};
  Duration pause = policy_.pause_first;
  for (int i = 2; i < quick_rounds_ && pause < policy_.pause_max; ++i) pause.nanos *= 2;
  return std::min(pause, policy_.pause_max);
}

void Membership::start() {
  phase_ = Phase::kRunning;
  ++attempt_;
  gathered_ = false;
  told_waiting_ = false;
  done_.clear();
  then_.reset();
  round_began_ = now_;
  world_ = capacity();
  StartAll all{attempt_, {}};
  int rank = 0;
  for (const Node& node : nodes_) {
    const int workers = node.usable ? std::min(node.slots, world_ - rank) : 0;
    if (workers == 0) continue;
    all.shares.push_back({node.name, rank, workers});
    for (int i = 0; i < workers; ++i) running_[rank + i] = node.name;
    rank += workers;
  }
  for (int i = 0; i < policy_.helpers; ++i) running_[world_ + i] = all.shares.front().node;
  actions_.emplace_back(std::move(all));
}

void Membership::finish(int code, std::string reason) {
  phase_ = Phase::kFinished;
  actions_.emplace_back(Finish{code, std::move(reason)});
}

void Membership::say(std::string text) { actions_.emplace_back(Say{std::move(text)}); }

std::string Membership::called(int process) const {
  return policy_.called ? policy_.called(process, world_) : "worker " + text(process);
}

int Membership::capacity() const {
  int sum = 0;
  for (const Node& node : nodes_) {
    if (node.usable) sum += std::min(node.slots, policy_.workers_max - sum);
  }
  return sum;
}

Membership::Node* Membership::find(const std::string& name) {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const Node& node) { return node.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

std::string Membership::budgets() const {
  std::string out = "crashes " + text(crashes_) + " of " + text(policy_.restarts_max);
  out += ", preemptions " + text(preemptions_);
  if (policy_.preemptions_max >= 0) out += " of " + text(policy_.preemptions_max);
  return out;
}

}  // namespace falaj::launch
