#include <map>

#include "security/keys/internal/stored_key_tree.h"

namespace falaj::security::keys {
namespace {

// Counts by ring id.
using Counts = std::map<std::string, std::int64_t>;

Result<Counts> counts(SqlTransaction& tx, std::string_view sql) {
  Counts found;
  for (const storage::SqlRow& row : FALAJ_TRY(tx.query(sql))) found[row.text(0)] += row.integer(1);
  return found;
}

struct Tables {
  std::vector<Ring> rings;
  Counts data_keys;
  Counts stale;
  Counts rotated;  // Nanoseconds.
  std::map<std::string, std::string> roots;
};

Result<Tables> read_tables(SqlTransaction& tx) {
  Tables tables;
  tables.rings = FALAJ_TRY(all_rings(tx));
  tables.data_keys = FALAJ_TRY(counts(tx, "SELECT ring, count(*) FROM data_keys GROUP BY ring"));
  tables.stale = FALAJ_TRY(counts(
      tx,
      "SELECT r.id, count(*) FROM key_rings r JOIN data_keys d ON d.ring = r.id AND "
      "d.version < r.version GROUP BY r.id "
      "UNION ALL SELECT p.id, count(*) FROM key_rings p JOIN key_rings c ON c.parent = p.id "
      "JOIN key_versions v ON v.ring = c.id AND v.parent_version < p.version GROUP BY p.id"));
  tables.rotated = FALAJ_TRY(
      counts(tx,
             "SELECT v.ring, v.created FROM key_versions v JOIN key_rings r ON r.id = v.ring AND "
             "r.version = v.version"));
  for (const storage::SqlRow& row :
       FALAJ_TRY(tx.query("SELECT v.ring, v.root FROM key_versions v JOIN key_rings r ON "
                          "r.id = v.ring AND r.version = v.version WHERE v.root != ''"))) {
    tables.roots[row.text(0)] = row.text(1);
  }
  return tables;
}

template <class Map>
typename Map::mapped_type at_or_empty(const Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? typename Map::mapped_type{} : found->second;
}

}  // namespace

Value to_value(const RingInfo& ring) {
  Value value;
  value["id"] = ring.id;
  value["level"] = ring.level;
  value["project"] = ring.project;
  value["zone"] = ring.zone.name();
  value["object"] = ring.object;
  value["parent"] = ring.parent;
  value["version"] = ring.version;
  value["min_version"] = ring.min_version;
  value["data_keys"] = ring.data_keys;
  value["stale"] = ring.stale;
  value["created"] = to_rfc3339(ring.created);
  if (ring.rotated.nanos != 0) value["rotated"] = to_rfc3339(ring.rotated);
  if (ring.shredded.nanos != 0) value["shredded"] = to_rfc3339(ring.shredded);
  return value;
}

Result<std::vector<RingInfo>> StoredKeyTree::inventory() {
  Tables tables;
  FALAJ_TRY(store_.read([&](SqlTransaction& tx) -> Status {
    tables = FALAJ_TRY(read_tables(tx));
    return {};
  }));
  std::vector<RingInfo> infos;
  std::map<std::string, std::size_t> subjects;  // By the ring above: their line.
  for (const Ring& ring : tables.rings) {
    if (ring.place.level() == "subject") {
      const auto line = subjects.find(ring.parent);
      if (line != subjects.end()) {
        infos[line->second].data_keys += at_or_empty(tables.data_keys, ring.id);
        infos[line->second].stale += at_or_empty(tables.stale, ring.id);
        continue;
      }
      subjects.emplace(ring.parent, infos.size());
    }
    RingInfo info;
    info.id = ring.id;
    info.level = ring.place.level();
    info.project = ring.place.project;
    info.zone = Zone(ring.place.zone);
    info.object = ring.place.object;
    info.parent = ring.parent.empty() ? at_or_empty(tables.roots, ring.id) : ring.parent;
    info.version = ring.version;
    info.min_version = ring.min_version;
    info.data_keys = at_or_empty(tables.data_keys, ring.id);
    info.stale = at_or_empty(tables.stale, ring.id);
    info.created = ring.created;
    info.rotated = Timestamp{at_or_empty(tables.rotated, ring.id)};
    // One person's end is not that of the others.
    if (info.level != "subject") info.shredded = ring.shredded;
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace falaj::security::keys
