// security/access/rate_limit.h — so many requests a second, per key (a principal, a project).
//
// A key may use one second's worth at once, then gets its rate evenly (GCRA: one number a key).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "base/time.h"

namespace falaj::security::access {

// Thread-safe. Holds a bounded number of keys: those at rest are forgotten, which loses nothing;
// when all are busy, further keys share one allowance.
class RateLimiter {
 public:
  // nullopt: go on. Otherwise how long until a request would be let through. `per_second` > 0.
  // Cost: one short lock, a hash look-up.
  std::optional<Duration> take(std::string_view key, std::int64_t per_second, Timestamp now);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kKeysMax = 4096;  // Of one shard.
  struct alignas(64) Shard {
    Mutex mutex;
    // When the key will be at rest again, in nanoseconds.
    std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> busy_until
        FALAJ_GUARDED_BY(mutex);
    Timestamp swept_at FALAJ_GUARDED_BY(mutex) = Timestamp::min();
  };
  static std::int64_t& slot(Shard& shard, std::string_view key, Timestamp now)
      FALAJ_REQUIRES(shard.mutex);

  std::array<Shard, kShards> shards_;
};

// Whole seconds for a Retry-After header: rounded up, at least 1.
std::int64_t retry_after_seconds(Duration wait);

}  // namespace falaj::security::access
