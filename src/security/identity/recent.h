// security/identity/recent.h — credentials that were just proven, so that a client which sends its
// password or JWT with every request is not slowed by every request.
//
// Holds no credential: the key is a keyed hash of it under a key that lives only in this process.
// Whatever changes users or tokens raises the generation, and everything older is forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "base/time.h"
#include "crypto/random.h"
#include "security/context.h"

namespace falaj::security {

// Thread-safe; short sharded locks; never blocks for long.
class RecentlyProven {
 public:
  explicit RecentlyProven(crypto::Random& random) : key_(random.key()) {}

  // null when it was not proven in this generation, or no longer holds.
  PrincipalPtr find(std::string_view credential, std::uint64_t generation, Timestamp now) const;
  void keep(std::string_view credential, std::uint64_t generation, Timestamp until,
            PrincipalPtr principal);

 private:
  struct Entry {
    PrincipalPtr principal;
    std::uint64_t generation = 0;
    Timestamp until{};
  };
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kEntriesMax = 512;  // Of one shard.
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::unordered_map<std::string, Entry> entries FALAJ_GUARDED_BY(mutex);
  };
  std::string hash_of(std::string_view credential) const;

  crypto::SecretBytes key_;
  std::array<Shard, kShards> shards_;
};

}  // namespace falaj::security
