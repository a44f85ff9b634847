// features/internal/key_column.h — the encoded keys of many rows in one buffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "table/batch.h"

namespace falaj::features {

// "" for a row with a null part.
class KeyColumn {
 public:
  KeyColumn() = default;
  // `columns` have equal lengths and the types of an entity's keys.
  explicit KeyColumn(const std::vector<const table::Column*>& columns);
  // Rows [begin, end) of them.
  KeyColumn(const std::vector<const table::Column*>& columns, std::size_t begin, std::size_t end);

  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t row) const {
    const std::uint64_t begin = row == 0 ? 0 : ends_[row - 1];
    return std::string_view(bytes_).substr(begin, ends_[row] - begin);
  }

  // One by one: the parts of a key are appended to open(), close() ends it.
  void clear() {
    bytes_.clear();
    ends_.clear();
  }
  std::string& open() { return bytes_; }
  void close() { ends_.push_back(bytes_.size()); }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace falaj::features
