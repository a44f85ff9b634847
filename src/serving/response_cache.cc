#include "serving/response_cache.h"

#include <algorithm>
#include <cstring>

namespace falaj::serving {
namespace {

// What an entry costs beside its tensors: nodes of the list and of the index, counts, allocations.
constexpr std::size_t kEntryBytes = 320;
constexpr std::size_t kTensorBytes = sizeof(Tensor) + 64;

// Lengths go before what they are of, so that no two questions are written alike.
class Question {
 public:
  void number(std::uint64_t value) {
    hasher_.update(std::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
  }
  void text(std::string_view value) {
    number(value.size());
    hasher_.update(value);
  }
  Sha256 finish() { return hasher_.finish(); }

 private:
  Sha256Hasher hasher_;
};

std::size_t bytes_of(const std::vector<Tensor>& outputs) {
  std::size_t bytes = kEntryBytes;
  for (const Tensor& tensor : outputs) {
    bytes += kTensorBytes + tensor.name.size() + tensor.datatype.size() +
             tensor.shape.size() * sizeof(std::int64_t) + tensor.bytes.size();
  }
  return bytes;
}

}  // namespace

Sha256 question_key(std::string_view model_digest, std::string_view caller,
                    std::span<const Tensor> inputs) {
  std::vector<const Tensor*> ordered;
  for (const Tensor& input : inputs) ordered.push_back(&input);
  std::sort(ordered.begin(), ordered.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  Question question;
  question.text(model_digest);
  question.text(caller);
  question.number(ordered.size());
  for (const Tensor* input : ordered) {
    question.text(input->name);
    question.text(input->datatype);
    question.number(input->shape.size());
    for (const std::int64_t dim : input->shape) question.number(static_cast<std::uint64_t>(dim));
    question.text(input->bytes);
  }
  return question.finish();
}

std::size_t ResponseCache::KeyHash::operator()(const Sha256& key) const {
  std::size_t hash = 0;
  std::memcpy(&hash, key.bytes.data(), sizeof(hash));
  return hash;
}

ResponseCache::ResponseCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

KeptOutputs ResponseCache::look_up(const Sha256& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->outputs;
}

ResponseCache::Asked ResponseCache::look(const Sha256& key) {
  MutexLock lock(mutex_);
  if (KeptOutputs outputs = look_up(key)) return {Asked::How::kKept, std::move(outputs), 0, 0};
  return {Asked::How::kRun, nullptr, 0, generation_};
}

ResponseCache::Asked ResponseCache::ask(const Sha256& key, const Urgency& urgency,
                                        const std::function<Waiter()>& park) {
  MutexLock lock(mutex_);
  if (KeptOutputs outputs = look_up(key)) return {Asked::How::kKept, std::move(outputs), 0, 0};
  const auto [at, first] = flights_.try_emplace(key);
  Flight& flight = at->second;
  if (first) {
    flight.id = ++flight_;
    flight.urgency = urgency;
    return {Asked::How::kRun, nullptr, flight.id, generation_};
  }
  const bool can_wait = urgency.priority == flight.urgency.priority &&
                        urgency.deadline >= flight.urgency.deadline &&
                        flight.waiters.size() < kWaitersMax;
  if (!can_wait) return {Asked::How::kRun, nullptr, 0, generation_};
  flight.waiters.push_back(park());
  return {Asked::How::kWait, nullptr, 0, 0};
}

ResponseCache::Finished ResponseCache::finish(const Sha256& key, const Asked& asked,
                                              const KeptOutputs& outputs) {
  Finished finished;
  MutexLock lock(mutex_);
  const auto flight = flights_.find(key);
  // An answer is good for all who wait, whoever ran for it; a failure is that of one's own flight.
  if (flight != flights_.end() && (outputs != nullptr || flight->second.id == asked.flight)) {
    finished.waiters = std::move(flight->second.waiters);
    flights_.erase(flight);
  }
  if (outputs != nullptr && asked.generation == generation_) finished.evicted = keep(key, outputs);
  return finished;
}

std::size_t ResponseCache::keep(const Sha256& key, const KeptOutputs& outputs) {
  const std::size_t bytes = bytes_of(*outputs);
  if (bytes > bytes_max_ || index_.contains(key)) return 0;
  std::size_t evicted = 0;
  while (bytes_ + bytes > bytes_max_) {
    bytes_ -= entries_.back().bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
    ++evicted;
  }
  entries_.push_front({key, outputs, bytes});
  index_.emplace(key, entries_.begin());
  bytes_ += bytes;
  return evicted;
}

void ResponseCache::clear() {
  MutexLock lock(mutex_);
  index_.clear();
  entries_.clear();
  bytes_ = 0;
  ++generation_;
}

std::size_t ResponseCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace falaj::serving
