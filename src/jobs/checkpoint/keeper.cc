#include "jobs/checkpoint/keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "jobs/checkpoint/archive.h"
#include "jobs/checkpoint/internal/tree.h"
#include "jobs/checkpoint/memory_folder.h"

namespace falaj::jobs::checkpoint {
namespace {

class ThreadKeeper final : public Keeper {
 public:
  ThreadKeeper(KeeperOptions options, const Clock& clock, MemoryFolder memory, Descriptor wake)
      : options_(std::move(options)),
        clock_(clock),
        memory_(std::move(memory)),
        wake_(std::move(wake)) {}

  ~ThreadKeeper() override {
    stopping_ = true;
    nudge();
    if (!thread_.joinable()) return;  // It never began: what lies in memory is not ours.
    thread_.join();
    const auto complete = memory_.complete_now();
    if (waiting_.empty() && complete.ok() && complete->empty()) memory_.remove_all();
  }

  Status begin() {
    Archive::Options archive;
    archive.bytes_max = options_.memory_bytes_max;
    archive.durability = options_.durability;
    archive.on_chunk = [this] { return between_chunks(); };
    archive.key = FALAJ_TRY(take_key(options_.memory_folder));
    key_ = archive.key;
    archive_ = FALAJ_TRY(Archive::open(options_.archive, std::move(archive)));
    next_number_ = archive_->next_number();
    std::vector<Taken> left = FALAJ_TRY(memory_.left_over());
    for (Taken& each : left) adopt(std::move(each));
    take_complete();
    tell_status();
    thread_ = std::thread([this] { run(); });
    return {};
  }

  std::string saves_path() const override { return memory_.saves_path(); }

  Status flush(Flush what, Duration limit) override {
    MutexLock lock(mutex_);
    const std::int64_t own = ++flush_asked_;
    nudge();
    const auto persisted = [&]() FALAJ_REQUIRES(mutex_) {
      return (what == Flush::kAll ? all_flushed_ : newest_flushed_) >= own;
    };
    if (changed_.wait_for(mutex_, std::chrono::nanoseconds(limit.nanos), persisted)) return {};
    const std::string trouble = status_.trouble.empty() ? "it is being written" : status_.trouble;
    return Error{Code::kDeadlineExceeded, "a checkpoint is not on disk yet: " + trouble};
  }

  Result<std::optional<Restored>> restore(Duration limit) override {
    FALAJ_TRY(flush(Flush::kNewest, limit));
    Result<Restored> found =
        checkpoint::restore(options_.archive, key_, options_.memory_folder + "/restored");
    if (!found.ok() && found.error().code == Code::kNotFound) return std::optional<Restored>{};
    if (!found.ok()) return found.error();
    held_ = found->manifest.number;
    return std::optional<Restored>(std::move(*found));
  }

  void drop_incomplete() override { memory_.drop_incomplete(); }

  KeeperStatus status() const override {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  // The thread.

  void run() {
    while (!stopping_) {
      const std::int64_t asked = flush_asked();
      take_completed();
      if (asked > flush_seen_) {
        flush_seen_ = asked;
        flush_target_ = next_number_ - 1;
        retry_at_ = 0;  // Somebody waits: try now.
      }
      tell_flushed();
      const bool due = !waiting_.empty() && monotonic_nanos() >= retry_at_;
      due ? persist_newest() : rest();
    }
  }

  void rest() {
    int limit = -1;
    if (!waiting_.empty()) {
      const std::int64_t left = (retry_at_ - monotonic_nanos()) / 1'000'000 + 1;
      limit = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
    }
    pollfd fds[] = {{memory_.watch(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    ::poll(fds, 2, limit);
    std::uint64_t count = 0;
    if (::read(wake_.get(), &count, sizeof count) < 0) return;  // Nobody nudged.
  }

  Status between_chunks() {
    if (stopping_) return Error{Code::kCancelled, "the keeper stops"};
    take_completed();
    return {};
  }

  void take_completed() {
    const auto names = memory_.completed();
    if (!names.ok()) return take_complete();
    for (const std::string& name : *names) take(name);
  }

  // Whatever stands there under a complete name, without events.
  void take_complete() {
    const auto names = memory_.complete_now();
    if (!names.ok()) return;
    for (const std::string& name : *names) take(name);
  }

  void take(const std::string& name) {
    auto taken = memory_.take(name, next_number_, options_.memory_bytes_max);
    if (!taken.ok()) {
      return refuse(0, name, taken.error());
    }
    if (!taken->has_value()) return;
    ++next_number_;
    adopt(std::move(**taken));
  }

  void adopt(Taken taken) {
    next_number_ = std::max(next_number_, taken.number + 1);
    for (const Manifest& each : archive_->manifests()) {
      if (each.number == taken.number) return memory_.remove(taken);  // Killed just after.
    }
    if (!taken.metric_refused.empty()) {
      tell({EventKind::kWarned, taken.number, taken.name, taken.metric_refused});
    }
    waiting_.push_back(std::move(taken));
    give_up_outdone();
    tell_status();
  }

  std::vector<Scored> persisted_ones() const {
    std::vector<Scored> all;
    for (const Manifest& each : archive_->manifests()) all.push_back({each.number, each.metric});
    return all;
  }

  // Those that retention would drop at once, and the oldest while too much waits.
  void give_up_outdone() {
    std::vector<Scored> all = persisted_ones();
    for (const Taken& each : waiting_) all.push_back({each.number, each.metric});
    const std::set<std::int64_t> kept = retained(std::move(all), options_.keep);
    std::int64_t bytes = 0;
    for (std::size_t i = waiting_.size(); i-- > 0;) {
      bytes += waiting_[i].bytes;
      const bool fits = bytes <= options_.memory_bytes_max;
      if (waiting_[i].number == writing_ || (fits && kept.contains(waiting_[i].number))) continue;
      if (!fits) bytes -= waiting_[i].bytes;
      memory_.remove(waiting_[i]);
      tell({EventKind::kSuperseded, waiting_[i].number, waiting_[i].name,
            fits ? "newer or better ones came before its turn" : "too much waits in memory"});
      ++status_of_thread_.superseded;
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void persist_newest() {
    const Taken taken = waiting_.back();
    Archive::Source source{memory_.taken_folder(), taken.entry, {}, taken.name};
    source.about.number = taken.number;
    source.about.name = taken.name;
    source.about.saved_at = clock_.now();
    source.about.metric = taken.metric;
    writing_ = taken.number;
    const Result<Manifest> written = archive_->write(source);
    writing_ = 0;
    written.ok() ? persisted(taken, *written) : failed(taken, written.error());
  }

  void persisted(const Taken& taken, const Manifest& manifest) {
    forget(taken);
    failures_ = 0;
    ++status_of_thread_.persisted;
    status_of_thread_.trouble.clear();
    // Among those on disk alone: one that is outdone by saves in memory stays until they are there.
    std::set<std::int64_t> kept = retained(persisted_ones(), options_.keep);
    kept.insert(held_);
    const std::vector<Manifest> before = archive_->manifests();
    for (const Manifest& each : before) {
      if (kept.contains(each.number)) continue;
      const Status removed = archive_->remove(each.number);
      if (!removed.ok())
        tell({EventKind::kWarned, each.number, each.name, removed.error().message});
    }
    tell_status();
    tell({EventKind::kPersisted, manifest.number, manifest.name,
          std::to_string(manifest.bytes()) + " bytes in " + std::to_string(manifest.files.size()) +
              " files"});
  }

  void failed(const Taken& taken, const Error& error) {
    if (error.code == Code::kCancelled) return;
    if (error.code == Code::kInvalidArgument) {
      forget(taken);
      return refuse(taken.number, taken.name, error);
    }
    const int doublings = std::min(failures_++, 20);
    const Duration wait{
        std::min(options_.retry_first.nanos << doublings, options_.retry_max.nanos)};
    retry_at_ = monotonic_nanos() + wait.nanos;
    ++status_of_thread_.retries;
    status_of_thread_.trouble = error.message + "; tried again in " +
                                std::to_string(wait.nanos / 1'000'000) + " ms (failure " +
                                std::to_string(failures_) + ")";
    tell_status();
    tell({EventKind::kRetried, taken.number, taken.name, status_of_thread_.trouble});
  }

  void refuse(std::int64_t number, const std::string& name, const Error& error) {
    ++status_of_thread_.refused;
    tell_status();
    tell({EventKind::kRefused, number, name, error.message});
  }

  void forget(const Taken& taken) {
    memory_.remove(taken);
    std::erase_if(waiting_, [&](const Taken& each) { return each.number == taken.number; });
  }

  void tell(const Event& event) {
    log::info("checkpoint", {{"what", to_string(event.kind)},
                             {"number", event.number},
                             {"name", event.name},
                             {"message", event.message}});
    if (options_.on_event) options_.on_event(event);
  }

  void tell_status() {
    status_of_thread_.waiting = static_cast<std::int64_t>(waiting_.size());
    if (!archive_->manifests().empty()) status_of_thread_.newest = archive_->manifests().back();
    MutexLock lock(mutex_);
    status_ = status_of_thread_;
  }

  std::int64_t flush_asked() {
    MutexLock lock(mutex_);
    return flush_asked_;
  }

  void tell_flushed() {
    const auto asked_for = [&](const Taken& each) { return each.number <= flush_target_; };
    const bool all = std::none_of(waiting_.begin(), waiting_.end(), asked_for);
    const auto& kept = archive_->manifests();
    const bool newest = all || (!kept.empty() && kept.back().number >= flush_target_);
    MutexLock lock(mutex_);
    if (all) all_flushed_ = flush_seen_;
    if (newest) newest_flushed_ = flush_seen_;
    changed_.notify_all();
  }

  void nudge() {
    const std::uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0) return;  // Full: it is awake already.
  }

  const KeeperOptions options_;
  const Clock& clock_;
  MemoryFolder memory_;
  const Descriptor wake_;
  std::unique_ptr<Archive> archive_;
  ArchiveKey key_;  // Null: the archive lies in clear.
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> held_{0};  // What workers may still be reading.

  // The thread's own.
  std::vector<Taken> waiting_;  // Oldest first.
  std::int64_t next_number_ = 1;
  std::int64_t writing_ = 0;
  std::int64_t retry_at_ = 0;
  std::int64_t flush_seen_ = 0;    // The last one asked for …
  std::int64_t flush_target_ = 0;  // … and the newest save that there was then.
  int failures_ = 0;
  KeeperStatus status_of_thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  KeeperStatus status_ FALAJ_GUARDED_BY(mutex_);
  std::int64_t flush_asked_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::int64_t newest_flushed_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::int64_t all_flushed_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kPersisted:
      return "persisted";
    case EventKind::kRetried:
      return "retried";
    case EventKind::kRefused:
      return "refused";
    case EventKind::kSuperseded:
      return "superseded";
    case EventKind::kWarned:
      return "warned";
  }
  return "persisted";
}

Result<std::unique_ptr<Keeper>> Keeper::start(KeeperOptions options, const Clock& clock) {
  if (options.keep.last < 1 || options.keep.best < 0 || options.memory_bytes_max < 1) {
    return Error{Code::kInvalidArgument,
                 "keep at least the last checkpoint, and allow at least a byte of memory"};
  }
  if (options.memory_folder.empty()) {
    options.memory_folder = FALAJ_TRY(MemoryFolder::root_for(options.archive));
  }
  std::error_code error;  // Workers may have another folder than this process.
  options.archive = std::filesystem::absolute(options.archive, error).lexically_normal().string();
  if (error) return Error{Code::kInternal, "find the current folder: " + error.message()};
  MemoryFolder memory = FALAJ_TRY(MemoryFolder::open(options.memory_folder));
  Descriptor wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return disk_error(errno, "make", "an event descriptor");
  auto keeper =
      std::make_unique<ThreadKeeper>(std::move(options), clock, std::move(memory), std::move(wake));
  FALAJ_TRY(keeper->begin());
  return std::unique_ptr<Keeper>(std::move(keeper));
}

}  // namespace falaj::jobs::checkpoint
