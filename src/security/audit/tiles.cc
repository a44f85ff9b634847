#include "security/audit/tiles.h"

namespace falaj::security {
namespace {

using storage::SqlRows;
using storage::SqlTransaction;

constexpr std::uint64_t kTile = 256;
constexpr unsigned kTileLevels = 8;
constexpr std::size_t kHexDigits = 64;

Error missing(unsigned level, std::uint64_t tile) {
  return {ErrorId::kAuditBroken, "the audit tree lacks tile " + std::to_string(tile) +
                                     " of level " + std::to_string(level) +
                                     "; falaj audit verify says from where on"};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "": none. Anything but whole hashes in lower-case hex is no tile.
Result<std::vector<Sha256>> hashes_of(const std::string& hex) {
  const Error damaged(ErrorId::kAuditBroken, "a tile of the audit tree is damaged");
  if (hex.size() % kHexDigits != 0 || hex.size() > kTile * kHexDigits) return damaged;
  std::vector<Sha256> hashes(hex.size() / kHexDigits);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return damaged;
    hashes[i / kHexDigits].bytes[i % kHexDigits / 2] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hashes;
}

Result<std::vector<Sha256>> read_tile(SqlTransaction& tx, unsigned level, std::uint64_t tile) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT hashes FROM audit_tiles WHERE level = ? AND tile = ?",
                         {std::int64_t{level}, static_cast<std::int64_t>(tile)}));
  return hashes_of(rows.empty() ? std::string() : rows.front().text(0));
}

Status write_tile(SqlTransaction& tx, unsigned level, std::uint64_t tile,
                  const std::vector<Sha256>& hashes) {
  std::string hex;
  hex.reserve(hashes.size() * kHexDigits);
  for (const Sha256& hash : hashes) hex += hash.hex();
  FALAJ_TRY(
      tx.execute("INSERT INTO audit_tiles (level, tile, hashes) VALUES (?, ?, ?)"
                 " ON CONFLICT (level, tile) DO UPDATE SET hashes = excluded.hashes",
                 {std::int64_t{level}, static_cast<std::int64_t>(tile), hex}));
  return {};
}

}  // namespace

Result<std::uint64_t> tiled_size(SqlTransaction& tx) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT tile, length(hashes) FROM audit_tiles WHERE level = 0"
                         " ORDER BY tile DESC LIMIT 1"));
  if (rows.empty()) return std::uint64_t{0};
  return static_cast<std::uint64_t>(rows.front().integer(0)) * kTile +
         static_cast<std::uint64_t>(rows.front().integer(1)) / kHexDigits;
}

Status append_tiles(SqlTransaction& tx, std::uint64_t size, const std::vector<Sha256>& leaves) {
  std::vector<Sha256> incoming = leaves;
  for (unsigned level = 0; !incoming.empty(); ++level, size /= kTile) {
    std::vector<Sha256> above;
    std::uint64_t tile = size / kTile;
    std::vector<Sha256> hashes = FALAJ_TRY(read_tile(tx, level, tile));
    if (hashes.size() != size % kTile) return missing(level, tile);
    for (const Sha256& hash : incoming) {
      hashes.push_back(hash);
      if (hashes.size() < kTile) continue;
      FALAJ_TRY(write_tile(tx, level, tile, hashes));
      above.push_back(crypto::root_of(hashes));
      hashes.clear();
      ++tile;
    }
    if (!hashes.empty()) FALAJ_TRY(write_tile(tx, level, tile, hashes));
    incoming = std::move(above);
  }
  return {};
}

crypto::HashReader tile_reader(SqlTransaction& tx) {
  return [&tx](unsigned level, std::uint64_t index) -> Result<Sha256> {
    const unsigned row = level / kTileLevels;
    const unsigned inside = level % kTileLevels;
    const std::uint64_t width = std::uint64_t{1} << inside;
    const std::uint64_t first = index * width;
    const std::vector<Sha256> hashes = FALAJ_TRY(read_tile(tx, row, first / kTile));
    const std::size_t begin = first % kTile;
    if (begin + width > hashes.size()) return missing(row, first / kTile);
    const auto at = hashes.begin() + static_cast<std::ptrdiff_t>(begin);
    return crypto::root_of({at, at + static_cast<std::ptrdiff_t>(width)});
  };
}

Result<std::vector<Sha256>> leaf_tile(SqlTransaction& tx, std::uint64_t tile) {
  return read_tile(tx, 0, tile);
}

}  // namespace falaj::security
