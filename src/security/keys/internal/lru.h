// security/keys/internal/lru.h — the most recently used of something, up to a limit. Not
// thread-safe.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace falaj::security::keys {

template <class T>
class Lru {
 public:
  explicit Lru(std::size_t limit) : limit_(limit) {}

  // nullptr when it is not kept. Valid until the next put() or clear().
  const T* find(const std::string& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }
  void put(const std::string& key, T value) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      found->second->second = std::move(value);
      return;
    }
    entries_.emplace_front(key, std::move(value));
    places_.emplace(key, entries_.begin());
    if (entries_.size() > limit_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
  }
  void clear() {
    places_.clear();
    entries_.clear();
  }
  std::size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<std::string, T>>;
  const std::size_t limit_;
  Entries entries_;
  std::unordered_map<std::string, typename Entries::iterator> places_;
};

}  // namespace falaj::security::keys
