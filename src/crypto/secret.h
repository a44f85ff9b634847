// crypto/secret.h — bytes that must not outlive their use: keys, passphrases, opened secrets.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace falaj::crypto {

// Every symmetric key of Falaj has this size.
inline constexpr std::size_t kKeyBytes = 32;

// Overwrites memory in a way that the compiler may not leave out.
void wipe(void* data, std::size_t size);
void wipe(std::string& text);  // Its whole capacity; leaves it empty.

// Equal without telling by its time where they differ. Different lengths are unequal at once.
bool constant_time_equal(std::string_view a, std::string_view b);

// Owns secret bytes. Moves, never copies by itself (clone() says so); wiped when destroyed or moved
// over. Has no printing operator, so that a log line cannot take it. Not thread-safe to change.
class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(std::size_t size) : bytes_(size) {}  // Zeros.
  explicit SecretBytes(std::string_view bytes);             // The caller wipes its own copy.
  SecretBytes(SecretBytes&& other) noexcept = default;
  SecretBytes& operator=(SecretBytes&& other) noexcept;
  SecretBytes(const SecretBytes&) = delete;
  SecretBytes& operator=(const SecretBytes&) = delete;
  ~SecretBytes();

  SecretBytes clone() const;
  bool empty() const { return bytes_.empty(); }
  std::size_t size() const { return bytes_.size(); }
  unsigned char* data() { return bytes_.data(); }
  const unsigned char* data() const { return bytes_.data(); }
  std::span<unsigned char> span() { return bytes_; }
  // Valid while this lives; never keep a copy of it.
  std::string_view view() const;

 private:
  std::vector<unsigned char> bytes_;
};

}  // namespace falaj::crypto
