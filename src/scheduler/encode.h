// scheduler/encode.h — numbers as little-endian bytes, the same on every machine, for digests
// and for what is kept of a decision.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/hash.h"
#include "scheduler/policy.h"
#include "scheduler/snapshot.h"

namespace falaj::scheduler {

class Encoder {
 public:
  template <class... T>
  void put(T... values) {
    (put_one(values), ...);
  }
  void text(std::string_view value);
  void bytes(std::span<const std::uint8_t> value);
  void placement(const Placement& placement);
  // The length, then each element.
  template <class List, class Each>
  void list(const List& values, Each each) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const auto& value : values) each(value);
  }
  const std::string& str() const { return out_; }
  std::string take() && { return std::move(out_); }
  void clear() { out_.clear(); }

 private:
  template <class T>
  void put_one(T value) {
    if constexpr (std::is_same_v<T, Timestamp> || std::is_same_v<T, Duration>) {
      put_one(value.nanos);
    } else if constexpr (std::is_enum_v<T>) {
      put_one(static_cast<std::underlying_type_t<T>>(value));
    } else {
      static_assert(std::is_integral_v<T>);
      auto rest = static_cast<std::make_unsigned_t<T>>(value);
      char raw[sizeof(T)];
      for (char& byte : raw) {
        byte = static_cast<char>(rest & 0xff);
        rest = static_cast<decltype(rest)>(static_cast<std::uint64_t>(rest) >> 8);
      }
      out_.append(raw, sizeof(T));
    }
  }

  std::string out_;
};

// What was decided upon, and back. The bytes are those that the digests are of. Decoding refuses
// (kInvalidArgument) what ends too early or too late or names a word that there is not; whether
// positions exist is for check(Snapshot) to say.
std::string encode(const Snapshot& snapshot);
std::string encode(const Policy& policy);
Result<Snapshot> decode_snapshot(std::string_view bytes);
Result<Policy> decode_policy(std::string_view bytes);

// What a certificate says was decided upon. Cost: about a millisecond a megabyte.
Sha256 digest(const Snapshot& snapshot);
Sha256 digest(const Policy& policy);

}  // namespace falaj::scheduler
