// base/ids.h — names and ids that the compiler keeps apart, and sortable unique ids.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace falaj {

// A text that is not any text: a RunId cannot be passed where a JobId is wanted.
template <class Tag>
class Id {
 public:
  Id() = default;
  explicit Id(std::string text) : text_(std::move(text)) {}
  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }
  auto operator<=>(const Id&) const = default;

 private:
  std::string text_;
};

using ProjectName = Id<struct ProjectTag>;
using RunId = Id<struct RunTag>;
using JobId = Id<struct JobTag>;
using BlobId = Id<struct BlobTag>;  // Lower-case hex SHA-256 of the content.

// 26 characters that sort by time and are unique in the process and across restarts
// (48 bits of milliseconds, 80 bits of randomness, Crockford base 32). Thread-safe.
std::string new_ulid(Timestamp now);

}  // namespace falaj

template <class Tag>
struct std::hash<falaj::Id<Tag>> {
  std::size_t operator()(const falaj::Id<Tag>& id) const noexcept {
    return std::hash<std::string>{}(id.str());
  }
};
