#include "security/identity/throttle.h"

#include <algorithm>

namespace falaj::security {
namespace {

std::string name_key(std::string_view name) { return "n:" + std::string(name.substr(0, 256)); }
std::string address_key(std::string_view address) { return "a:" + std::string(address); }

}  // namespace

std::optional<Duration> LoginThrottle::wait(std::string_view name, std::string_view address,
                                            Timestamp now) const {
  MutexLock lock(mutex_);
  Timestamp until = now;
  for (const std::string& key : {name_key(name), address_key(address)}) {
    const auto found = entries_.find(key);
    if (found != entries_.end()) until = std::max(until, found->second.until);
  }
  if (until <= now) return std::nullopt;
  return until - now;
}

void LoginThrottle::failed(std::string_view name, std::string_view address, Timestamp now) {
  MutexLock lock(mutex_);
  make_room(now);
  count(name_key(name), options_.name_wait_max, now);
  count(address_key(address), options_.address_wait_max, now);
}

void LoginThrottle::succeeded(std::string_view name) {
  MutexLock lock(mutex_);
  entries_.erase(name_key(name));
}

std::size_t LoginThrottle::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

void LoginThrottle::count(const std::string& key, Duration wait_max, Timestamp now) {
  Entry& entry = entries_[key];
  if (now - entry.last > options_.forget_after) entry = {};
  entry.last = now;
  ++entry.failures;
  const int over = entry.failures - options_.free_failures;
  if (over < 0) return;
  const std::int64_t doubled = options_.first_wait.nanos << std::min(over, 20);
  entry.until = now + std::min(Duration{doubled}, wait_max);
}

void LoginThrottle::make_room(Timestamp now) {
  if (entries_.size() + 2 <= options_.entries_max) return;
  std::erase_if(entries_,
                [&](const auto& item) { return now - item.second.last > options_.forget_after; });
  while (entries_.size() + 2 > options_.entries_max) {
    // Those who failed least: a flood of fresh names must not free the ones who are held back.
    const auto least = std::ranges::min_element(entries_, {}, [](const auto& item) {
      return std::pair(item.second.failures, item.second.last.nanos);
    });
    entries_.erase(least);
  }
}

}  // namespace falaj::security
