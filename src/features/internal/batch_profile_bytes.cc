// How profiles are stored: a mark, then numbers of 7 bits a byte, the low ones first.
#include <algorithm>
#include <bit>

#include "features/internal/batch_profile.h"

namespace falaj::features {
namespace {

using table::Type;

constexpr std::string_view kMark = "FJPROF1\n";
constexpr std::size_t kNameMax = 1'024;

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void word(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }

 private:
  std::string& out_;
};

void write(Writer& out, const ColumnProfile& column) {
  out.text(column.field.name);
  out.number(static_cast<std::uint64_t>(column.field.type));
  out.number(static_cast<std::uint64_t>(column.detail));
  out.number(column.values);
  out.number(column.missing);
  out.word(std::bit_cast<std::uint64_t>(column.sum));
  out.word(std::bit_cast<std::uint64_t>(column.least));
  out.word(std::bit_cast<std::uint64_t>(column.most));
  out.word(static_cast<std::uint64_t>(column.least_int));
  out.word(static_cast<std::uint64_t>(column.most_int));
  const std::vector<Spread::Bin> bins = column.spread.bins();
  out.number(column.spread.shift());
  out.number(bins.size());
  std::uint64_t before = 0;
  for (const Spread::Bin& bin : bins) {
    out.number(bin.index - before);
    out.number(bin.count);
    before = bin.index;
  }
  const auto& registers = column.distinct.registers();
  out.number(static_cast<std::uint64_t>(
      std::count_if(registers.begin(), registers.end(), [](std::uint8_t r) { return r > 0; })));
  for (std::size_t i = 0; i < registers.size(); ++i) {
    if (registers[i] == 0) continue;
    out.number(i);
    out.number(registers[i]);
  }
  const auto top = column.top.most();
  out.number(column.top.lost());
  out.number(top.size());
  for (const auto& [value, count] : top) {
    out.text(value);
    out.number(count);
  }
}

Error damaged(const char* what) {
  return Error(ErrorId::kSegmentCorrupt, std::string("the profile is damaged: ") + what);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }

  Result<std::uint64_t> number(std::uint64_t most) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return damaged("it ends too early");
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) != 0) continue;
      if (value > most) return damaged("a number is too large");
      return value;
    }
    return damaged("a number does not end");
  }
  Result<std::uint64_t> word() {
    if (bytes_.size() < 8) return damaged("it ends too early");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes_[i])) << (8 * i);
    }
    bytes_.remove_prefix(8);
    return value;
  }
  Result<std::string> text(std::size_t most) {
    const std::uint64_t size = FALAJ_TRY(number(most));
    if (size > bytes_.size()) return damaged("it ends too early");
    std::string out(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return out;
  }

 private:
  std::string_view bytes_;
};

constexpr std::uint64_t kCountMax = (1ULL << 48) - 1;

Status read_spread(Reader& in, ColumnProfile& column) {
  const auto shift = static_cast<unsigned>(FALAJ_TRY(in.number(63)));
  std::vector<Spread::Bin> bins(FALAJ_TRY(in.number(Spread::kBinsMax)));
  std::uint64_t before = 0;
  for (Spread::Bin& bin : bins) {
    bin.index = before + FALAJ_TRY(in.number(~before));
    bin.count = FALAJ_TRY(in.number(kCountMax));
    before = bin.index;
  }
  Result<Spread> spread = Spread::restore(shift, bins);
  if (!spread.ok()) return damaged("its bins are out of order");
  column.spread = std::move(spread).value();
  return {};
}

Status read_column(Reader& in, ColumnProfile& column) {
  column.field.name = FALAJ_TRY(in.text(kNameMax));
  column.field.type = static_cast<Type>(FALAJ_TRY(in.number(std::uint64_t{4})));
  column.detail = static_cast<Detail>(FALAJ_TRY(in.number(std::uint64_t{2})));
  column.values = FALAJ_TRY(in.number(kCountMax));
  column.missing = FALAJ_TRY(in.number(kCountMax));
  column.sum = std::bit_cast<double>(FALAJ_TRY(in.word()));
  column.least = std::bit_cast<double>(FALAJ_TRY(in.word()));
  column.most = std::bit_cast<double>(FALAJ_TRY(in.word()));
  column.least_int = static_cast<std::int64_t>(FALAJ_TRY(in.word()));
  column.most_int = static_cast<std::int64_t>(FALAJ_TRY(in.word()));
  FALAJ_TRY(read_spread(in, column));
  const std::uint64_t registers = FALAJ_TRY(in.number(Distinct::kRegisters));
  for (std::uint64_t i = 0; i < registers; ++i) {
    const std::uint64_t place = FALAJ_TRY(in.number(Distinct::kRegisters));
    const std::uint64_t rank = FALAJ_TRY(in.number(Distinct::kRankMax));
    if (!column.distinct.restore(place, rank).ok()) return damaged("a register does not exist");
  }
  column.top.restore_lost(FALAJ_TRY(in.number(kCountMax)));
  const std::uint64_t top = FALAJ_TRY(in.number(2 * TopValues::kTracked));
  const bool texts = column.field.type == Type::kString;
  for (std::uint64_t i = 0; i < top; ++i) {
    const std::string value = FALAJ_TRY(in.text(TopValues::kValueMax));
    if (!texts && value.size() != 8) return damaged("a frequent value is no number");
    column.top.add(value, FALAJ_TRY(in.number(kCountMax)));
  }
  return {};
}

Status read_columns(Reader& in, std::vector<ColumnProfile>& out) {
  const std::uint64_t columns = FALAJ_TRY(in.number(BatchProfile::kColumnsMax));
  for (std::uint64_t i = 0; i < columns; ++i) {
    FALAJ_TRY(read_column(in, out.emplace_back()));
  }
  return {};
}

}  // namespace

std::string encode(const BatchProfile& profile) {
  std::string bytes(kMark);
  Writer out(bytes);
  out.number(profile.rows);
  out.number(profile.looked_at);
  out.word(static_cast<std::uint64_t>(profile.event_min));
  out.word(static_cast<std::uint64_t>(profile.event_max));
  for (const auto* columns : {&profile.keys, &profile.features}) {
    out.number(columns->size());
    for (const ColumnProfile& column : *columns) write(out, column);
  }
  return bytes;
}

Result<BatchProfile> decode_profile(std::string_view bytes) {
  if (!bytes.starts_with(kMark) || bytes.size() > BatchProfile::kBytesMax) {
    return damaged("it is none, or of another version");
  }
  Reader in(bytes.substr(kMark.size()));
  BatchProfile out;
  out.rows = FALAJ_TRY(in.number(kCountMax));
  out.looked_at = FALAJ_TRY(in.number(kCountMax));
  out.event_min = static_cast<std::int64_t>(FALAJ_TRY(in.word()));
  out.event_max = static_cast<std::int64_t>(FALAJ_TRY(in.word()));
  FALAJ_TRY(read_columns(in, out.keys));
  FALAJ_TRY(read_columns(in, out.features));
  if (!in.at_end()) return damaged("something follows it");
  return out;
}

}  // namespace falaj::features
