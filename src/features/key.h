// features/key.h — an entity's key as bytes: equal keys have equal bytes, different ones never.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "features/definitions.h"
#include "table/batch.h"

namespace falaj::features {

using KeyPart = std::variant<std::int64_t, std::string>;

// Order-preserving and separator-safe: (1, 23) and (12, 3) differ. Appends to `out`.
void append_key_part(std::string& out, std::int64_t part);
void append_key_part(std::string& out, std::string_view part);
std::string encode_key(const std::vector<KeyPart>& parts);

// The eight bytes behind the type of an encoded key's first part, as a number: enough to order most
// keys of one entity without following a pointer. Equal prefixes say nothing, but that of a key
// which is one integer is all of it.
std::uint64_t key_prefix(std::string_view key);
std::uint64_t key_prefix(std::int64_t part);

// The key of row `row` from `columns` (in the entity's order); nothing when a part is null.
void append_key_of_row(std::string& out, const std::vector<const table::Column*>& columns,
                       std::size_t row);
std::string key_of_row(const std::vector<const table::Column*>& columns, std::size_t row);

}  // namespace falaj::features
