// storage/redis/resp.h — RESP2, the bytes that a Redis server speaks. Pure, bounded.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::storage::redis {

// Appends a command: its name and arguments, any bytes.
void append_command(std::string& out, std::initializer_list<std::string_view> words);
// The same in parts: `begin_command` with the number of words, then each word.
void begin_command(std::string& out, std::size_t words);
void append_word(std::string& out, std::string_view word);

struct RespLimits {
  std::size_t bulk_bytes_max = 64u << 20;
  std::size_t reply_bytes_max = 256u << 20;  // Of RespTree: texts, and 64 bytes for each item.
};

// One element of a reply. An array is its count; its elements follow as tokens of their own.
struct RespToken {
  enum class Kind : std::uint8_t { kText, kError, kInteger, kBulk, kNull, kArray };
  Kind kind = Kind::kNull;
  std::string_view text;    // Of kText, kError and kBulk: inside the bytes that were given.
  std::int64_t number = 0;  // Of kInteger; of kArray the count, never negative.
  std::size_t size = 0;     // How many bytes it took.
};

// The first token of `bytes`; nullopt when it is not whole yet. FJ-8009 for what is no RESP2 or
// over the limits. Costs the same however much of a long text is there already.
Result<std::optional<RespToken>> parse_token(std::string_view bytes, const RespLimits& limits);

// A whole reply.
struct RespValue {
  RespToken::Kind kind = RespToken::Kind::kNull;
  std::string text;
  std::int64_t number = 0;
  std::vector<RespValue> items;

  bool is(std::string_view status) const {
    return kind == RespToken::Kind::kText && text == status;
  }
  bool is_error() const { return kind == RespToken::Kind::kError; }
};

// Puts tokens together. Arrays nest four deep at most: no command of ours has deeper replies.
class RespTree {
 public:
  explicit RespTree(const RespLimits& limits) : limits_(limits) {}
  enum class State : std::uint8_t { kNeedMore, kDone };
  // FJ-8009 over the limits. Not called again after kDone before take().
  Result<State> put(const RespToken& token);
  // After kDone; then the next reply may come.
  RespValue take();

 private:
  struct Level {
    RespValue array;
    std::int64_t missing = 0;
  };
  const RespLimits limits_;
  std::size_t bytes_ = 0;
  std::vector<Level> open_;
  RespValue done_;
};

}  // namespace falaj::storage::redis
