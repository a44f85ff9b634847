#include "crypto/random.h"

#include <sys/random.h>
#include <cerrno>

#include "base/check.h"

namespace falaj::crypto {
namespace {

class SystemRandom final : public Random {
 public:
  void fill(void* out, std::size_t size) override {
    auto* next = static_cast<unsigned char*>(out);
    while (size > 0) {
      const ssize_t got = getrandom(next, size, 0);
      if (got < 0 && errno == EINTR) continue;
      FALAJ_CHECK(got > 0);  // The kernel gives no random bytes: nothing may be encrypted.
      next += got;
      size -= static_cast<std::size_t>(got);
    }
  }
};

}  // namespace

std::string Random::bytes(std::size_t size) {
  std::string out(size, '\0');
  fill(out.data(), out.size());
  return out;
}

SecretBytes Random::secret(std::size_t size) {
  SecretBytes out(size);
  fill(out.data(), out.size());
  return out;
}

std::string Random::hex_id(std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes(size)) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

Random& system_random() {
  static SystemRandom random;
  return random;
}

}  // namespace falaj::crypto
