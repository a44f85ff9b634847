#include "app/secret_file.h"

#include "storage/small_file.h"

namespace falaj::app {
namespace {

constexpr std::size_t kSecretFileMax = 4'096;

}  // namespace

Result<crypto::SecretBytes> read_secret(const std::string& setting, const std::string& path,
                                        ErrorId id) {
  Result<storage::SmallFile> file = storage::read_small_file(path, kSecretFileMax);
  if (!file.ok()) return Error{id, setting + ": " + file.error().message};
  crypto::SecretBytes secret(file->content.substr(0, file->content.find_first_of("\r\n")));
  crypto::wipe(file->content);
  if (file->readable_by != storage::ReadableBy::kOwner) {
    return Error{id, setting + ": " + path + " can be read by others; run: chmod 600 " + path};
  }
  if (secret.empty()) return Error{id, setting + ": " + path + " is empty"};
  return secret;
}

}  // namespace falaj::app
