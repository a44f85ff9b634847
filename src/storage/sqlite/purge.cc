#include "storage/small_file.h"
#include "storage/sqlite/connection.h"

namespace falaj::storage {

Status purge_deleted(const std::string& path) {
  const std::unique_ptr<Connection> connection =
      FALAJ_TRY(Connection::open(path, {Durability::kSync, Connection::Access::kReadWrite}));
  return connection->truncate_log();
}

}  // namespace falaj::storage
