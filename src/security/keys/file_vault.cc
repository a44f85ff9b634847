// Root keys in one file, sealed as a whole under a passphrase or a machine key.
#include <algorithm>
#include <utility>

#include "base/decode.h"
#include "base/json.h"
#include "base/mutex.h"
#include "crypto/aead.h"
#include "crypto/base64.h"
#include "security/keys/internal/packed.h"
#include "security/keys/key_vault.h"
#include "storage/small_file.h"

namespace falaj::security::keys {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kFormat = "falaj-vault-1";
constexpr std::size_t kFileMax = 4U << 20;

Error sealed_error(const std::string& what) { return Error{ErrorId::kVaultSealed, what}; }

enum class Lock : std::uint8_t { kPassphrase, kMachineKey };

struct Header {
  Lock lock = Lock::kMachineKey;
  std::string salt;  // With a passphrase.
  crypto::Argon2Cost cost;

  std::string_view lock_name() const {
    return lock == Lock::kPassphrase ? "passphrase" : "machine-key";
  }
  std::string aad() const {
    crypto::Tlv fields("falaj/v1/vault");
    fields.add(kFormat).add(lock_name()).add(salt).add(cost.passes).add(cost.memory);
    return fields.str();
  }
};

struct Root {
  RootKey info;
  SecretBytes key;
};

Result<SecretBytes> machine_key(const std::string& path, IfMissing if_missing,
                                crypto::Random& random) {
  Result<storage::SmallFile> file = storage::read_small_file(path, 256);
  if (!file.ok() && file.error().code == Code::kNotFound && if_missing == IfMissing::kCreate) {
    SecretBytes fresh = random.key();
    std::string text = crypto::base64(fresh.view()) + "\n";
    const Status written = storage::write_small_file(path, text);
    crypto::wipe(text);
    FALAJ_TRY(written);
    return fresh;
  }
  if (!file.ok()) return sealed_error("the machine key cannot be read: " + file.error().message);
  if (file->readable_by != storage::ReadableBy::kOwner) {
    crypto::wipe(file->content);
    return sealed_error(path + " can be read by others; run: chmod 600 " + path);
  }
  while (!file->content.empty() && file->content.back() == '\n') file->content.pop_back();
  Result<std::string> bytes = crypto::from_base64(file->content);
  crypto::wipe(file->content);
  if (!bytes.ok() || bytes->size() != crypto::kKeyBytes) {
    return sealed_error(path + " does not hold a machine key; restore it from a backup");
  }
  SecretBytes key(*bytes);
  crypto::wipe(*bytes);
  return key;
}

SecretBytes pack(const std::vector<Root>& roots) {
  PackedWriter out;
  out.number(roots.size());
  for (const Root& root : roots) {
    out.text(root.info.id);
    out.text(root.info.zone.name());
    out.number(static_cast<std::uint64_t>(root.info.created.nanos));
    out.text(root.key.view());
  }
  return out.take();
}

Result<std::vector<Root>> unpack(const SecretBytes& bytes) {
  PackedReader in(bytes.view());
  std::vector<Root> roots;
  const std::uint64_t count = FALAJ_TRY(in.number());
  for (std::uint64_t i = 0; i < count; ++i) {
    Root root;
    root.info.id = FALAJ_TRY(in.text());
    const std::string_view zone = FALAJ_TRY(in.text());
    const std::uint64_t created = FALAJ_TRY(in.number());
    const std::string_view key = FALAJ_TRY(in.text());
    root.info.zone = Zone(std::string(zone));
    root.info.created = Timestamp{static_cast<std::int64_t>(created)};
    root.key = SecretBytes(key);
    if (root.key.size() != crypto::kKeyBytes) return crypto::decrypt_failed();
    roots.push_back(std::move(root));
  }
  return roots;
}

class FileVault final : public KeyVault {
 public:
  FileVault(std::string path, Header header, SecretBytes key, std::vector<Root> roots,
            crypto::Random& random)
      : path_(std::move(path)),
        header_(std::move(header)),
        key_(std::move(key)),
        random_(random),
        roots_(std::move(roots)) {}

  std::string name() const override { return "file"; }
  Result<std::vector<RootKey>> roots() const override;
  Result<RootKey> create_root(const Zone& zone, Timestamp now) override;
  Result<std::string> wrap(const std::string& root, const SecretBytes& key,
                           std::string_view aad) const override;
  Result<SecretBytes> unwrap(const std::string& root, std::string_view wrapped,
                             std::string_view aad) const override;
  Status destroy_root(const std::string& root) override;

  Status save() const {
    const MutexLock lock(mutex_);
    return save_locked();
  }

 private:
  Status save_locked() const FALAJ_REQUIRES(mutex_);
  Result<SecretBytes> key_of(const std::string& root) const;

  const std::string path_;
  const Header header_;
  const SecretBytes key_;
  crypto::Random& random_;
  mutable Mutex mutex_;
  std::vector<Root> roots_ FALAJ_GUARDED_BY(mutex_);
};

Status FileVault::save_locked() const {
  const std::string sealed = crypto::seal(key_, pack(roots_).view(), header_.aad(), random_);
  Value file;
  file["format"] = kFormat;
  file["lock"] = header_.lock_name();
  if (header_.lock == Lock::kPassphrase) {
    file["argon2id"]["salt"] = crypto::base64(header_.salt);
    file["argon2id"]["passes"] = header_.cost.passes;
    file["argon2id"]["memory"] = header_.cost.memory;
  }
  file["sealed"] = crypto::base64(sealed);
  return storage::write_small_file(path_, to_pretty_json(file) + "\n");
}

Result<std::vector<RootKey>> FileVault::roots() const {
  const MutexLock lock(mutex_);
  std::vector<RootKey> infos;
  for (const Root& root : roots_) infos.push_back(root.info);
  return infos;
}

Result<RootKey> FileVault::create_root(const Zone& zone, Timestamp now) {
  const MutexLock lock(mutex_);
  roots_.push_back({{random_.hex_id(), zone, now}, random_.key()});
  const Status saved = save_locked();
  if (!saved.ok()) {
    roots_.pop_back();
    return saved.error();
  }
  return roots_.back().info;
}

Status FileVault::destroy_root(const std::string& root) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(roots_.begin(), roots_.end(),
                                  [&](const Root& one) { return one.info.id == root; });
  if (found == roots_.end()) return Error{ErrorId::kKeyMissing, "no root key " + root};
  Root removed = std::move(*found);
  const auto at = roots_.erase(found);
  const Status saved = save_locked();
  if (!saved.ok()) roots_.insert(at, std::move(removed));
  return saved;
}

Result<SecretBytes> FileVault::key_of(const std::string& root) const {
  const MutexLock lock(mutex_);
  for (const Root& one : roots_) {
    if (one.info.id == root) return one.key.clone();
  }
  return Error{ErrorId::kKeyMissing,
               "the vault has no root key " + root + "; was an old copy of it restored?"};
}

std::string bound_to(const std::string& root, std::string_view aad) {
  return crypto::Tlv("falaj/v1/root").add(root).add(aad).str();
}

Result<std::string> FileVault::wrap(const std::string& root, const SecretBytes& key,
                                    std::string_view aad) const {
  const SecretBytes with = FALAJ_TRY(key_of(root));
  return crypto::seal(with, key.view(), bound_to(root, aad), random_);
}

Result<SecretBytes> FileVault::unwrap(const std::string& root, std::string_view wrapped,
                                      std::string_view aad) const {
  const SecretBytes with = FALAJ_TRY(key_of(root));
  return crypto::open_secret(with, wrapped, bound_to(root, aad));
}

struct SealedFile {
  Header header;
  std::string sealed;
};

Result<SealedFile> parse(const std::string& text) {
  const Value value = FALAJ_TRY(parse_json(text));
  Fields fields(value, "vault");
  SealedFile file;
  if (FALAJ_TRY(fields.required_text("format")) != kFormat) {
    return Error{Code::kInvalidArgument, "it is of another format"};
  }
  const std::string lock = FALAJ_TRY(fields.required_text("lock"));
  file.header.lock = lock == "passphrase" ? Lock::kPassphrase : Lock::kMachineKey;
  if (file.header.lock == Lock::kPassphrase) {
    const Value& argon = value["argon2id"];
    file.header.salt = FALAJ_TRY(crypto::from_base64(argon.text("salt")));
    file.header.cost.passes = static_cast<std::uint64_t>(argon.integer("passes"));
    file.header.cost.memory = static_cast<std::uint64_t>(argon.integer("memory"));
  }
  const std::string sealed = FALAJ_TRY(fields.required_text("sealed"));
  file.sealed = FALAJ_TRY(crypto::from_base64(sealed));
  return file;
}

Result<SecretBytes> unlock_key(const Header& header, const FileVaultOptions& options,
                               IfMissing if_missing, crypto::Random& random) {
  if (header.lock == Lock::kPassphrase) {
    return crypto::argon2id(options.passphrase.view(), header.salt, header.cost);
  }
  const SecretBytes machine = FALAJ_TRY(machine_key(options.machine_key_path, if_missing, random));
  return crypto::hkdf_sha256(machine.view(), "", "falaj/v1/vault");
}

Result<std::unique_ptr<KeyVault>> create(FileVaultOptions options, crypto::Random& random) {
  Header header;
  if (!options.passphrase.empty()) {
    header.lock = Lock::kPassphrase;
    header.salt = random.bytes(crypto::kArgon2SaltBytes);
    header.cost = options.cost;
  } else {
    header.cost = {0, 0};
  }
  SecretBytes key = FALAJ_TRY(unlock_key(header, options, IfMissing::kCreate, random));
  auto vault = std::make_unique<FileVault>(options.path, std::move(header), std::move(key),
                                           std::vector<Root>{}, random);
  FALAJ_TRY(vault->save());
  return std::unique_ptr<KeyVault>(std::move(vault));
}

}  // namespace

Result<std::unique_ptr<KeyVault>> open_file_vault(FileVaultOptions options, IfMissing if_missing,
                                                  crypto::Random& random) {
  const Result<storage::SmallFile> read = storage::read_small_file(options.path, kFileMax);
  if (!read.ok()) {
    if (read.error().code == Code::kNotFound && if_missing == IfMissing::kCreate) {
      return create(std::move(options), random);
    }
    return sealed_error("the sealed key file cannot be read: " + read.error().message);
  }
  Result<SealedFile> file = parse(read->content);
  if (!file.ok()) {
    return sealed_error(options.path + " is not a sealed key file: " + file.error().message);
  }
  Header& header = file->header;
  if (header.lock == Lock::kMachineKey) header.cost = {0, 0};
  if (header.lock == Lock::kPassphrase && options.passphrase.empty()) {
    return sealed_error(options.path + " is sealed with a passphrase; set keys.passphrase_file");
  }
  if (header.lock == Lock::kMachineKey && !options.passphrase.empty()) {
    return sealed_error(options.path +
                        " is sealed with the machine key, not with a passphrase; unset "
                        "keys.passphrase_file");
  }
  Result<SecretBytes> key = unlock_key(header, options, IfMissing::kRefuse, random);
  if (!key.ok()) return sealed_error(options.path + ": " + key.error().message);
  const Result<SecretBytes> opened = crypto::open_secret(*key, file->sealed, header.aad());
  Result<std::vector<Root>> roots =
      opened.ok() ? unpack(*opened) : Result<std::vector<Root>>(opened.error());
  if (!roots.ok()) {
    return sealed_error(options.path + " does not open with this " +
                        std::string(header.lock_name()) + ", or it was changed");
  }
  return std::unique_ptr<KeyVault>(std::make_unique<FileVault>(
      options.path, std::move(header), std::move(*key), std::move(*roots), random));
}

}  // namespace falaj::security::keys
