#include "base/ids.h"

#include <sys/random.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/mutex.h"

namespace falaj {
namespace {

void fill_random(void* bytes, std::size_t size) {
  // Up to 256 bytes are never cut short; EINTR cannot happen for them once the pool is ready.
  ssize_t got = -1;
  do {
    got = ::getrandom(bytes, size, 0);
  } while (got < 0 && errno == EINTR);
  FALAJ_CHECK(got == static_cast<ssize_t>(size));
}

// The 80 random bits, as a high and a low half.
struct Tail {
  std::uint16_t high;
  std::uint64_t low;
};

Tail random_tail() {
  std::array<std::uint8_t, 10> bytes;
  fill_random(bytes.data(), bytes.size());
  Tail tail{};
  std::memcpy(&tail.high, bytes.data(), 2);
  std::memcpy(&tail.low, bytes.data() + 2, 8);
  // Room for the steps below: the top bit starts clear.
  tail.high &= 0x7fff;
  return tail;
}

// Ids of one millisecond ascend. The step is random, so that a forked child, which inherits the
// last tail, does not hand out its parent's next id.
Tail after(Tail tail) {
  std::uint32_t step = 0;
  fill_random(&step, sizeof step);
  const std::uint64_t low = tail.low + step + 1;
  if (low < tail.low) ++tail.high;
  tail.low = low;
  return tail;
}

Tail next_tail(std::int64_t millis) {
  static Mutex mutex;
  static std::int64_t last_millis = -1;
  static Tail last{};
  MutexLock lock(mutex);
  last = millis == last_millis ? after(last) : random_tail();
  last_millis = millis;
  return last;
}

}  // namespace

std::string new_ulid(Timestamp now) {
  static constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const std::int64_t millis = now.nanos < 0 ? 0 : now.nanos / 1'000'000;
  const Tail tail = next_tail(millis);

  std::string text(26, '0');
  auto time_bits = static_cast<std::uint64_t>(millis);
  for (std::size_t i = 10; i-- > 0; time_bits >>= 5) text[i] = kDigits[time_bits & 31];
  std::uint64_t low = tail.low;
  std::uint64_t high = tail.high;
  for (std::size_t i = 26; i-- > 10;) {
    text[i] = kDigits[low & 31];
    low = (low >> 5) | (high << 59);
    high >>= 5;
  }
  return text;
}

}  // namespace falaj
