// storage/redis/redis.h — online rows in a Redis server that an enterprise already runs.
//
// One hash an owner: `<prefix>rows:<32 hexadecimal digits of the owner's hash>`, a field a row. The
// server sees names and values as they are given: sealed, when security/sealed/kv.h stands above.
// `<prefix>holder` says whose rows they are, so that two deployments never share them.
//
// What is acknowledged must be durable, so the server has to be told so:
//   appendonly yes, appendfsync always      else a crash loses what was acknowledged
//   maxmemory-policy noeviction             or a volatile-… one: ours never expire
// Every new connection looks (CONFIG GET) and refuses a server that is set up otherwise (FJ-8010).
// One that does not let itself be asked has to be vouched for: Durability::kVouchedFor, which only
// warns. With `replicas_min` a write also waits until so many replicas have it.
//
// Spoken is RESP2 of Redis 6 and newer, to one server (or a proxy in front): no Cluster, no
// Sentinel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "storage/kv.h"

namespace falaj::storage::redis {

// A connected stream of bytes, plain or TLS; `app` brings it, for `storage` knows no sockets. One
// thread at a time. `deadline` is monotonic nanoseconds.
class Link {
 public:
  virtual ~Link() = default;
  // Writes all of it.
  virtual Status write(std::string_view bytes, std::int64_t deadline) = 0;
  // At least one byte, or 0 when the server ended the connection.
  virtual Result<std::size_t> read(std::span<char> into, std::int64_t deadline) = 0;
  // True when the server has closed: not to be used again.
  virtual bool is_stale() const = 0;
};
// Connects, within a limit of its own. Thread-safe.
using Dial = std::function<Result<std::unique_ptr<Link>>()>;

struct Options {
  std::string name;      // For messages: "rediss://cache.bank.example:6380/2". No password.
  std::string user;      // "": the default user.
  std::string password;  // "": AUTH is not sent.
  std::int64_t database = 0;
  std::string prefix = "falaj:";  // Of every key; without the signs of patterns, * ? [ ].
  std::string holder;             // Names this deployment; says nothing to others.
  enum class Durability : std::uint8_t { kChecked, kVouchedFor } durability = Durability::kChecked;
  std::int64_t replicas_min = 0;
  // kEmpty deletes all rows under the prefix first: they are older than what another store held
  // since, and may hold what was erased there.
  enum class Begin : std::uint8_t { kAsItIs, kEmpty } begin = Begin::kAsItIs;
  Duration reply_timeout = Duration::seconds(10);  // Of a call; of a scan, for each row.
  Duration backoff_min = Duration::milliseconds(100);
  Duration backoff_max = Duration::seconds(5);
  std::size_t value_bytes_max = 64u << 20;   // Of one value in a reply.
  std::size_t reply_bytes_max = 256u << 20;  // Of a reply that is kept whole.
  std::function<std::int64_t()> now = monotonic_nanos;
};

class RedisRows : public KvStore {
 public:
  // Whether no owner has a row, as after FLUSHDB. Asks through all keys of the database.
  virtual Result<bool> empty() const = 0;
};

// Connects once and looks at the server. Then as many connections as calls at once, of which eight
// are kept for the next. FJ-8009 when nobody answers, the reply is not Redis's or does not come in
// time; FJ-8010 for a server that is set up otherwise, refuses the user or holds the rows of
// another deployment.
//
// Of the store: a call that fails says so and the next one connects again; after failed attempts
// calls fail at once, for a time that doubles from backoff_min to backoff_max. A read whose kept
// connection broke is asked once more; a write never is: one that failed with FJ-8009 may have
// been done or not, wholly or not at all. get_many() pipelines. scan() streams one HGETALL: the
// server makes that reply as a whole, which costs it the owner's rows once more in memory and stops
// it meanwhile. purge() has the server rewrite its log, and its snapshot where it makes them, and
// waits for that. copy_to(): there are no files.
Result<std::unique_ptr<RedisRows>> open_redis(Dial dial, Options options);

}  // namespace falaj::storage::redis
