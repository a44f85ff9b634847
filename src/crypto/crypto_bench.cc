// What encryption costs on one core. By hand: ninja crypto_bench; prints min and median of 7.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "base/time.h"
#include "crypto/aead.h"
#include "crypto/kdf.h"
#include "crypto/stream.h"

namespace falaj::crypto {
namespace {

volatile unsigned char sink;

// Seconds of each of seven runs, sorted.
std::vector<double> times(const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const std::int64_t start = monotonic_nanos();
    body();
    seconds.push_back(static_cast<double>(monotonic_nanos() - start) * 1e-9);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

void print_rate(const char* what, double amount, const char* unit,
                const std::function<void()>& body) {
  const std::vector<double> seconds = times(body);
  std::printf("%-34s %10.3f %s median, %10.3f best\n", what, amount / seconds[3], unit,
              amount / seconds[0]);
}

void gcm(std::size_t block) {
  const SecretBytes key = system_random().key();
  const std::string text = system_random().bytes(block);
  std::string out(block + kTagBytes, '\0');
  Aes256Gcm cipher(key.view(), Aes256Gcm::Use::kSeal);
  const std::size_t rounds = (std::size_t{256} << 20) / block;
  const std::string name = "AES-256-GCM seal, " + std::to_string(block) + " B";
  print_rate(name.c_str(), static_cast<double>(rounds * block) * 1e-9, "GB/s", [&] {
    unsigned char nonce[kGcmNonceBytes] = {};
    for (std::size_t i = 0; i < rounds; ++i) {
      nonce[0] = static_cast<unsigned char>(i);
      cipher.seal(nonce, {}, text, reinterpret_cast<unsigned char*>(out.data()));
    }
    sink = static_cast<unsigned char>(out[0]);
  });
}

void streams() {
  const SecretBytes key = system_random().key();
  const std::string text = system_random().bytes(std::size_t{128} << 20);
  const double gigabytes = static_cast<double>(text.size()) * 1e-9;
  std::string sealed;
  print_rate("stream seal, 128 MiB", gigabytes, "GB/s",
             [&] { sealed = seal_stream(key, text, "aad"); });
  std::string out(text.size(), '\0');
  print_rate("stream open, 128 MiB", gigabytes, "GB/s", [&] {
    const auto opener = StreamOpener::open(
        key, "aad", sealed.size(), [&](std::uint64_t at, std::span<unsigned char> to) -> Status {
          std::copy_n(sealed.data() + at, to.size(), reinterpret_cast<char*>(to.data()));
          return {};
        });
    static_cast<void>(
        opener.value()->read_at(0, {reinterpret_cast<unsigned char*>(out.data()), out.size()}));
  });
  if (out != text) std::printf("WRONG: the stream did not open to what was sealed\n");
}

void small_messages() {
  const SecretBytes key = system_random().key();
  const std::string text = system_random().bytes(256);
  std::string sealed;
  print_rate("XAES-256-GCM seal, 256 B", 0.1, "M/s", [&] {
    for (int i = 0; i < 100'000; ++i) sealed = seal(key, text, "aad");
  });
  print_rate("XAES-256-GCM open, 256 B", 0.1, "M/s", [&] {
    for (int i = 0; i < 100'000; ++i) {
      sink = static_cast<unsigned char>(open(key, sealed, "aad").value()[0]);
    }
  });
  print_rate("HMAC-SHA-256, 32 B", 0.1, "M/s", [&] {
    for (int i = 0; i < 100'000; ++i) {
      sink = static_cast<unsigned char>(hmac_sha256(key.view(), key.view())[0]);
    }
  });
}

}  // namespace
}  // namespace falaj::crypto

int main() {
  for (const std::size_t block : {256UL, 16'384UL, 65'536UL, 1UL << 20}) falaj::crypto::gcm(block);
  falaj::crypto::streams();
  falaj::crypto::small_messages();
  return 0;
}
