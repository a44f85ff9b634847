// serving/response_cache.h — answers of one deployment that were given before, in memory only.
//
// A model that is asked the same question gives the same answer: who declares a cache says so of
// its model. Keys are hashes that nobody can make collide; an answer is kept until the bytes are
// needed for one that was used since. Equal questions that come at once run the model once: the
// first runs, the others wait for it. Failures are neither kept nor shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "serving/batching/plan.h"
#include "serving/runtime.h"

namespace falaj::serving {

using KeptOutputs = std::shared_ptr<const std::vector<Tensor>>;

// Of everything that makes an answer what it is, and of whom it is kept for ("": of all who may
// ask the deployment). The order of the inputs is no part of it. All outputs are kept: which of
// them a request wants is no part of it either.
Sha256 question_key(std::string_view model_digest, std::string_view caller,
                    std::span<const Tensor> inputs);

// Thread-safe; every call takes a lock for a look-up.
class ResponseCache {
 public:
  explicit ResponseCache(std::size_t bytes_max);

  // How long a question may take. One waits only for another of the same priority that is to be
  // answered no later than itself: else it runs.
  struct Urgency {
    std::uint32_t priority = 0;
    std::int64_t deadline = batching::kNoDeadline;
  };
  // Called once: with the answer, or with null when who ran got none. Then each runs by itself.
  using Waiter = std::function<void(const KeptOutputs&)>;

  struct Asked {
    enum class How : std::uint8_t { kKept, kRun, kWait } how = How::kRun;
    KeptOutputs outputs;           // kKept
    std::uint64_t flight = 0;      // kRun: for finish(); 0: others do not wait for it.
    std::uint64_t generation = 0;  // kRun: for finish().
  };
  // kKept: there it is. kRun: the caller runs the model and tells finish() how it went. kWait: what
  // `park` gave is called then; park is called with the lock held, and only for that.
  Asked ask(const Sha256& key, const Urgency& urgency, const std::function<Waiter()>& park);

  struct Finished {
    std::vector<Waiter> waiters;  // For the caller to call, with the same outputs.
    std::size_t evicted = 0;      // Answers that had to go.
  };
  // `outputs` null: there is no answer. Otherwise it is kept, unless clear() was called since it
  // was asked or it is larger than the cache.
  Finished finish(const Sha256& key, const Asked& asked, const KeptOutputs& outputs);

  // The same for who can neither wait nor be waited for: kKept or kRun.
  Asked look(const Sha256& key);

  // Drops every answer. What runs meanwhile is answered and not kept.
  void clear();

  std::size_t bytes() const;
  std::size_t bytes_max() const { return bytes_max_; }

 private:
  struct KeyHash {
    std::size_t operator()(const Sha256& key) const;
  };
  struct Entry {
    Sha256 key;
    KeptOutputs outputs;
    std::size_t bytes = 0;
  };
  struct Flight {
    std::uint64_t id = 0;
    Urgency urgency;
    std::vector<Waiter> waiters;
  };
  KeptOutputs look_up(const Sha256& key) FALAJ_REQUIRES(mutex_);
  std::size_t keep(const Sha256& key, const KeptOutputs& outputs) FALAJ_REQUIRES(mutex_);

  // Of one flight. Whoever comes later runs by itself.
  static constexpr std::size_t kWaitersMax = 1024;

  const std::size_t bytes_max_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ FALAJ_GUARDED_BY(mutex_);  // Used last, first.
  std::unordered_map<Sha256, std::list<Entry>::iterator, KeyHash> index_ FALAJ_GUARDED_BY(mutex_);
  std::unordered_map<Sha256, Flight, KeyHash> flights_ FALAJ_GUARDED_BY(mutex_);
  std::size_t bytes_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t flight_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::uint64_t generation_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace falaj::serving
