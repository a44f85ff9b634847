// security/identity/throttle.h — back-off for sign-ins that fail.
//
// After a few failures each further one doubles the wait, for the name and for the address by
// itself: guessing one name from many addresses and many names from one address both slow down. A
// name's wait is kept short, so that a stranger cannot lock somebody out for long; an address's is
// not. Unknown names are treated as known ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "base/time.h"

namespace falaj::security {

struct ThrottleOptions {
  int free_failures = 5;  // Without a wait.
  Duration first_wait = Duration::seconds(1);
  Duration name_wait_max = Duration::seconds(30);
  Duration address_wait_max = Duration::minutes(15);
  Duration forget_after = Duration::hours(1);  // Without a failure.
  std::size_t entries_max = 20'000;            // Then the oldest are forgotten.
};

// Thread-safe; short locks.
class LoginThrottle {
 public:
  explicit LoginThrottle(const ThrottleOptions& options) : options_(options) {}

  // How long this caller has to wait still; nullopt: try.
  std::optional<Duration> wait(std::string_view name, std::string_view address,
                               Timestamp now) const;
  void failed(std::string_view name, std::string_view address, Timestamp now);
  // Frees the name. The address keeps its count: it may have guessed others before.
  void succeeded(std::string_view name);
  std::size_t size() const;

 private:
  struct Entry {
    int failures = 0;
    Timestamp last{};
    Timestamp until{};
  };
  void count(const std::string& key, Duration wait_max, Timestamp now) FALAJ_REQUIRES(mutex_);
  void make_room(Timestamp now) FALAJ_REQUIRES(mutex_);

  const ThrottleOptions options_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::security
