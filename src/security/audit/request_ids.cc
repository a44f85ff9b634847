#include "security/audit/request_ids.h"

#include "base/hash.h"
#include "crypto/kdf.h"
#include "crypto/random.h"

namespace falaj::security {
namespace {

constexpr std::size_t kIdDigits = 16;  // As of the ids that the server makes.
constexpr std::size_t kKeyBytes = 32;

// Of this process alone and kept nowhere: whoever has the log cannot try ids against it.
const std::string& key_of_process() {
  static const std::string key = crypto::system_random().bytes(kKeyBytes);
  return key;
}

}  // namespace

std::string carry_chosen_id(std::string_view principal, std::string_view chosen) {
  std::string message(principal);
  message.append(1, '\0').append(chosen);
  const std::string tag = sha256_hex(crypto::hmac_sha256(key_of_process(), message));
  return tag.substr(0, kIdDigits) + " " + std::string(chosen);
}

RequestIds request_ids_of(std::string_view carried) {
  const std::size_t blank = carried.find(' ');
  if (blank == std::string_view::npos) return {carried, ""};
  return {carried.substr(0, blank), carried.substr(blank + 1)};
}

}  // namespace falaj::security
