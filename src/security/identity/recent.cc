#include "security/identity/recent.h"

#include "crypto/kdf.h"

namespace falaj::security {

std::string RecentlyProven::hash_of(std::string_view credential) const {
  return crypto::hmac_sha256(key_.view(), credential);
}

PrincipalPtr RecentlyProven::find(std::string_view credential, std::uint64_t generation,
                                  Timestamp now) const {
  const std::string hash = hash_of(credential);
  const Shard& shard = shards_[static_cast<unsigned char>(hash[0]) % kShards];
  MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(hash);
  if (found == shard.entries.end()) return nullptr;
  const Entry& entry = found->second;
  if (entry.generation != generation || now >= entry.until) return nullptr;
  return entry.principal;
}

void RecentlyProven::keep(std::string_view credential, std::uint64_t generation, Timestamp until,
                          PrincipalPtr principal) {
  std::string hash = hash_of(credential);
  Shard& shard = shards_[static_cast<unsigned char>(hash[0]) % kShards];
  MutexLock lock(shard.mutex);
  // Full: all of it goes. What is in use comes back with the next request.
  if (shard.entries.size() >= kEntriesMax) shard.entries.clear();
  shard.entries.insert_or_assign(std::move(hash), Entry{std::move(principal), generation, until});
}

}  // namespace falaj::security
