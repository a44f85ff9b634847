#include "features/internal/key_column.h"

#include "features/key.h"

namespace falaj::features {

using table::Column;

KeyColumn::KeyColumn(const std::vector<const Column*>& columns)
    : KeyColumn(columns, 0, columns.front()->size()) {}

KeyColumn::KeyColumn(const std::vector<const Column*>& columns, std::size_t begin,
                     std::size_t end) {
  ends_.reserve(end - begin);
  bytes_.reserve((end - begin) * 9 * columns.size());
  for (std::size_t row = begin; row < end; ++row) {
    append_key_of_row(bytes_, columns, row);
    close();
  }
}

}  // namespace falaj::features
