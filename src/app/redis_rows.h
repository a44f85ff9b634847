// app/redis_rows.h — online rows in Redis, over the sockets and TLS of `net`.
#pragma once

#include <memory>

#include "app/options.h"
#include "security/keys/key_tree.h"
#include "storage/redis/redis.h"

namespace falaj::app {

// How connections to the server of `settings` are made. FJ-8010 for an address that cannot be read,
// for a plain one beyond this machine, for one whose zone is not named, and for certificates that
// cannot be used.
Result<storage::redis::Dial> dial_redis(const RedisSettings& settings);

// Reads the password, connects and looks at the server: errors as storage/redis/redis.h. `keys`
// give the name under which this deployment claims its prefix; they are not kept. `embedded` is the
// folder in which RocksDB would keep the rows: if it is there, the rows were moved; then what Redis
// has is deleted first, and the folder once that is done. Both are copies: they are made again.
Result<std::unique_ptr<storage::redis::RedisRows>> open_redis_rows(const RedisSettings& settings,
                                                                   security::keys::KeyTree& keys,
                                                                   const std::string& embedded);

}  // namespace falaj::app
