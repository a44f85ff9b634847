#include "net/http/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace falaj::net {
namespace {

constexpr std::size_t kEventsAtOnce = 128;
constexpr std::size_t kTogetherMax = 8;  // Calls put off to a round's end: none waits long.
constexpr std::uint64_t kWakeUp = ~std::uint64_t{0};
constexpr std::int64_t kNanosPerMilli = 1'000'000;

// What is known of one descriptor. A descriptor is told to the kernel once, edge-triggered, so that
// waiting costs no call; what comes while nobody waits is remembered here.
struct Slot {
  std::weak_ptr<Pollable> target;
  std::uint32_t generation =
      0;  // Of the slot: an event of a watch that has gone is not its heir's.
  bool used = false;
  bool reading = false;  // A call is asked for.
  bool writing = false;
  bool can_read = false;  // It became ready, and no call was made since.
  bool can_write = false;
  bool ended = false;  // The peer has finished, or there is an error: ready for ever.
};

class EpollLoop;

class EpollWatch final : public Watch {
 public:
  EpollWatch(EpollLoop& loop, std::uint32_t slot, int descriptor)
      : loop_(loop), slot_(slot), descriptor_(descriptor) {}
  ~EpollWatch() override;
  EpollWatch(const EpollWatch&) = delete;
  EpollWatch& operator=(const EpollWatch&) = delete;

  int descriptor() const override { return descriptor_; }
  void wait_readable() override;
  void wait_writable() override;
  bool yield_round() override;
  bool has_ended() const override;

 private:
  EpollLoop& loop_;
  const std::uint32_t slot_;
  const int descriptor_;
};

class EpollLoop final : public Loop {
 public:
  EpollLoop()
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    FALAJ_CHECK(epoll_ >= 0 && wake_ >= 0);
    add(wake_, EPOLLIN, kWakeUp);
    thread_ = std::thread([this] { run(); });
  }
  ~EpollLoop() override {
    stop();
    ::close(wake_);
    ::close(epoll_);
  }

  void post(std::function<void()> task) override {
    bool first = false;
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      first = tasks_.empty();
      tasks_.push_back(std::move(task));
    }
    // The loop looks at its tasks before it sleeps; and one signal is enough for all of them.
    if (first && std::this_thread::get_id() != thread_.get_id()) signal();
  }

  std::unique_ptr<Watch> watch(int descriptor, std::weak_ptr<Pollable> target) override {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    const std::uint32_t generation = slot.generation;
    slot = Slot{};
    slot.target = std::move(target);
    slot.generation = generation;
    slot.used = true;
    add(descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, tag_of(index));
    return std::make_unique<EpollWatch>(*this, index, descriptor);
  }

  void every(Duration interval, std::function<void()> tick) override {
    post([this, interval, tick = std::move(tick)]() mutable {
      timers_.push_back({monotonic_nanos() + interval.nanos, interval.nanos, std::move(tick)});
    });
  }

  void stop() override {
    {
      MutexLock lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
      tasks_.push_back([this] { running_ = false; });
    }
    signal();
    thread_.join();
    timers_.clear();
    // Those that came after the last one may hold the last reference to their objects.
    std::deque<std::function<void()>> dropped;
    MutexLock lock(mutex_);
    dropped.swap(tasks_);
  }

  // For watches.
  void want_read(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (std::exchange(slot.reading, true)) return;
    if (slot.can_read || slot.ended) ready_.push_back(tag_of(index));
  }
  void want_write(std::uint32_t index) {
    Slot& slot = slots_[index];
    if (std::exchange(slot.writing, true)) return;
    if (slot.can_write || slot.ended) ready_.push_back(tag_of(index));
  }
  bool has_ended(std::uint32_t index) const { return slots_[index].ended; }
  bool yield_round(std::uint32_t index) {
    if (!others_wait_) return false;
    round_end_.push_back(tag_of(index));
    return true;
  }
  void forget(std::uint32_t index, int descriptor) {
    ::close(descriptor);  // Takes it out of the kernel's list too: nobody shares the descriptor.
    Slot& slot = slots_[index];
    slot.used = false;
    slot.target.reset();
    ++slot.generation;
    free_.push_back(index);
  }

 private:
  struct Timer {
    std::int64_t due = 0;
    std::int64_t interval = 0;
    std::function<void()> tick;
  };

  std::uint64_t tag_of(std::uint32_t index) const {
    return (std::uint64_t{slots_[index].generation} << 32) | index;
  }

  void add(int descriptor, std::uint32_t events, std::uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    FALAJ_CHECK(::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0);
  }

  void signal() {
    const std::uint64_t one = 1;
    // It fails only when the counter is full: then the loop is awake.
    static_cast<void>(!::write(wake_, &one, sizeof one));
  }

  void run() {
    while (running_) {
      wait();
      deliver_ready();
      run_timers();
      run_tasks();
    }
  }

  void wait() {
    std::array<epoll_event, kEventsAtOnce> events;
    const int count = ::epoll_wait(epoll_, events.data(), kEventsAtOnce, timeout());
    FALAJ_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      others_wait_ = i + 1 < count || !round_end_.empty();
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kWakeUp) {
        std::uint64_t signals = 0;
        static_cast<void>(!::read(wake_, &signals, sizeof signals));
        continue;
      }
      Slot* const slot = slot_of(event.data.u64);
      if (slot == nullptr) continue;
      const bool ended = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      slot->ended = slot->ended || ended;
      slot->can_read = slot->can_read || ended || (event.events & EPOLLIN) != 0;
      slot->can_write = slot->can_write || ended || (event.events & EPOLLOUT) != 0;
      deliver(event.data.u64);
      if (round_end_.size() >= kTogetherMax) end_round();
    }
    end_round();
  }

  void end_round() {
    others_wait_ = false;
    if (round_end_.empty()) return;
    for (const std::uint64_t tag : round_end_) {
      Slot* const slot = slot_of(tag);
      if (slot == nullptr) continue;
      if (const auto target = slot->target.lock()) target->on_writable();
    }
    round_end_.clear();
  }

  // Null: the watch has gone.
  Slot* slot_of(std::uint64_t tag) {
    Slot& slot = slots_[static_cast<std::uint32_t>(tag)];
    return slot.used && slot.generation == static_cast<std::uint32_t>(tag >> 32) ? &slot : nullptr;
  }

  // Makes the calls that are asked for and due. A call may close the watch, or open others.
  void deliver(std::uint64_t tag) {
    Slot* slot = slot_of(tag);
    if (slot != nullptr && slot->reading && (slot->can_read || slot->ended)) {
      slot->reading = false;
      slot->can_read = false;
      if (const auto target = slot->target.lock()) target->on_readable();
    }
    slot = slot_of(tag);
    if (slot != nullptr && slot->writing && (slot->can_write || slot->ended)) {
      slot->writing = false;
      slot->can_write = false;
      if (const auto target = slot->target.lock()) target->on_writable();
    }
  }

  // Those that asked while they were ready already. What is asked meanwhile waits for the next
  // round, so that one descriptor cannot hold the loop.
  void deliver_ready() {
    std::vector<std::uint64_t> now;
    if (ready_.empty()) return;
    now.swap(ready_);
    for (const std::uint64_t tag : now) deliver(tag);
  }

  int timeout() {
    if (!ready_.empty()) return 0;
    {
      MutexLock lock(mutex_);
      if (!tasks_.empty()) return 0;
    }
    if (timers_.empty()) return -1;
    std::int64_t due = timers_.front().due;
    for (const Timer& timer : timers_) due = std::min(due, timer.due);
    const std::int64_t left = std::max<std::int64_t>(0, due - monotonic_nanos());
    return static_cast<int>(
        std::min<std::int64_t>((left + kNanosPerMilli - 1) / kNanosPerMilli, 60'000));
  }

  void run_timers() {
    if (timers_.empty()) return;
    const std::int64_t now = monotonic_nanos();
    for (Timer& timer : timers_) {
      if (timer.due > now) continue;
      timer.due = now + timer.interval;
      timer.tick();
    }
  }

  // Those posted meanwhile wait for the next round.
  void run_tasks() {
    std::deque<std::function<void()>> now;
    {
      MutexLock lock(mutex_);
      if (tasks_.empty()) return;
      now.swap(tasks_);
    }
    while (!now.empty() && running_) {
      const std::function<void()> task = std::move(now.front());
      now.pop_front();
      task();
    }
  }

  const int epoll_;
  const int wake_;
  Mutex mutex_;
  bool stopped_ FALAJ_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> tasks_ FALAJ_GUARDED_BY(mutex_);
  // The loop's thread only:
  bool running_ = true;
  std::deque<Slot> slots_;  // A deque: a slot stays where it is while others are added.
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> ready_;
  std::vector<std::uint64_t> round_end_;  // Those to be called when the round is over.
  bool others_wait_ = false;              // In this round.
  std::list<Timer> timers_;
  std::thread thread_;
};

EpollWatch::~EpollWatch() { loop_.forget(slot_, descriptor_); }
void EpollWatch::wait_readable() { loop_.want_read(slot_); }
void EpollWatch::wait_writable() { loop_.want_write(slot_); }
bool EpollWatch::yield_round() { return loop_.yield_round(slot_); }
bool EpollWatch::has_ended() const { return loop_.has_ended(slot_); }

}  // namespace

std::shared_ptr<Loop> Loop::start() { return std::make_shared<EpollLoop>(); }

}  // namespace falaj::net
