#include "app/stores.h"

#include "security/sealed/blobs.h"
#include "security/sealed/kv.h"
#include "security/sealed/pages.h"
#include "storage/spool.h"

namespace falaj::app {

namespace sealed = security::sealed;

Result<std::unique_ptr<storage::SqlStore>> open_metadata(const std::string& folder,
                                                         security::keys::KeyTree& keys) {
  const crypto::SecretBytes key = FALAJ_TRY(keys.store_key("metadata.db"));
  return storage::open_sqlite(folder + "/metadata.db", storage::Durability::kSync,
                              sealed::make_page_cipher(key, "metadata.db"));
}

std::unique_ptr<storage::KvStore> seal_online(std::unique_ptr<storage::KvStore> rows,
                                              security::keys::KeyTree& keys) {
  return sealed::seal_kv(std::move(rows), keys);
}

Result<std::unique_ptr<storage::BlobStore>> open_blobs(const std::string& folder,
                                                       security::keys::KeyTree& keys) {
  auto files = FALAJ_TRY(storage::open_files(folder + "/blobs"));
  return sealed::seal_blobs(std::move(files), keys);
}

Result<std::unique_ptr<Spool>> open_spool(const std::string& folder) {
  auto file = FALAJ_TRY(storage::make_file_spool(folder));
  return sealed::seal_spool(std::move(file));
}

Result<std::unique_ptr<ByteReader>> open_grant(Descriptor file, const std::string& ticket) {
  return sealed::open_granted(std::move(file), ticket);
}

}  // namespace falaj::app
