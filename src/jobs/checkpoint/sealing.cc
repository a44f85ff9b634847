#include "jobs/checkpoint/sealing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/descriptor.h"
#include "base/hash.h"
#include "base/json.h"
#include "crypto/aead.h"
#include "crypto/base64.h"
#include "crypto/kdf.h"
#include "crypto/stream.h"
#include "jobs/checkpoint/internal/tree.h"
#include "storage/small_file.h"

namespace falaj::jobs::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "FJC1";
constexpr std::string_view kManifestAbout = "falaj/v1/checkpoint-manifest";
constexpr std::size_t kNameDigits = 32;
constexpr std::size_t kChunk = std::size_t{16} * crypto::kSegmentPlain;

Error damaged(const std::string& what) { return Error{Code::kDataLoss, what}; }

// The bytes of one sealed file, through the opener, into a new file.
Status unseal_file(const std::string& from, const crypto::SecretBytes& key,
                   const std::string& about, const std::string& to, const FileEntry& entry) {
  const Descriptor in(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!in.valid() || ::fstat(in.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return damaged(entry.path + " is missing");
  }
  const auto read = [&](std::uint64_t offset, std::span<unsigned char> out) -> Status {
    std::size_t got = 0;
    while (got < out.size()) {
      const ssize_t more =
          ::pread(in.get(), out.data() + got, out.size() - got, static_cast<off_t>(offset + got));
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) return crypto::decrypt_failed();
      got += static_cast<std::size_t>(more);
    }
    return {};
  };
  const auto opener =
      crypto::StreamOpener::open(key, about, static_cast<std::uint64_t>(info.st_size), read);
  if (!opener.ok()) return damaged(entry.path + " was changed");
  const Descriptor out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) return disk_error(errno, "create", to);
  Sha256Hasher hasher;
  std::string buffer(kChunk, '\0');
  for (std::uint64_t at = 0; at < (*opener)->size();) {
    const std::size_t count = std::min<std::uint64_t>(kChunk, (*opener)->size() - at);
    const std::span<unsigned char> piece(reinterpret_cast<unsigned char*>(buffer.data()), count);
    if (!(*opener)->read_at(at, piece).ok()) return damaged(entry.path + " was changed");
    const std::string_view bytes(buffer.data(), count);
    hasher.update(bytes);
    FALAJ_TRY(write_all(out.get(), bytes, to));
    at += count;
  }
  if (hasher.finish().hex() == entry.sha256) return {};
  return damaged(entry.path + " was changed");
}

Status unseal_files(const std::string& from, const Manifest& manifest,
                    const crypto::SecretBytes& key, const std::string& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (!error) fs::permissions(to, fs::perms::owner_all, error);
  for (const FileEntry& entry : manifest.files) {
    FALAJ_TRY(check_path(entry.path));
    const fs::path target = fs::path(to) / entry.path;
    if (!error) fs::create_directories(target.parent_path(), error);
    if (error) return disk_error(error.value(), "create", target.string());
    FALAJ_TRY(unseal_file(from + "/" + sealed_name(key, entry.path), key,
                          sealed_about(manifest.number, entry.path), target.string(), entry));
  }
  return {};
}

}  // namespace

std::string encode_key_name(const KeyName& name) {
  Value value;
  value["project"] = name.project;
  value["zone"] = name.zone;
  value["object"] = name.object;
  value["key"] = crypto::base64(name.wrapped);
  return to_json(value) + "\n";
}

Result<KeyName> decode_key_name(std::string_view text) {
  const auto value = parse_json(text, {.bytes_max = 4096, .depth_max = 4});
  if (!value.ok() || !value->is_object()) return damaged("key.json is damaged");
  const auto wrapped = crypto::from_base64(value->text("key"));
  if (!wrapped.ok()) return damaged("key.json is damaged");
  return KeyName{value->text("project"), value->text("zone"), value->text("object"), *wrapped};
}

std::string key_name_path(const std::string& archive) { return archive + "/key.json"; }

std::string key_path(const std::string& memory) { return memory + "/key"; }

Result<ArchiveKey> take_key(const std::string& memory) {
  auto file = storage::read_small_file(key_path(memory));
  if (!file.ok() && file.error().code == Code::kNotFound) return ArchiveKey();
  if (!file.ok()) return file.error();
  ::unlink(key_path(memory).c_str());
  auto key = std::make_shared<crypto::SecretBytes>(std::string_view(file->content));
  crypto::wipe(file->content);
  if (key->size() != crypto::kKeyBytes) return damaged("the key of the archive is none");
  return ArchiveKey(std::move(key));
}

Status check_key(const std::string& archive, const ArchiveKey& key) {
  if (key != nullptr || ::access(key_name_path(archive).c_str(), F_OK) != 0) return {};
  return Error{Code::kFailedPrecondition,
               archive + " is sealed, and its key was not handed over: start it as its TrainJob"};
}

std::string sealed_name(const crypto::SecretBytes& key, std::string_view path) {
  const std::string about = crypto::Tlv("falaj/v1/checkpoint-name").add(path).str();
  return sha256_hex(crypto::hmac_sha256(key.view(), about)).substr(0, kNameDigits);
}

std::string sealed_about(std::int64_t number, std::string_view path) {
  return crypto::Tlv("falaj/v1/checkpoint").add(static_cast<std::uint64_t>(number)).add(path).str();
}

bool is_sealed(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::string seal_manifest(const crypto::SecretBytes& key, const Manifest& manifest) {
  return std::string(kMagic) + crypto::seal_stream(key, encode_manifest(manifest), kManifestAbout);
}

Result<Manifest> open_manifest(const ArchiveKey& key, std::string_view bytes) {
  if (!is_sealed(bytes)) return decode_manifest(bytes);
  if (key == nullptr) return Error{Code::kFailedPrecondition, "it is sealed, and its key not here"};
  const auto text = crypto::open_stream(*key, bytes.substr(kMagic.size()), kManifestAbout);
  if (!text.ok()) return damaged("the manifest is damaged: it does not open");
  return decode_manifest(*text);
}

std::string stored_folder(const ArchiveKey& key, const Manifest& manifest) {
  return folder_name(manifest.number, key == nullptr ? manifest.name : kSealedName);
}

Status unseal_checkpoint(const std::string& from, const Manifest& manifest,
                         const crypto::SecretBytes& key, const std::string& to) {
  std::error_code ignored;
  fs::remove_all(to, ignored);
  const Status done = unseal_files(from, manifest, key, to);
  if (!done.ok()) fs::remove_all(to, ignored);
  return done;
}

}  // namespace falaj::jobs::checkpoint
