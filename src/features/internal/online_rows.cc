#include "features/internal/online_rows.h"

#include <cstring>
#include <limits>
#include <utility>

#include "base/json.h"

namespace falaj::features {
namespace {

using table::Type;

constexpr char kVersion = 1;

std::string schema_key(std::uint64_t id) { return "s" + encode_number(id); }

std::string fields_json(const std::vector<table::Field>& fields) {
  Value list = Value::array();
  for (const table::Field& field : fields) {
    Value one = Value::object();
    one["name"] = field.name;
    one["type"] = table::type_name(field.type);
    list.push(std::move(one));
  }
  return to_json(list);
}

void append_number(std::string& out, std::uint64_t number) {
  char bytes[8];
  std::memcpy(bytes, &number, 8);
  out.append(bytes, 8);
}

// Takes bytes off the front; false when there are too few.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}
  bool number(std::uint64_t& out) {
    if (left_.size() < 8) return false;
    std::memcpy(&out, left_.data(), 8);
    left_.remove_prefix(8);
    return true;
  }
  bool bytes(std::size_t count, std::string_view& out) {
    if (left_.size() < count) return false;
    out = left_.substr(0, count);
    left_.remove_prefix(count);
    return true;
  }
  bool done() const { return left_.empty(); }

 private:
  std::string_view left_;
};

Error broken(std::string_view what) {
  return Error(Code::kDataLoss, "online store: " + std::string(what) +
                                    ": remove the online folder and start again; it is rebuilt "
                                    "from the segments");
}

Error other_type(const table::Field& stored, Type wanted) {
  return Error(ErrorId::kSchemaMismatch,
               "feature \"" + stored.name + "\" was stored online as " +
                   std::string(table::type_name(stored.type)) + " and is declared as " +
                   std::string(table::type_name(wanted)) + ": give it another name");
}

}  // namespace

std::string encode_number(std::uint64_t number) {
  std::string out;
  append_number(out, number);
  return out;
}

std::uint64_t decode_number(std::string_view bytes) {
  std::uint64_t number = 0;
  if (bytes.size() == 8) std::memcpy(&number, bytes.data(), 8);
  return number;
}

std::int64_t created_of(const table::Batch& rows, std::size_t keys, std::size_t row) {
  const table::Column& created = rows.columns[keys + 1];
  return created.is_null(row) ? std::numeric_limits<std::int64_t>::min() : created.ints()[row];
}

void to_words(const table::Batch& rows, std::size_t row, std::size_t keys, std::uint64_t commit,
              RowWords& out) {
  out.set_version(rows.columns[keys].ints()[row], created_of(rows, keys, row),
                  sequence_of(commit, rows.columns[keys + 2].ints()[row]));
  for (std::size_t i = keys + 3; i < rows.columns.size(); ++i) {
    const std::size_t field = i - keys - 3;
    if (rows.columns[i].is_null(row)) {
      out.set_null(field);
    } else if (rows.columns[i].type() == Type::kString) {
      out.set_text(field, rows.columns[i].strings()[row]);
    } else {
      out.set_word(field, word_of(rows.columns[i], row));
    }
  }
}

RowPacker::RowPacker(std::vector<table::Field> fields)
    : fields_(std::move(fields)), id_(hash64(fields_json(fields_))) {}

storage::KvWrite RowPacker::schema_record() const {
  return {schema_key(id_), fields_json(fields_)};
}

std::string RowPacker::pack(std::int64_t event, std::int64_t created, std::uint64_t sequence,
                            std::span<const table::Column> columns, std::size_t row) const {
  std::string out(1, kVersion);
  append_number(out, id_);
  append_number(out, static_cast<std::uint64_t>(event));
  append_number(out, static_cast<std::uint64_t>(created));
  append_number(out, sequence);
  std::string nulls((columns.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is_null(row)) nulls[i / 8] = static_cast<char>(nulls[i / 8] | (1 << (i % 8)));
  }
  out += nulls;
  for (const table::Column& column : columns) {
    if (column.is_null(row)) continue;
    if (column.type() != Type::kString) {
      append_number(out, word_of(column, row));
      continue;
    }
    const std::string_view text = column.strings()[row];
    append_number(out, text.size());
    out.append(text);
  }
  return out;
}

Result<const RowUnpacker::Layout*> RowUnpacker::layout_of(std::uint64_t id) {
  const auto known = layouts_.find(id);
  if (known != layouts_.end()) return &known->second;
  const std::optional<std::string> json = FALAJ_TRY(kv_.get(owner_, schema_key(id)));
  if (!json) return broken("the layout of a row is not recorded");
  const Value list = FALAJ_TRY(parse_json(*json));
  if (!list.is_array()) return broken("a layout is not a list");
  Layout layout;
  for (const Value& one : list.as_array()) {
    const table::Type type = FALAJ_TRY(table::parse_type(one.text("type")));
    layout.fields.push_back({one.text("name"), type});
    std::size_t place = 0;
    while (place < wanted_.size() && wanted_[place].name != layout.fields.back().name) ++place;
    layout.place.push_back(place);
  }
  return &layouts_.emplace(id, std::move(layout)).first->second;
}

Status RowUnpacker::unpack(std::string_view bytes, RowWords& out) {
  Cursor cursor(bytes);
  std::string_view version;
  std::uint64_t id = 0;
  std::uint64_t event = 0;
  std::uint64_t created = 0;
  std::uint64_t sequence = 0;
  if (!cursor.bytes(1, version) || version[0] != kVersion || !cursor.number(id) ||
      !cursor.number(event) || !cursor.number(created) || !cursor.number(sequence)) {
    return broken("a row is damaged");
  }
  const Layout* layout = FALAJ_TRY(layout_of(id));
  std::string_view nulls;
  if (!cursor.bytes((layout->fields.size() + 7) / 8, nulls)) return broken("a row is damaged");
  out.set_version(static_cast<std::int64_t>(event), static_cast<std::int64_t>(created), sequence);
  // Null until the row says otherwise: a field that it does not have stays null.
  std::vector<bool> present(wanted_.size(), false);
  for (std::size_t i = 0; i < layout->fields.size(); ++i) {
    if ((static_cast<unsigned char>(nulls[i / 8]) >> (i % 8) & 1) != 0) continue;
    const Type type = layout->fields[i].type;
    std::uint64_t word = 0;
    std::string_view text;
    if (!cursor.number(word)) return broken("a row is damaged");
    if (type == Type::kString && !cursor.bytes(word, text)) return broken("a row is damaged");
    const std::size_t place = layout->place[i];
    if (place == wanted_.size()) continue;
    if (type != wanted_[place].type) return other_type(layout->fields[i], wanted_[place].type);
    present[place] = true;
    if (type == Type::kString) {
      out.set_text(place, text);
    } else {
      out.set_word(place, word);
    }
  }
  if (!cursor.done()) return broken("a row is damaged");
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) out.set_null(i);
  }
  return {};
}

}  // namespace falaj::features
