#include "security/access/rate_limit.h"

#include <algorithm>

namespace falaj::security::access {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr Duration kSweepEvery = Duration::milliseconds(100);

}  // namespace

std::int64_t& RateLimiter::slot(Shard& shard, std::string_view key, Timestamp now) {
  auto& keys = shard.busy_until;
  const auto found = keys.find(key);
  if (found != keys.end()) return found->second;
  // Seldom: a full table must not make every request pay for a sweep.
  const bool sweep =
      keys.size() >= kKeysMax && (now < shard.swept_at || now > shard.swept_at + kSweepEvery);
  if (sweep) {
    shard.swept_at = now;
    std::erase_if(keys, [&](const auto& entry) { return entry.second <= now.nanos; });
  }
  if (keys.size() >= kKeysMax) key = "";
  return keys[std::string(key)];
}

std::optional<Duration> RateLimiter::take(std::string_view key, std::int64_t per_second,
                                          Timestamp now) {
  const std::int64_t each = std::max<std::int64_t>(kSecond / per_second, 1);
  const std::int64_t ahead_max = std::max(kSecond - each, std::int64_t{0});
  Shard& shard = shards_[TextHash{}(key) % kShards];
  MutexLock lock(shard.mutex);
  std::int64_t& busy_until = slot(shard, key, now);
  // A clock that was set back must not lock anyone out: nobody is ever busy for over a second.
  if (busy_until - now.nanos > kSecond) busy_until = now.nanos + ahead_max;
  const std::int64_t ahead = std::max(busy_until - now.nanos, std::int64_t{0});
  if (ahead > ahead_max) return Duration{ahead - ahead_max};
  busy_until = std::max(busy_until, now.nanos) + each;
  return std::nullopt;
}

std::int64_t retry_after_seconds(Duration wait) {
  return std::max<std::int64_t>((wait.nanos + kSecond - 1) / kSecond, 1);
}

}  // namespace falaj::security::access
