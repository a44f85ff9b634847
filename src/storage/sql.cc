#include "storage/sql.h"

namespace falaj::storage {

bool SqlRow::is_null(std::size_t i) const {
  return i >= values_.size() || std::holds_alternative<std::nullptr_t>(values_[i]);
}

std::int64_t SqlRow::integer(std::size_t i) const {
  if (i >= values_.size()) return 0;
  const auto* number = std::get_if<std::int64_t>(&values_[i]);
  return number != nullptr ? *number : 0;
}

double SqlRow::real(std::size_t i) const {
  if (i >= values_.size()) return 0;
  if (const auto* number = std::get_if<double>(&values_[i])) return *number;
  return static_cast<double>(integer(i));
}

const std::string& SqlRow::text(std::size_t i) const {
  static const std::string kEmpty;
  if (i >= values_.size()) return kEmpty;
  const auto* text = std::get_if<std::string>(&values_[i]);
  return text != nullptr ? *text : kEmpty;
}

Result<SqlRows> query(SqlStore& store, std::string_view sql, const SqlParams& params) {
  SqlRows rows;
  FALAJ_TRY(store.read([&](SqlTransaction& tx) -> Status {
    rows = FALAJ_TRY(tx.query(sql, params));
    return {};
  }));
  return rows;
}

}  // namespace falaj::storage
