// crypto/password.h — passwords of people: Argon2id, slow on purpose and bounded on purpose.
//
// One hash takes tens of milliseconds and `memory` bytes, so a flood of logins is a flood of
// memory: at most `concurrent` hashes run at once, at most `waiting_max` callers wait for a turn,
// and the rest are told to come back (FJ-7016). Cost parameters and salt stand in the encoded text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"

namespace falaj::crypto {

struct PasswordOptions {
  std::uint64_t passes = 2;
  std::size_t memory = std::size_t{19} << 20;  // OWASP's minimum for two passes.
  std::size_t concurrent = 2;
  std::size_t waiting_max = 32;
};

inline constexpr std::size_t kPasswordBytesMin = 12;
inline constexpr std::size_t kPasswordBytesMax = 1024;

// FJ-1006 when a new password is too short, too long, not UTF-8, or one character repeated.
Status check_new_password(std::string_view password);

enum class PasswordMatch : std::uint8_t { kNo, kYes, kYesButOutdated };

// Thread-safe. Every call blocks for a hash: never on an event-loop thread.
class Passwords {
 public:
  explicit Passwords(const PasswordOptions& options);

  // The text to store: "$argon2id$v=19$m=…". FJ-7016 when too many are already waiting.
  Result<std::string> hash(std::string_view password);
  // `encoded` == "" stands for a user that does not exist: the same work is done on a decoy and the
  // answer is kNo. kYesButOutdated: hash it again, its cost is no longer the one wanted.
  Result<PasswordMatch> verify(std::string_view password, const std::string& encoded);

 private:
  class Turn;
  Result<std::string> hash_in_turn(std::string_view password);

  const PasswordOptions options_;
  std::string decoy_;
  Mutex mutex_;
  CondVar freed_;
  std::size_t running_ FALAJ_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace falaj::crypto
