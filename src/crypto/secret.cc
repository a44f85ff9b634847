#include "crypto/secret.h"

#include <openssl/crypto.h>

namespace falaj::crypto {

void wipe(void* data, std::size_t size) {
  if (data != nullptr && size > 0) OPENSSL_cleanse(data, size);
}

void wipe(std::string& text) {
  text.resize(text.capacity());  // What an earlier, longer content left behind goes too.
  wipe(text.data(), text.size());
  text.clear();
}

bool constant_time_equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

SecretBytes::SecretBytes(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {}

SecretBytes& SecretBytes::operator=(SecretBytes&& other) noexcept {
  if (this != &other) {
    wipe(bytes_.data(), bytes_.size());
    bytes_ = std::move(other.bytes_);
    other.bytes_.clear();
  }
  return *this;
}

SecretBytes::~SecretBytes() { wipe(bytes_.data(), bytes_.size()); }

SecretBytes SecretBytes::clone() const { return SecretBytes(view()); }

std::string_view SecretBytes::view() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

}  // namespace falaj::crypto
