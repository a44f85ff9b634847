#include "features/internal/segment_file.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "features/key.h"

namespace falaj::features {
namespace {

using table::Batch;
using table::Column;
using table::Type;

constexpr std::string_view kMagic = "FALAJSEG";
constexpr std::uint32_t kVersion = 1;
// Behind the footer: its length, the version, the magic again.
constexpr std::size_t kTailBytes = 4 + 4 + 8;
constexpr std::size_t kColumnsMax = 65'535;

Error corrupt(std::string_view why) {
  return Error(ErrorId::kSegmentCorrupt, "the segment " + std::string(why));
}

// --- Writing -------------------------------------------------------------------------------------

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

std::vector<const Column*> first_columns(const Batch& rows, std::size_t count) {
  std::vector<const Column*> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(&rows.columns[i]);
  return out;
}

bool same_values(const std::vector<const Column*>& columns, std::size_t a, std::size_t b) {
  return std::all_of(columns.begin(), columns.end(), [=](const Column* column) {
    return column->type() == Type::kString ? column->strings()[a] == column->strings()[b]
                                           : column->ints()[a] == column->ints()[b];
  });
}

Error unsorted(std::size_t row) {
  return Error(Code::kInvalidArgument,
               "a segment's rows ascend by key, event, created, position; row " +
                   std::to_string(row) + " does not follow the one before");
}

Status check_shape(const Batch& rows, std::size_t keys) {
  const auto& fields = rows.schema.fields;
  const auto is = [&](std::size_t column, Type type) { return fields[column].type == type; };
  if (keys == 0 || fields.size() < keys + 3 || fields.size() > kColumnsMax || rows.rows() == 0 ||
      !is(keys, Type::kTimestamp) || !is(keys + 1, Type::kTimestamp) ||
      !is(keys + 2, Type::kInt64)) {
    return Error(Code::kInvalidArgument, "these rows are not those of a segment");
  }
  for (std::size_t i = 0; i <= keys; ++i) {
    if (rows.columns[i].null_count() == 0) continue;
    return Error(Code::kInvalidArgument, "a segment has no row without a key or an event time");
  }
  return {};
}

// Where the runs of equal keys end, after a look at the order of all rows.
Result<std::vector<std::uint32_t>> checked_runs(const Batch& rows, std::size_t keys) {
  const std::vector<const Column*> key = first_columns(rows, keys);
  const auto& event = rows.columns[keys].ints();
  const Column& created = rows.columns[keys + 1];
  const auto& position = rows.columns[keys + 2].ints();
  const auto created_at = [&](std::size_t row) {
    return created.is_null(row) ? std::numeric_limits<std::int64_t>::min() : created.ints()[row];
  };
  std::vector<std::uint32_t> ends;
  for (std::size_t row = 1; row < rows.rows(); ++row) {
    if (!same_values(key, row - 1, row)) {
      if (key_of_row(key, row - 1) >= key_of_row(key, row)) return unsorted(row);
      ends.push_back(static_cast<std::uint32_t>(row));
      continue;
    }
    const auto before = std::tuple(event[row - 1], created_at(row - 1), position[row - 1]);
    if (before > std::tuple(event[row], created_at(row), position[row])) return unsorted(row);
  }
  ends.push_back(static_cast<std::uint32_t>(rows.rows()));
  return ends;
}

// The runs of rows [begin, end), counted from `begin`; `runs` are those of the whole, `next` the
// first that ends behind `begin`.
std::vector<std::int64_t> runs_within(const std::vector<std::uint32_t>& runs, std::size_t& next,
                                      std::size_t begin, std::size_t end) {
  std::vector<std::int64_t> out;
  while (true) {
    const std::size_t stop = std::min<std::size_t>(runs[next], end);
    out.push_back(static_cast<std::int64_t>(stop - begin));
    if (runs[next] <= end) ++next;
    if (stop == end) return out;
  }
}

std::vector<std::uint32_t> last_rows(const std::vector<std::int64_t>& run_ends, std::size_t begin) {
  std::vector<std::uint32_t> out;
  for (const std::int64_t end : run_ends) {
    out.push_back(static_cast<std::uint32_t>(begin + static_cast<std::size_t>(end) - 1));
  }
  return out;
}

void put_info(std::string& out, const ChunkInfo& info) {
  put(out, static_cast<std::uint8_t>(info.encoding));
  put(out, info.nulls);
  put(out, info.bytes);
  put(out, info.min);
  put(out, info.max);
}

// One block behind the others, and what the footer says of it.
void append_block(const Batch& rows, std::size_t keys, const std::vector<std::int64_t>& run_ends,
                  std::size_t begin, std::size_t end, std::string& bytes, std::string& footer) {
  put(footer, static_cast<std::uint32_t>(end - begin));
  put(footer, static_cast<std::uint32_t>(run_ends.size()));
  put(footer, rows.columns[keys].ints()[begin]);
  put_text(footer, key_of_row(first_columns(rows, keys), begin));
  put_info(footer, append_chunk(bytes, run_ends));
  const std::vector<std::uint32_t> of_runs = last_rows(run_ends, begin);
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    if (i < keys) {
      const Column key = rows.columns[i].take(of_runs);
      put_info(footer, append_chunk(bytes, key, 0, key.size()));
    } else {
      put_info(footer, append_chunk(bytes, rows.columns[i], begin, end));
    }
  }
}

// --- Reading -------------------------------------------------------------------------------------

// What is left of a footer. Once something is missing it stays bad and gives zeros.
class Rest {
 public:
  explicit Rest(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool at_end() const { return bytes_.empty(); }
  std::size_t size() const { return bytes_.size(); }

  template <class T>
  T take() {
    T out{};
    const std::string_view raw = take_bytes(sizeof(T));
    if (good_) std::memcpy(&out, raw.data(), sizeof(T));
    return out;
  }
  std::string_view take_text() { return take_bytes(take<std::uint32_t>()); }

 private:
  std::string_view take_bytes(std::size_t count) {
    if (!good_ || bytes_.size() < count) {
      good_ = false;
      return {};
    }
    const std::string_view out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return out;
  }

  std::string_view bytes_;
  bool good_ = true;
};

ChunkInfo take_info(Rest& rest) {
  ChunkInfo out;
  out.encoding = static_cast<Encoding>(rest.take<std::uint8_t>());
  out.nulls = rest.take<std::uint32_t>();
  out.bytes = rest.take<std::uint32_t>();
  out.min = rest.take<std::int64_t>();
  out.max = rest.take<std::int64_t>();
  return out;
}

Result<table::Schema> take_schema(Rest& rest, std::size_t keys, std::size_t columns) {
  table::Schema out;
  for (std::size_t i = 0; i < columns && rest.good(); ++i) {
    const auto type = rest.take<std::uint8_t>();
    if (type > static_cast<std::uint8_t>(Type::kTimestamp)) {
      return corrupt("has a column of an unknown type");
    }
    const std::string name(rest.take_text());
    if (out.find(name)) return corrupt("has a column twice");
    out.fields.push_back({name, static_cast<Type>(type)});
  }
  if (!rest.good()) return corrupt("has a footer that is cut short");
  const auto is = [&](std::size_t column, Type type) { return out.fields[column].type == type; };
  bool right =
      is(keys, Type::kTimestamp) && is(keys + 1, Type::kTimestamp) && is(keys + 2, Type::kInt64);
  for (std::size_t i = 0; i < keys; ++i)
    right = right && (is(i, Type::kInt64) || is(i, Type::kString));
  if (!right) return corrupt("lacks the columns that every segment has");
  return out;
}

// `offset` moves behind the block's chunks.
Result<SegmentFile::Block> take_block(Rest& rest, std::size_t chunks, std::uint64_t& offset,
                                      std::uint64_t end) {
  SegmentFile::Block out;
  out.offset = offset;
  out.rows = rest.take<std::uint32_t>();
  out.runs = rest.take<std::uint32_t>();
  out.first_event = rest.take<std::int64_t>();
  out.first_key = std::string(rest.take_text());
  out.first_prefix = key_prefix(out.first_key);
  if (out.rows == 0 || out.rows > kBlockRows || out.runs == 0 || out.runs > out.rows) {
    return corrupt("has a block without sensible counts");
  }
  out.chunks.reserve(chunks);
  for (std::size_t i = 0; i < chunks && rest.good(); ++i) {
    out.chunks.push_back(take_info(rest));
    offset += out.chunks.back().bytes;
    if (offset > end) return corrupt("has a block outside the file");
  }
  if (!rest.good()) return corrupt("has a footer that is cut short");
  return out;
}

// One more block of a column.
void summarize(SegmentFile::Summary& out, const ChunkInfo& info, std::uint32_t rows, bool first) {
  out.any_null = out.any_null || info.nulls > 0;
  out.all_null = out.all_null && info.nulls == rows;
  out.min = first ? info.min : std::min(out.min, info.min);
  out.max = first ? info.max : std::max(out.max, info.max);
}

Result<std::string> read_exactly(const ByteReader& bytes, std::uint64_t offset, std::size_t count) {
  std::string out(count, '\0');
  const std::size_t got = FALAJ_TRY(bytes.read_at(static_cast<std::int64_t>(offset), out));
  if (got != count) return corrupt("is shorter than it says");
  return out;
}

struct FooterPlace {
  std::uint64_t offset;
  std::uint32_t bytes;
};

Result<FooterPlace> find_footer(const ByteReader& bytes) {
  const auto size = static_cast<std::uint64_t>(bytes.size());
  if (size < kMagic.size() + kTailBytes) return corrupt("is too short to be one");
  const std::string tail = FALAJ_TRY(read_exactly(bytes, size - kTailBytes, kTailBytes));
  Rest rest(tail);
  const auto length = rest.take<std::uint32_t>();
  const auto version = rest.take<std::uint32_t>();
  if (std::string_view(tail).substr(8) != kMagic) return corrupt("does not end as one");
  if (version != kVersion) {
    return corrupt("has version " + std::to_string(version) + "; this program reads version " +
                   std::to_string(kVersion));
  }
  if (length > size - kTailBytes - kMagic.size()) return corrupt("has no room for its footer");
  return FooterPlace{size - kTailBytes - length, length};
}

// The values of these rows of a chunk, in that order.
void append_values(const Chunk& chunk, const std::vector<std::uint32_t>& rows, Column& out) {
  const auto each = [&](auto push) {
    for (const std::uint32_t row : rows) {
      if (chunk.is_null(row)) {
        out.push_null();
      } else {
        push(row);
      }
    }
  };
  switch (out.type()) {
    case Type::kInt64:
    case Type::kTimestamp:
      chunk.with_ints([&](auto get) { each([&](std::uint32_t row) { out.push_int(get(row)); }); });
      break;
    case Type::kBool:
      chunk.with_ints(
          [&](auto get) { each([&](std::uint32_t row) { out.push_bool(get(row) != 0); }); });
      break;
    case Type::kFloat64:
      chunk.with_doubles(
          [&](auto get) { each([&](std::uint32_t row) { out.push_double(get(row)); }); });
      break;
    case Type::kString:
      each([&](std::uint32_t row) { out.push_string(chunk.text_at(row)); });
      break;
  }
}

// For each row of a block, the run that it belongs to.
std::vector<std::uint32_t> runs_of_rows(const std::vector<std::uint32_t>& run_ends) {
  std::vector<std::uint32_t> out;
  out.reserve(run_ends.back());
  for (std::uint32_t run = 0; run < run_ends.size(); ++run) out.resize(run_ends[run], run);
  return out;
}

}  // namespace

SegmentFileWriter::SegmentFileWriter(ByteWriter& out, std::size_t keys, std::size_t block_rows)
    : out_(out), keys_(keys), block_rows_(block_rows) {}

Status SegmentFileWriter::begin(const Batch& rows) {
  if (schema_.fields.empty()) {
    schema_ = rows.schema;
    return out_.append(kMagic);
  }
  if (schema_ != rows.schema) {
    return Error(Code::kInvalidArgument, "the rows of a segment have one schema");
  }
  // The last row before and the first of these must be in order, too.
  Batch seam = last_;
  seam.append(rows.take({0}));
  FALAJ_TRY(checked_runs(seam, keys_));
  return {};
}

Status SegmentFileWriter::append(const Batch& rows) {
  FALAJ_TRY(check_shape(rows, keys_));
  const std::vector<std::uint32_t> runs = FALAJ_TRY(checked_runs(rows, keys_));
  FALAJ_TRY(begin(rows));
  std::string bytes;
  std::size_t next_run = 0;
  for (std::size_t first = 0; first < rows.rows(); first += block_rows_) {
    const std::size_t end = std::min(first + block_rows_, rows.rows());
    bytes.clear();
    append_block(rows, keys_, runs_within(runs, next_run, first, end), first, end, bytes,
                 blocks_footer_);
    ++blocks_;
    FALAJ_TRY(out_.append(bytes));
  }
  rows_ += rows.rows();
  last_ = rows.take({static_cast<std::uint32_t>(rows.rows() - 1)});
  return {};
}

Status SegmentFileWriter::finish() {
  std::string footer;
  put(footer, static_cast<std::uint32_t>(keys_));
  put(footer, static_cast<std::uint32_t>(schema_.fields.size()));
  put(footer, rows_);
  put(footer, blocks_);
  for (const table::Field& field : schema_.fields) {
    put(footer, static_cast<std::uint8_t>(field.type));
    put_text(footer, field.name);
  }
  footer += blocks_footer_;
  if (footer.size() > std::numeric_limits<std::uint32_t>::max()) {
    return Error(Code::kResourceExhausted, "too many rows for one segment");
  }
  const auto length = static_cast<std::uint32_t>(footer.size());
  put(footer, length);
  put(footer, kVersion);
  footer += kMagic;
  return out_.append(footer);
}

Status write_segment_file(ByteWriter& out, const Batch& rows, std::size_t keys,
                          std::size_t block_rows) {
  SegmentFileWriter writer(out, keys, block_rows);
  FALAJ_TRY(writer.append(rows));
  return writer.finish();
}

Result<SegmentFile> SegmentFile::open(std::shared_ptr<const ByteReader> bytes) {
  const FooterPlace place = FALAJ_TRY(find_footer(*bytes));
  const std::string footer = FALAJ_TRY(read_exactly(*bytes, place.offset, place.bytes));
  Rest rest(footer);
  SegmentFile out;
  out.bytes_ = std::move(bytes);
  out.keys_ = rest.take<std::uint32_t>();
  const std::size_t columns = rest.take<std::uint32_t>();
  out.rows_ = rest.take<std::uint64_t>();
  const std::size_t blocks = rest.take<std::uint32_t>();
  if (!rest.good() || out.keys_ == 0 || out.keys_ > kColumnsMax || columns > kColumnsMax ||
      columns < out.keys_ + 3 || blocks == 0 || blocks > rest.size()) {
    return corrupt("has a footer without sensible counts");
  }
  out.schema_ = FALAJ_TRY(take_schema(rest, out.keys_, columns));
  std::uint64_t offset = kMagic.size();
  std::uint64_t rows = 0;
  out.summaries_.resize(columns);
  for (std::size_t i = 0; i < blocks; ++i) {
    Block block = FALAJ_TRY(take_block(rest, columns + 1, offset, place.offset));
    block.first_row = rows;
    rows += block.rows;
    for (std::size_t c = 0; c < columns; ++c) {
      const auto of_column = static_cast<std::uint32_t>(out.rows_of(block, chunk_of(c)));
      summarize(out.summaries_[c], block.chunks[chunk_of(c)], of_column, i == 0);
    }
    if (i > 0) {
      const Block& before = out.blocks_.back();
      if (std::tie(before.first_key, before.first_event) >
          std::tie(block.first_key, block.first_event)) {
        return corrupt("has blocks out of order");
      }
    }
    out.blocks_.push_back(std::move(block));
  }
  if (rows != out.rows_ || offset != place.offset || !rest.at_end()) {
    return corrupt("has a footer that contradicts itself");
  }
  return out;
}

Status SegmentFile::read_chunks(std::size_t block, std::size_t first, std::size_t last,
                                Chunks& out) const {
  const Block& from = blocks_[block];
  std::uint64_t offset = from.offset;
  for (std::size_t i = 0; i < first; ++i) offset += from.chunks[i].bytes;
  std::size_t bytes = 0;
  for (std::size_t i = first; i <= last; ++i) bytes += from.chunks[i].bytes;
  out.first_ = first;
  out.chunks_.clear();
  out.bytes_.resize(bytes);
  const std::size_t got = FALAJ_TRY(bytes_->read_at(static_cast<std::int64_t>(offset), out.bytes_));
  if (got != bytes) return corrupt("is shorter than it says");
  std::string_view rest = out.bytes_;
  for (std::size_t i = first; i <= last; ++i) {
    const ChunkInfo& info = from.chunks[i];
    out.chunks_.push_back(
        FALAJ_TRY(Chunk::open(rest.substr(0, info.bytes), info, type_of(i), rows_of(from, i))));
    rest.remove_prefix(info.bytes);
  }
  return {};
}

Result<std::optional<std::uint64_t>> SegmentFile::place_of(const Block& block,
                                                           std::size_t chunk) const {
  const ChunkInfo& info = block.chunks[chunk];
  if (info.nulls > 0 || type_of(chunk) == Type::kString) return std::optional<std::uint64_t>();
  if (info.bytes != value_bytes(info.encoding) * rows_of(block, chunk)) {
    return corrupt("has a chunk that is cut short");
  }
  std::uint64_t offset = block.offset;
  for (std::size_t i = 0; i < chunk; ++i) offset += block.chunks[i].bytes;
  return std::optional<std::uint64_t>(offset);
}

Status SegmentFile::open_values(const Block& block, std::size_t chunk, std::size_t rows,
                                Chunks& out) const {
  ChunkInfo info = block.chunks[chunk];
  info.bytes = static_cast<std::uint32_t>(out.bytes_.size());
  out.first_ = chunk;
  out.chunks_.assign(1, FALAJ_TRY(Chunk::open(out.bytes_, info, type_of(chunk), rows)));
  return {};
}

Result<bool> SegmentFile::read_values(std::size_t block, std::size_t chunk,
                                      std::span<const std::uint32_t> rows, Chunks& out) const {
  const Block& from = blocks_[block];
  const auto offset = FALAJ_TRY(place_of(from, chunk));
  if (!offset) return false;
  const std::size_t width = value_bytes(from.chunks[chunk].encoding);
  out.bytes_.resize(rows.size() * width);
  const std::span<char> bytes(out.bytes_);
  for (std::size_t i = 0; i < rows.size() && width > 0; ++i) {
    const auto place = static_cast<std::int64_t>(*offset + rows[i] * width);
    const std::size_t got = FALAJ_TRY(bytes_->read_at(place, bytes.subspan(i * width, width)));
    if (got != width) return corrupt("is shorter than it says");
  }
  FALAJ_TRY(open_values(from, chunk, rows.size(), out));
  return true;
}

Result<bool> SegmentFile::read_rows(std::size_t block, std::size_t chunk, std::uint32_t begin,
                                    std::uint32_t end, Chunks& out) const {
  const Block& from = blocks_[block];
  const auto offset = FALAJ_TRY(place_of(from, chunk));
  if (!offset) return false;
  const std::size_t width = value_bytes(from.chunks[chunk].encoding);
  out.bytes_.resize((end - begin) * width);
  const std::size_t got =
      FALAJ_TRY(bytes_->read_at(static_cast<std::int64_t>(*offset + begin * width), out.bytes_));
  if (got != out.bytes_.size()) return corrupt("is shorter than it says");
  FALAJ_TRY(open_values(from, chunk, end - begin, out));
  return true;
}

Status read_run_ends(const Chunk& chunk, std::uint32_t rows, std::vector<std::uint32_t>& out) {
  out.resize(chunk.size());
  std::int64_t before = 0;
  bool ascends = true;
  chunk.with_ints([&](auto get) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t end = get(i);
      ascends = ascends && end > before && end <= rows;
      before = end;
      out[i] = static_cast<std::uint32_t>(end);
    }
  });
  if (!ascends || before != rows) return corrupt("has runs that do not fill their block");
  return {};
}

Result<Batch> SegmentFile::read(const table::Schema& wanted) const {
  std::vector<std::optional<std::size_t>> places;
  for (const table::Field& field : wanted.fields) {
    places.push_back(schema_.find(field.name));
    if (!places.back() || schema_.fields[*places.back()].type == field.type) continue;
    return Error(ErrorId::kSchemaMismatch,
                 "column \"" + field.name + "\" is stored as " +
                     std::string(type_name(schema_.fields[*places.back()].type)) + ", not " +
                     std::string(type_name(field.type)));
  }
  Batch out(wanted);
  for (Column& column : out.columns) column.reserve(rows_);
  Chunks chunks;
  std::vector<std::uint32_t> run_ends;
  std::vector<std::uint32_t> all;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    FALAJ_TRY(read_chunks(b, 0, schema_.fields.size(), chunks));
    FALAJ_TRY(read_run_ends(chunks.at(0), blocks_[b].rows, run_ends));
    const std::vector<std::uint32_t> runs = runs_of_rows(run_ends);
    all.resize(blocks_[b].rows);
    std::iota(all.begin(), all.end(), 0u);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i]) {
        append_values(chunks.at(chunk_of(*places[i])), *places[i] < keys_ ? runs : all,
                      out.columns[i]);
      } else {
        for (std::uint32_t row = 0; row < blocks_[b].rows; ++row) out.columns[i].push_null();
      }
    }
  }
  return out;
}

Status SegmentFile::read_keys(std::string_view from, std::string_view to, Batch& out) const {
  const auto begins_before = [](const Block& block, std::string_view key) {
    return block.first_key < key;
  };
  // The block before the first that begins at or behind `from` may end with it.
  auto block = std::lower_bound(blocks_.begin(), blocks_.end(), from, begins_before);
  if (block != blocks_.begin()) --block;
  const auto end =
      to.empty() ? blocks_.end() : std::lower_bound(block, blocks_.end(), to, begins_before);
  Chunks chunks;
  std::vector<std::uint32_t> run_ends;
  std::vector<std::uint32_t> runs;
  std::vector<std::uint32_t> rows;
  KeyColumn keys;
  for (; block < end; ++block) {
    const auto number = static_cast<std::size_t>(block - blocks_.begin());
    FALAJ_TRY(read_chunks(number, 0, schema_.fields.size(), chunks));
    FALAJ_TRY(read_run_ends(chunks.at(0), block->rows, run_ends));
    read_run_keys(chunks, block->runs, keys);
    runs.clear();
    rows.clear();
    for (std::uint32_t run = 0, row = 0; run < block->runs; row = run_ends[run++]) {
      if (keys[run] < from || (!to.empty() && keys[run] >= to)) continue;
      for (; row < run_ends[run]; ++row) {
        runs.push_back(run);
        rows.push_back(row);
      }
    }
    for (std::size_t i = 0; i < schema_.fields.size(); ++i) {
      append_values(chunks.at(chunk_of(i)), i < keys_ ? runs : rows, out.columns[i]);
    }
  }
  return {};
}

void SegmentFile::read_run_keys(const Chunks& chunks, std::size_t runs, KeyColumn& out) const {
  out.clear();
  for (std::size_t run = 0; run < runs; ++run) {
    for (std::size_t i = 0; i < keys_; ++i) {
      const Chunk& part = chunks.at(chunk_of(i));
      if (schema_.fields[i].type == Type::kString) {
        append_key_part(out.open(), part.text_at(run));
      } else {
        append_key_part(out.open(), part.int_at(run));
      }
    }
    out.close();
  }
}

}  // namespace falaj::features
