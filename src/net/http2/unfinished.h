// net/http2/unfinished.h — messages that have begun and are not whole, in the order in which they
// give up their room when a server has none left.
//
// A client without a credential can begin messages on many connections and never end them. What
// it holds must not be what others wait for: whoever the gate has not let through yet goes before
// whoever it has, and of equals the oldest, for an honest message is soon whole. Pure; not
// thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

namespace falaj::net {

class H2Connection;

struct Turn {
  enum class Caller : std::uint8_t { kUnknown, kLetThrough };
  Caller caller = Caller::kUnknown;
  std::int64_t since = 0;    // Monotonic.
  std::uint64_t number = 0;  // Of no other message.
  auto operator<=>(const Turn&) const = default;
};

class UnfinishedMessages {
 public:
  struct Place {
    H2Connection* connection;  // Takes its messages out before it goes.
    std::int32_t call;
  };

  // A number for a Turn.
  std::uint64_t next_number() { return ++last_; }
  void add(const Turn& turn, Place place) { by_turn_.emplace(turn, place); }
  void remove(const Turn& turn) { by_turn_.erase(turn); }
  // Whose message gives way to `asking`, whether or not that is in here: the first of all, if that
  // comes before it.
  std::optional<Place> gives_way_to(const Turn& asking) const {
    if (by_turn_.empty() || !(by_turn_.begin()->first < asking)) return std::nullopt;
    return by_turn_.begin()->second;
  }

 private:
  std::map<Turn, Place> by_turn_;
  std::uint64_t last_ = 0;
};

}  // namespace falaj::net
