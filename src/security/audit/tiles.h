// security/audit/tiles.h — the audit tree's hashes in SQL: tiles of 256, so that a proof or a root
// reads a handful of rows however long the log is.
//
// A tile of level 0 holds leaf hashes, one of level n the roots of 256 full tiles of level n - 1.
// Only the last tile of a level may be partly filled; it grows in place. Functions over an open
// transaction; nothing is cached.
#pragma once

#include <cstdint>
#include <vector>

#include "crypto/merkle.h"
#include "storage/sql.h"

namespace falaj::security {

// How many leaves the tiles hold.
Result<std::uint64_t> tiled_size(storage::SqlTransaction& tx);
// Appends leaves behind the last. Cost: two rows for each 256, and one for each level.
Status append_tiles(storage::SqlTransaction& tx, std::uint64_t size,
                    const std::vector<Sha256>& leaves);
// Reads full subtrees for crypto/merkle.h. Valid as long as `tx`. FJ-7001 when a tile is missing.
crypto::HashReader tile_reader(storage::SqlTransaction& tx);
// The leaf hashes of one tile; fewer than 256 in the last, none behind it.
Result<std::vector<Sha256>> leaf_tile(storage::SqlTransaction& tx, std::uint64_t tile);

}  // namespace falaj::security
