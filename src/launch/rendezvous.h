// launch/rendezvous.h — where Horovod's workers find each other: a key-value store over HTTP.
//
// PUT /SCOPE/KEY keeps the body, GET returns it or 404, DELETE drops it; as Horovod's gloo client
// asks for. Each node serves its own workers on its loopback, so that no key is ever sent in clear
// between machines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"

namespace falaj::launch {

// Thread-safe. Bounded: 1 MiB a value, 64 MiB and 100,000 keys in all.
class Keys {
 public:
  // kResourceExhausted past a bound.
  Status put(const std::string& key, std::string value);
  std::optional<std::string> get(const std::string& key) const;
  void erase(const std::string& key);
  void clear();  // For the next attempt, whose workers are others.

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> values_ FALAJ_GUARDED_BY(mutex_);
  std::size_t bytes_ FALAJ_GUARDED_BY(mutex_) = 0;
};

// How the server reaches the keys: Keys of this process, or those of the node that coordinates.
// Called on threads of the server; they may block for a while.
struct KeyAccess {
  std::function<Status(const std::string& key, std::string value)> put;
  std::function<Result<std::optional<std::string>>(const std::string& key)> get;
  std::function<Status(const std::string& key)> erase;
};
// `keys` outlives what it returns.
KeyAccess access_to(Keys& keys);

class Rendezvous {
 public:
  // Listens on a free port of 127.0.0.1.
  static Result<std::unique_ptr<Rendezvous>> start(KeyAccess access);
  virtual ~Rendezvous() = default;
  virtual std::uint16_t port() const = 0;
};

}  // namespace falaj::launch
