// exec/internal/ward_book.h — the wards of one warden, from the intent to the end: what the warden
// does between two waits. No sockets, no clients; time comes from outside.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/bounded_log.h"
#include "exec/internal/gpu_meter.h"
#include "exec/internal/processors.h"
#include "exec/internal/starters.h"
#include "exec/internal/supervised.h"
#include "exec/internal/ward_journal.h"
#include "exec/wards.h"

namespace falaj::exec::internal {

// A bounded curve: when it is full every second sample goes and the next ones come half as often.
class UsageCurve {
 public:
  bool due(std::int64_t now) const { return now >= next_; }
  std::int64_t next() const { return next_; }
  void begin(std::int64_t now) { next_ = now + interval_; }
  void add(const WardUsage& usage, std::int64_t now);
  const std::vector<WardUsage>& samples() const { return samples_; }

  static constexpr std::size_t kSamplesMax = 256;

 private:
  std::int64_t interval_ = 250'000'000;
  std::int64_t next_ = 0;
  std::vector<WardUsage> samples_;
};

struct WardBookLimits {
  std::size_t running_max = 4096;
  std::size_t known_max = 200'000;
};

// Not thread-safe; it has threads of its own that start processes.
class WardBook {
 public:
  // `watch` is an epoll descriptor: the book puts in what its wards must be served for, marked with
  // numbers below `marks_below`; serve() takes them. Ends what a dead warden left behind and notes
  // it as lost, so this may take a while. `tag` names the control groups.
  static Result<std::unique_ptr<WardBook>> open(const std::string& journal, std::string tag,
                                                int watch);
  ~WardBook();  // Kills what runs.

  // Accepts it; it begins with a work() after the next commit(). Ok when it is known.
  Status start(const std::string& id, WardSpec spec);
  Status stop(const std::string& id);
  Status forget(const std::string& id);
  void stop_all();
  // Null when not known. An end is shown only when it is on the disk.
  const Ward* find(const std::string& id) const;
  const UsageCurve* curve(const std::string& id) const;
  // Calls until `each` returns false, from the first behind `id` on.
  void each_after(const std::string& id, const std::function<bool(const Ward&)>& each) const;
  bool idle() const;  // Nothing runs, is to begin, or is to be written down.

  // A descriptor of that mark is ready.
  void serve(std::uint64_t mark);
  // What is due by now: deadlines, samples, ends. Then commit().
  void work(std::int64_t now);
  // When work() is due again, at the latest.
  std::int64_t wake_at(std::int64_t now) const;
  // Syncs the journal if need be. The ids of wards that began or ended, to be told. An error is
  // final.
  Result<std::vector<std::string>> commit();

  static constexpr std::uint64_t kMarksBelow = std::uint64_t{1} << 60;

 private:
  struct Entry;
  struct Run;
  using Entries = std::map<std::string, Entry, std::less<>>;

  WardBook(WardJournal journal, std::string tag, int watch);
  Status recover();
  Status give_up_lost(KeptWard& kept);
  void begin(Entry& entry);
  void take_started();
  void look_at_beginning(Entry& entry);
  void refuse(Entry& entry, const Error& why);
  enum class Watch : std::uint8_t { kReady, kNews };  // As long as it is; when it becomes so.
  void watch(int file, std::uint64_t mark, Watch how) const;
  void unwatch(const Fd& file) const;
  void read_output(Run& run, int turns) const;
  void watch_gpus();
  void sample(Entry& entry, std::int64_t now) const;
  void finish(Entry& entry);
  void end(Entry& entry, WardEnd how);
  void note(Status status);
  void rewrite_if_worth();

  WardJournal journal_;
  std::string tag_;
  int watch_;
  WardBookLimits limits_;
  Entries entries_;
  std::map<std::uint64_t, Entry*> running_;   // By mark / kMarks; those that are beginning too.
  std::map<std::uint64_t, Entry*> starting_;  // Those that a thread is starting.
  std::size_t beginning_ = 0;                 // Those, and those that are not the program yet.
  std::uint64_t next_serial_ = 1;             // The mark 0 is the starters'.
  std::deque<std::string> accepted_;          // To begin once their intents are on the disk.
  std::size_t committed_ = 0;                 // How many of accepted_ are.
  std::vector<std::string> ending_;           // Their ends are to be shown after the next sync.
  std::vector<std::string> changed_;
  std::vector<std::unique_ptr<ControlGroup>> emptied_;  // To be removed when they can be.
  Status failure_;
  Processors processors_ = Processors::of_this_machine();
  SpareGroups groups_;
  Networks networks_;
  GpuMeter gpu_meter_;
  std::unique_ptr<Starters> starters_;  // Last: its threads use these.
};

}  // namespace falaj::exec::internal
