// Which migrations a store has seen: name and hash of each, in the store itself.
#include <map>
#include <set>
#include <string>

#include "base/hash.h"
#include "storage/sqlite/connection.h"

namespace falaj::storage {
namespace {

using Applied = std::map<std::string, std::string, std::less<>>;  // Name to hash.

Result<Applied> read_applied(Connection& connection) {
  FALAJ_TRY(
      connection.execute("CREATE TABLE IF NOT EXISTS falaj_migrations ("
                         "name TEXT PRIMARY KEY, sha256 TEXT NOT NULL) STRICT"));
  const SqlRows rows = FALAJ_TRY(connection.query("SELECT name, sha256 FROM falaj_migrations"));
  Applied applied;
  for (const SqlRow& row : rows) applied.emplace(row.text(0), row.text(1));
  return applied;
}

Status check_known(const Applied& applied, const std::vector<Migration>& migrations) {
  std::set<std::string_view> known;
  for (const Migration& migration : migrations) {
    if (!known.insert(migration.name).second) {
      return Error(Code::kInternal, "two migrations are called " + migration.name);
    }
  }
  for (const auto& [name, hash] : applied) {
    if (known.contains(name)) continue;
    return Error(ErrorId::kDataFolderNewer,
                 "the metadata has the migration " + name +
                     ", which this program does not know; start the newer program");
  }
  return {};
}

Status apply_one(Connection& connection, const Migration& migration, const std::string& hash) {
  const Status done = connection.run_script(migration.sql);
  if (!done.ok()) return done.error().within("migration " + migration.name);
  FALAJ_TRY(connection.execute("INSERT INTO falaj_migrations (name, sha256) VALUES (?, ?)",
                               {migration.name, hash}));
  return {};
}

}  // namespace

Status apply_migrations(Connection& connection, const std::vector<Migration>& migrations) {
  const Applied applied = FALAJ_TRY(read_applied(connection));
  FALAJ_TRY(check_known(applied, migrations));
  for (const Migration& migration : migrations) {
    const std::string hash = sha256_hex(migration.sql);
    const auto it = applied.find(migration.name);
    if (it == applied.end()) {
      FALAJ_TRY(apply_one(connection, migration, hash));
    } else if (it->second != hash) {
      return Error(Code::kFailedPrecondition,
                   "the applied migration " + migration.name +
                       " had another text; start the program that wrote this data folder");
    }
  }
  return {};
}

}  // namespace falaj::storage
