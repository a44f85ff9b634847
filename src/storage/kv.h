// storage/kv.h — ordered keys to bytes: the newest row per entity, for online reads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace falaj::storage {

struct KvWrite {
  std::string key;
  std::optional<std::string> value;  // nullopt deletes.
};

// Thread-safe. write() is atomic over its batch and durable when it returns ok.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  // One answer per key, in order.
  virtual Result<std::vector<std::optional<std::string>>> get_many(
      const std::vector<std::string>& keys) const = 0;
  virtual Status write(const std::vector<KvWrite>& batch) = 0;
  // Keys that begin with `prefix`, ascending, until `visit` returns false.
  virtual Status scan(
      std::string_view prefix,
      const std::function<bool(std::string_view key, std::string_view value)>& visit) const = 0;
};

}  // namespace falaj::storage
