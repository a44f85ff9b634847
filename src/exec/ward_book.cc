#include "exec/internal/ward_book.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "exec/internal/fd.h"
#include "exec/internal/ward_message.h"

namespace falaj::exec::internal {
namespace {

// At most so many may be between fork and program: moving into control groups takes the kernel
// milliseconds each, and hardly more for many together. As many threads wait for it.
constexpr std::size_t kBeginningMax = 32;
constexpr unsigned kStarters = 16;
// What a ward is served for.
enum Mark : std::uint64_t { kEnded, kPrinted, kReported, kMarks };
// How soon to look again at a tree that is still dying, or a group that cannot be removed yet.
constexpr std::int64_t kAgainNanos = 5'000'000;
constexpr std::size_t kReadBytes = 64 * 1024;
// Reads everything that a pipe of the greatest size can hold.
constexpr int kPipeTurns = 20;

WardEndReason reason_of(ExitReason reason) {
  switch (reason) {
    case ExitReason::kExited:
      return WardEndReason::kExited;
    case ExitReason::kSignalled:
      return WardEndReason::kSignalled;
    case ExitReason::kOutOfMemory:
      return WardEndReason::kOutOfMemory;
    case ExitReason::kTimedOut:
      return WardEndReason::kTimedOut;
    case ExitReason::kStopped:
      return WardEndReason::kStopped;
    case ExitReason::kOutOfDisk:
      return WardEndReason::kOutOfDisk;
  }
  return WardEndReason::kLost;
}

Error not_known(const std::string& id) {
  return Error(Code::kNotFound, "there is no ward '" + id + "'");
}

// Kills that very process and its group, if it still is, and waits for its end.
void kill_left_over(std::int64_t pid, std::int64_t birth) {
  if (pid <= 1 || birth == 0 || birth_of(pid) != birth) return;
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (!process.open() || birth_of(pid) != birth) return;
  ::kill(static_cast<pid_t>(-pid), SIGKILL);
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  pollfd waited{process.get(), POLLIN, 0};
  ::poll(&waited, 1, 10'000);
}

ChildSpec child_of(const WardSpec& spec) {
  ChildSpec child;
  child.argv = spec.argv;
  child.env = spec.env;
  child.work_dir = spec.work_dir;
  child.sandbox = spec.sandbox;
  child.limits = spec.limits;
  child.channel_fd = -1;
  return child;
}

}  // namespace

void UsageCurve::add(const WardUsage& usage, std::int64_t now) {
  if (samples_.size() == kSamplesMax) {
    for (std::size_t i = 0; i < kSamplesMax / 2; ++i) samples_[i] = samples_[2 * i + 1];
    samples_.resize(kSamplesMax / 2);
    interval_ *= 2;
  }
  samples_.push_back(usage);
  next_ = now + interval_;
}

// A process that runs, or ended and is not yet reaped.
struct WardBook::Run {
  Run(std::unique_ptr<Supervised> started, BoundedLog file)
      : process(std::move(started)), log(std::move(file)) {}
  std::unique_ptr<Supervised> process;
  BoundedLog log;
  std::uint64_t serial = 0;
  bool has_begun = false;
  bool has_ended = false;
  std::int64_t look_again_at = Supervised::kNever;  // Its descendants are still dying.
};

struct WardBook::Entry {
  Ward ward;
  std::string log_path;
  std::int64_t birth = 0;
  std::optional<WardSpec> spec;   // Until it has begun.
  std::optional<BoundedLog> log;  // While a thread starts it, …
  bool stop_wanted = false;       // … and whether it was stopped meanwhile.
  std::unique_ptr<Run> run;
  UsageCurve curve;
  Binding binding;
  std::uint32_t gpus = 0;             // While it has them.
  std::optional<WardEnd> coming_end;  // Until it is on the disk.

  bool is_over() const { return ward.end.has_value() || coming_end.has_value(); }
};

WardBook::WardBook(WardJournal journal, std::string tag, int watch)
    : journal_(std::move(journal)),
      tag_(std::move(tag)),
      watch_(watch),
      starters_(std::make_unique<Starters>(kStarters)) {
  this->watch(starters_->ready(), 0, Watch::kReady);
}

WardBook::~WardBook() {
  for (const auto& [serial, entry] : running_) entry->run->process->kill_tree();
  for (const auto& [serial, entry] : running_) entry->run->process->reap();
}

Result<std::unique_ptr<WardBook>> WardBook::open(const std::string& journal, std::string tag,
                                                 int watch) {
  WardJournal opened = FALAJ_TRY(WardJournal::open(journal));
  std::unique_ptr<WardBook> book(new WardBook(std::move(opened), std::move(tag), watch));
  FALAJ_TRY(book->recover());
  return book;
}

Status WardBook::recover() {
  std::map<std::string, KeptWard> kept = journal_.take_kept();
  for (const auto& [id, each] : kept) {
    if (!each.ward.end) kill_left_over(each.ward.pid, each.birth);
  }
  ControlGroup::sweep_tagged(tag_);
  for (auto& [id, each] : kept) {
    if (!each.ward.end) FALAJ_TRY(give_up_lost(each));
    Entry& entry = entries_[id];
    entry.ward = std::move(each.ward);
    entry.log_path = std::move(each.log_path);
    entry.birth = each.birth;
  }
  return journal_.sync();
}

Status WardBook::give_up_lost(KeptWard& kept) {
  if (!kept.log_path.empty()) finish_abandoned_log(kept.log_path);
  WardEnd lost;
  lost.reason = WardEndReason::kLost;
  lost.detail = "the warden that ran it ended without writing down how it ended";
  lost.ended_at = SystemClock().now();
  kept.ward.end = std::move(lost);
  kept.ward.pid = 0;
  return journal_.ended(kept.ward);
}

Status WardBook::start(const std::string& id, WardSpec spec) {
  if (entries_.contains(id)) return {};
  if (entries_.size() >= limits_.known_max ||
      running_.size() + starting_.size() + accepted_.size() >= limits_.running_max) {
    return Error(Code::kResourceExhausted,
                 "too many wards: " + std::to_string(running_.size() + accepted_.size()) +
                     " run and " + std::to_string(entries_.size()) + " are known");
  }
  Ward ward;
  ward.id = id;
  ward.started_at = SystemClock().now();
  const Status intended = journal_.intend(ward, spec.log_path);
  if (!intended.ok() && intended.error().code != Code::kResourceExhausted) note(intended);
  FALAJ_TRY(intended);
  Entry& entry = entries_[id];
  entry.ward = std::move(ward);
  entry.log_path = spec.log_path;
  entry.spec = std::move(spec);
  accepted_.push_back(id);
  return {};
}

Status WardBook::stop(const std::string& id) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return not_known(id);
  Entry& entry = at->second;
  if (entry.log) {
    entry.stop_wanted = true;
  } else if (entry.run && !entry.run->has_begun) {
    entry.run->process->kill_now(ExitReason::kStopped);  // There is no program yet to be asked.
  } else if (entry.run) {
    entry.run->process->ask_to_end(ExitReason::kStopped, monotonic_nanos());
  } else if (!entry.is_over()) {
    WardEnd how;
    how.reason = WardEndReason::kStopped;
    how.code = SIGTERM;
    how.detail = "it was stopped before it began";
    const auto place = std::find(accepted_.begin(), accepted_.end(), id);
    if (static_cast<std::size_t>(place - accepted_.begin()) < committed_) --committed_;
    accepted_.erase(place);
    end(entry, std::move(how));
  }
  return {};
}

void WardBook::stop_all() {
  for (const auto& [id, entry] : entries_) {
    if (!entry.is_over()) note(stop(id));
  }
}

Status WardBook::forget(const std::string& id) {
  const auto at = entries_.find(id);
  if (at == entries_.end()) return {};
  if (!at->second.ward.end) return Error(Code::kConflict, "the ward '" + id + "' still runs");
  entries_.erase(at);
  note(journal_.forget(id));
  rewrite_if_worth();
  return {};
}

void WardBook::rewrite_if_worth() {
  if (!journal_.worth_rewriting(entries_.size())) return;
  std::vector<KeptWard> known;
  for (const auto& [id, entry] : entries_) {
    known.push_back({entry.ward, entry.log_path, entry.birth});
    if (entry.coming_end) known.back().ward.end = entry.coming_end;
  }
  note(journal_.rewrite(known));
}

const Ward* WardBook::find(const std::string& id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : &at->second.ward;
}

const UsageCurve* WardBook::curve(const std::string& id) const {
  const auto at = entries_.find(id);
  return at == entries_.end() ? nullptr : &at->second.curve;
}

void WardBook::each_after(const std::string& id,
                          const std::function<bool(const Ward&)>& each) const {
  auto at = id.empty() ? entries_.begin() : entries_.upper_bound(id);
  while (at != entries_.end() && each(at->second.ward)) ++at;
}

bool WardBook::idle() const {
  return running_.empty() && starting_.empty() && accepted_.empty() && ending_.empty();
}

void WardBook::note(Status status) {
  if (!status.ok() && failure_.ok()) failure_ = std::move(status);
}

void WardBook::watch(int file, std::uint64_t mark, Watch how) const {
  epoll_event event{};
  event.events = EPOLLIN | (how == Watch::kNews ? EPOLLET : 0U);
  event.data.u64 = mark;
  ::epoll_ctl(watch_, EPOLL_CTL_ADD, file, &event);
}

// Before it is closed: a child that another thread is just making has a copy until it becomes its
// program, and for so long the file would be told to be ready, again and again, to nobody.
void WardBook::unwatch(const Fd& file) const {
  if (file.open()) ::epoll_ctl(watch_, EPOLL_CTL_DEL, file.get(), nullptr);
}

void WardBook::refuse(Entry& entry, const Error& why) {
  WardEnd how;
  how.reason = WardEndReason::kNotStarted;
  how.detail = shortened(why.message, kDetailBytesMax);
  end(entry, std::move(how));
}

void WardBook::begin(Entry& entry) {
  const WardSpec spec = std::move(*entry.spec);
  entry.spec.reset();
  auto log = BoundedLog::open(spec.log_path, spec.log_bytes_max);
  if (!log.ok()) return refuse(entry, log.error());
  entry.log = std::move(*log);
  ChildSpec child = child_of(spec);
  if (spec.limits.bound_cpus > 0) {
    entry.binding = processors_.take(static_cast<std::size_t>(spec.limits.bound_cpus),
                                     static_cast<int>(spec.limits.bound_node));
    child.limits.processors = entry.binding.processor_list;
    child.limits.memory_nodes = entry.binding.node_list;
  }
  const std::uint64_t serial = next_serial_++;
  starting_[serial] = &entry;
  entry.gpus = spec.gpus;
  if (entry.gpus != 0) watch_gpus();
  ++beginning_;
  starters_->start(serial, std::move(child), {GroupUse::kAlways, tag_, &groups_, &networks_});
}

void WardBook::take_started() {
  for (auto& [serial, started] : starters_->take()) {
    const auto at = starting_.find(serial);
    Entry& entry = *at->second;
    starting_.erase(at);
    BoundedLog log = *std::exchange(entry.log, std::nullopt);
    if (!started.ok()) {
      --beginning_;
      refuse(entry, started.error());
      continue;
    }
    entry.run = std::make_unique<Run>(std::move(*started), std::move(log));
    entry.run->serial = serial;
    running_[serial] = &entry;
    if (entry.stop_wanted) entry.run->process->kill_now(ExitReason::kStopped);
    // It is read to its end whenever there is something, and closed while it is being read.
    watch(entry.run->process->process().report.get(), serial * kMarks + kReported, Watch::kNews);
    look_at_beginning(entry);
  }
}

void WardBook::look_at_beginning(Entry& entry) {
  Run& run = *entry.run;
  const auto begun = run.process->has_begun();
  if (begun.ok() && !*begun) return;
  --beginning_;
  if (!begun.ok()) {
    run.log.write("falaj: " + begun.error().message + "\n");
    run.log.finish();
    running_.erase(run.serial);
    entry.run.reset();
    return refuse(entry, begun.error());
  }
  run.has_begun = true;
  const Spawned& process = run.process->process();
  entry.ward.pid = process.pid;
  entry.ward.started_at = SystemClock().now();
  entry.ward.protections = process.protections;
  entry.ward.protections_refused = process.protections_refused;
  entry.birth = birth_of(process.pid);
  entry.curve.begin(monotonic_nanos());
  note(journal_.begun(entry.ward, entry.birth));
  watch(process.pidfd.get(), run.serial * kMarks + kEnded, Watch::kReady);
  watch(process.output.get(), run.serial * kMarks + kPrinted, Watch::kReady);
  changed_.push_back(entry.ward.id);
}

void WardBook::serve(std::uint64_t mark) {
  if (mark == 0) return take_started();
  const auto at = running_.find(mark / kMarks);
  if (at == running_.end()) return;
  Entry& entry = *at->second;
  Run& run = *entry.run;
  if (!run.has_begun) return look_at_beginning(entry);
  // A little, so that one that prints without end does not keep the others waiting.
  if (mark % kMarks == kPrinted) return read_output(run, 4);
  if (mark % kMarks != kEnded || run.has_ended) return;
  unwatch(run.process->process().pidfd);
  run.has_ended = true;
  finish(entry);
}

void WardBook::read_output(Run& run, int turns) const {
  Fd& output = run.process->process().output;
  char bytes[kReadBytes];
  for (int turn = 0; turn < turns && output.open(); ++turn) {
    const ssize_t got = ::read(output.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      unwatch(output);
      return output.reset();
    }
    run.log.write({bytes, static_cast<std::size_t>(got)});
  }
}

// All that some ward has: a device may be shared.
void WardBook::watch_gpus() {
  std::uint32_t devices = 0;
  for (const auto& [serial, entry] : starting_) devices |= entry->gpus;
  for (const auto& [serial, entry] : running_) devices |= entry->gpus;
  gpu_meter_.watch(devices);
}

void WardBook::sample(Entry& entry, std::int64_t now) const {
  const TreeUsage used = entry.run->process->usage();
  WardUsage usage;
  usage.at = Duration{now - entry.run->process->started_nanos()};
  // What a descendant used that ended unwaited for is no longer counted by the kernel.
  usage.cpu_time = std::max(used.cpu_time, entry.ward.usage.cpu_time);
  usage.read_bytes = std::max(used.read_bytes, entry.ward.usage.read_bytes);
  usage.written_bytes = std::max(used.written_bytes, entry.ward.usage.written_bytes);
  usage.memory_bytes = used.memory_bytes;
  const GpuUse gpus = gpu_meter_.use_of(entry.gpus);
  usage.gpu_milli = gpus.milli;
  usage.gpu_memory_bytes = gpus.memory_bytes;
  entry.ward.usage = usage;
  entry.curve.add(usage, now);
}

// The process has ended: so must its descendants before the end is told.
void WardBook::finish(Entry& entry) {
  Run& run = *entry.run;
  if (!run.process->tree_has_ended()) {
    run.look_again_at = monotonic_nanos() + kAgainNanos;
    return;
  }
  read_output(run, kPipeTurns);
  unwatch(run.process->process().output);
  const ChildExit exit = run.process->reap();
  WardEnd how;
  how.reason = reason_of(exit.reason);
  how.code = exit.code;
  how.memory_peak_bytes = exit.memory_peak_bytes;
  how.cpu_time = std::max(exit.cpu_time, entry.ward.usage.cpu_time);
  how.log_bytes_cut = run.log.finish();
  entry.ward.protections_refused = exit.protections_refused;
  auto group = groups_.keep(run.process->take_group());
  if (group && !group->try_remove()) {
    emptied_.push_back(std::move(group));
  }
  networks_.keep(run.process->take_network());
  running_.erase(run.serial);
  entry.run.reset();
  end(entry, std::move(how));
}

void WardBook::end(Entry& entry, WardEnd how) {
  how.detail = shortened(how.detail, kDetailBytesMax);
  how.ended_at = SystemClock().now();
  Ward ended = entry.ward;
  ended.end = how;
  ended.pid = 0;
  note(journal_.ended(ended));
  entry.coming_end = std::move(how);
  entry.spec.reset();
  processors_.give_back(std::exchange(entry.binding, {}));
  if (std::exchange(entry.gpus, 0) != 0) watch_gpus();
  ending_.push_back(entry.ward.id);
}

void WardBook::work(std::int64_t now) {
  std::vector<Entry*> dying;
  for (const auto& [serial, entry] : running_) {
    Run& run = *entry->run;
    if (!run.has_begun) continue;
    if (run.has_ended) {
      if (now >= run.look_again_at) dying.push_back(entry);
      continue;
    }
    run.process->keep_deadlines(now);
    if (entry->curve.due(now)) sample(*entry, now);
  }
  for (Entry* entry : dying) finish(*entry);
  std::erase_if(emptied_, [](const auto& group) { return group->try_remove(); });
  for (; committed_ > 0 && beginning_ < kBeginningMax; --committed_) {
    Entry& entry = entries_.find(accepted_.front())->second;
    accepted_.pop_front();
    begin(entry);
  }
}

std::int64_t WardBook::wake_at(std::int64_t now) const {
  if (committed_ > 0 && beginning_ < kBeginningMax) return now;
  std::int64_t at = emptied_.empty() ? Supervised::kNever : now + kAgainNanos;
  for (const auto& [serial, entry] : running_) {
    const Run& run = *entry->run;
    if (!run.has_begun) continue;
    at = std::min(at, run.has_ended ? run.look_again_at
                                    : std::min(run.process->wake_at(now), entry->curve.next()));
  }
  return at;
}

Result<std::vector<std::string>> WardBook::commit() {
  note(journal_.sync());
  FALAJ_TRY(failure_);
  committed_ = accepted_.size();
  for (const std::string& id : ending_) {
    Entry& entry = entries_.find(id)->second;
    entry.ward.end = std::move(entry.coming_end);
    entry.coming_end.reset();
    entry.ward.pid = 0;
    changed_.push_back(id);
  }
  ending_.clear();
  return std::exchange(changed_, {});
}

}  // namespace falaj::exec::internal
