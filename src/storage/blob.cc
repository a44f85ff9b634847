#include "storage/blob.h"

namespace falaj::storage {

Sha256 hash_of(const Owner& owner) {
  std::string text;
  for (const std::string* part : {&owner.project.str(), &owner.zone.name(), &owner.object}) {
    text += std::to_string(part->size()) + ":" + *part;
  }
  return sha256(text);
}

Result<StoredBlob> BlobStore::put(const Owner& owner, std::string_view bytes) {
  const std::unique_ptr<BlobWriter> writer = FALAJ_TRY(create(owner));
  FALAJ_TRY(writer->append(bytes));
  return writer->commit();
}

Result<std::string> BlobStore::get(const Owner& owner, const BlobId& id) const {
  const std::unique_ptr<ByteReader> reader = FALAJ_TRY(open(owner, id));
  return read_whole(*reader);
}

Result<std::int64_t> BlobStore::size(const Owner& owner, const BlobId& id) const {
  const std::unique_ptr<ByteReader> reader = FALAJ_TRY(open(owner, id));
  return reader->size();
}

}  // namespace falaj::storage
