// storage/redis/url.h — the address of a Redis server, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::storage::redis {

struct Url {
  enum class Scheme : std::uint8_t { kPlain, kTls } scheme = Scheme::kPlain;
  std::string user;  // "": none was named.
  std::string host;  // Without brackets.
  std::uint16_t port = 6379;
  std::int64_t database = 0;
  // "rediss://cache.bank.example:6380/2": without the user.
  std::string shown() const;
};

// "redis://" or "rediss://", [user@], a name or address ([::1] in brackets), [:port], [/database].
// kInvalidArgument with an example; of a text with a password without repeating it, for it is
// logged.
Result<Url> parse_url(std::string_view text);

}  // namespace falaj::storage::redis
