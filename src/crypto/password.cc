#include "crypto/password.h"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/json.h"
#include "crypto/random.h"

namespace falaj::crypto {

// One of the places at the stove; given back when it goes.
class Passwords::Turn {
 public:
  explicit Turn(Passwords& owner) : owner_(owner) {
    MutexLock lock(owner_.mutex_);
    if (owner_.running_ >= owner_.options_.concurrent) {
      if (owner_.waiting_ >= owner_.options_.waiting_max) return;
      ++owner_.waiting_;
      owner_.freed_.wait(owner_.mutex_, [&]() FALAJ_REQUIRES(owner_.mutex_) {
        return owner_.running_ < owner_.options_.concurrent;
      });
      --owner_.waiting_;
    }
    ++owner_.running_;
    taken_ = true;
  }
  ~Turn() {
    if (!taken_) return;
    MutexLock lock(owner_.mutex_);
    --owner_.running_;
    owner_.freed_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool taken() const { return taken_; }

 private:
  Passwords& owner_;
  bool taken_ = false;
};

namespace {

Error too_busy() {
  return {ErrorId::kRateLimited,
          "too many sign-ins are being checked at once; try again in a second"};
}

}  // namespace

Status check_new_password(std::string_view password) {
  if (password.size() < kPasswordBytesMin || password.size() > kPasswordBytesMax) {
    return Error{ErrorId::kOutOfRange, "a password has " + std::to_string(kPasswordBytesMin) +
                                           " to " + std::to_string(kPasswordBytesMax) +
                                           " bytes; this one has " +
                                           std::to_string(password.size())};
  }
  if (!is_valid_utf8(password)) return Error{ErrorId::kInvalidUtf8, "the password is not UTF-8"};
  if (std::ranges::all_of(password, [&](char c) { return c == password.front(); })) {
    return Error{ErrorId::kOutOfRange, "a password is not one character over and over"};
  }
  return {};
}

Passwords::Passwords(const PasswordOptions& options) : options_(options) {
  FALAJ_CHECK(sodium_init() >= 0);
  FALAJ_CHECK(options.concurrent > 0);
  Result<std::string> decoy = hash_in_turn(system_random().hex_id());
  FALAJ_CHECK(decoy.ok());
  decoy_ = std::move(decoy).value();
}

Result<std::string> Passwords::hash_in_turn(std::string_view password) {
  std::array<char, crypto_pwhash_argon2id_STRBYTES> text{};
  if (crypto_pwhash_argon2id_str(text.data(), password.data(), password.size(), options_.passes,
                                 options_.memory) != 0) {
    return Error{Code::kResourceExhausted, "no memory to hash a password"};
  }
  return std::string(text.data());
}

Result<std::string> Passwords::hash(std::string_view password) {
  const Turn turn(*this);
  if (!turn.taken()) return too_busy();
  return hash_in_turn(password);
}

Result<PasswordMatch> Passwords::verify(std::string_view password, const std::string& encoded) {
  if (password.size() > kPasswordBytesMax) return PasswordMatch::kNo;
  const Turn turn(*this);
  if (!turn.taken()) return too_busy();
  const bool known = !encoded.empty() && encoded.size() < crypto_pwhash_argon2id_STRBYTES;
  const std::string& against = known ? encoded : decoy_;
  const bool equal =
      crypto_pwhash_argon2id_str_verify(against.c_str(), password.data(), password.size()) == 0;
  if (!known || !equal) return PasswordMatch::kNo;
  const int outdated =
      crypto_pwhash_argon2id_str_needs_rehash(encoded.c_str(), options_.passes, options_.memory);
  return outdated == 0 ? PasswordMatch::kYes : PasswordMatch::kYesButOutdated;
}

}  // namespace falaj::crypto
