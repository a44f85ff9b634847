// features/internal/online_rows.h — how the newest rows of a view lie in the key-value store.
//
//   r<key>  → a packed row: everything the view had, texts included
//   s<id>   → the fields of rows that were packed under that id, as JSON
//   w       → the last commit whose rows are all here
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "features/internal/view_index.h"
#include "storage/kv.h"
#include "table/batch.h"
#include "table/schema.h"

namespace falaj::features {

inline constexpr char kRowMark = 'r';
inline constexpr std::string_view kWatermarkKey = "w";

std::string encode_number(std::uint64_t number);
std::uint64_t decode_number(std::string_view bytes);  // 0 when it is none.

// Rows of a segment schema: when one was created, the earliest time if nobody said; and all of it.
std::int64_t created_of(const table::Batch& rows, std::size_t keys, std::size_t row);
void to_words(const table::Batch& rows, std::size_t row, std::size_t keys, std::uint64_t commit,
              RowWords& out);

// Packs rows of one layout.
class RowPacker {
 public:
  explicit RowPacker(std::vector<table::Field> fields);
  // The record that lets later programs read what this one packs.
  storage::KvWrite schema_record() const;
  // `columns` are the fields, in order.
  std::string pack(std::int64_t event, std::int64_t created, std::uint64_t sequence,
                   std::span<const table::Column> columns, std::size_t row) const;

 private:
  std::vector<table::Field> fields_;
  std::uint64_t id_;
};

// Unpacks rows of any layout into words of one: fields are matched by name, new ones are null.
class RowUnpacker {
 public:
  RowUnpacker(const storage::KvStore& kv, storage::Owner owner, std::vector<table::Field> wanted)
      : kv_(kv), owner_(std::move(owner)), wanted_(std::move(wanted)) {}
  // kDataLoss when the bytes are no packed row.
  Status unpack(std::string_view bytes, RowWords& out);

 private:
  struct Layout {
    std::vector<table::Field> fields;
    std::vector<std::size_t> place;  // In wanted_; its size when the field is not wanted.
  };
  Result<const Layout*> layout_of(std::uint64_t id);

  const storage::KvStore& kv_;
  const storage::Owner owner_;
  std::vector<table::Field> wanted_;
  std::map<std::uint64_t, Layout> layouts_;
};

}  // namespace falaj::features
