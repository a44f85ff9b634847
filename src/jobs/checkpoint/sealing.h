// jobs/checkpoint/sealing.h — an archive that nobody reads without its key.
//
//   FOLDER/key.json              whose key it is: an archive that has it takes nothing in clear
//   FOLDER/00000012-sealed/…     a sealed stream (crypto/stream.h) a file, named by a keyed hash
//   FOLDER/00000012-sealed.json  "FJC1" and the sealed manifest
//
// Each stream is bound to the checkpoint's number and the file's path. Names, sizes and hashes of
// what was saved stand in the manifest only. Checkpoints that an earlier version left in clear
// are read as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "crypto/secret.h"
#include "jobs/checkpoint/manifest.h"

namespace falaj::jobs::checkpoint {

using ArchiveKey = std::shared_ptr<const crypto::SecretBytes>;  // 32 bytes; null: in clear.

inline constexpr std::string_view kKeyPurpose = "checkpoint";
inline constexpr std::string_view kSealedName = "sealed";  // Instead of the checkpoint's own.

// What key.json says: enough to ask the key tree (security/keys/key_tree.h).
struct KeyName {
  std::string project;
  std::string zone;
  std::string object;
  std::string wrapped;  // DataKey::wrapped
};
std::string encode_key_name(const KeyName& name);
// kDataLoss when it is none.
Result<KeyName> decode_key_name(std::string_view text);
std::string key_name_path(const std::string& archive);

// Where whoever starts a keeper leaves the key for it.
std::string key_path(const std::string& memory);
// Reads it and deletes the file. Null when there is none; kDataLoss for one of another size.
Result<ArchiveKey> take_key(const std::string& memory);
// kFailedPrecondition for a sealed archive without its key.
Status check_key(const std::string& archive, const ArchiveKey& key);

// The file name of `path` in a sealed checkpoint.
std::string sealed_name(const crypto::SecretBytes& key, std::string_view path);
// What the stream of that file is bound to.
std::string sealed_about(std::int64_t number, std::string_view path);

bool is_sealed(std::string_view manifest_bytes);
std::string seal_manifest(const crypto::SecretBytes& key, const Manifest& manifest);
// Of a manifest in clear too, whatever the key. kDataLoss; kFailedPrecondition without its key.
Result<Manifest> open_manifest(const ArchiveKey& key, std::string_view bytes);
// As it lies: "00000012-sealed" with a key.
std::string stored_folder(const ArchiveKey& key, const Manifest& manifest);

// Opens the files of a sealed checkpoint into the new folder `to`, checking every hash. kDataLoss
// names the first that is not as it was saved; then nothing is left there. Nothing is synced.
Status unseal_checkpoint(const std::string& from, const Manifest& manifest,
                         const crypto::SecretBytes& key, const std::string& to);

}  // namespace falaj::jobs::checkpoint
