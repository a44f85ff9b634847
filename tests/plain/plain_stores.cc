// The seam of app/stores.h without sealing: never part of the program that people run.
#include "app/stores.h"
#include "storage/spool.h"

namespace falaj::app {

Result<std::unique_ptr<storage::SqlStore>> open_metadata(const std::string& folder,
                                                         security::keys::KeyTree&) {
  return storage::open_sqlite(folder + "/metadata.db");
}

std::unique_ptr<storage::KvStore> seal_online(std::unique_ptr<storage::KvStore> rows,
                                              security::keys::KeyTree&) {
  return rows;
}

Result<std::unique_ptr<storage::BlobStore>> open_blobs(const std::string& folder,
                                                       security::keys::KeyTree&) {
  return storage::open_files(folder + "/blobs");
}

Result<std::unique_ptr<Spool>> open_spool(const std::string& folder) {
  return storage::make_file_spool(folder);
}

Result<std::unique_ptr<ByteReader>> open_grant(Descriptor file, const std::string&) {
  return open_descriptor(std::move(file));
}

}  // namespace falaj::app
