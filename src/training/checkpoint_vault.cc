#include "training/checkpoint_vault.h"

#include <filesystem>

#include "jobs/checkpoint/sealing.h"
#include "security/keys/key_tree.h"
#include "security/residency/exits.h"
#include "storage/small_file.h"

namespace falaj::training {
namespace {

namespace ckpt = jobs::checkpoint;
namespace fs = std::filesystem;
using security::residency::Passage;

Result<Passage> pass(const CheckpointVault& vault, const storage::Owner& owner,
                     std::int64_t bytes) {
  security::residency::Flow flow;
  flow.exit = security::residency::Exit::kWrite;
  flow.project = owner.project.str();
  flow.data = owner.zone;
  flow.destination = vault.exits->machine_for(owner.zone);
  flow.object = owner.object;
  flow.bytes = bytes;
  const auto context = security::system_context("service:training", owner.project, owner.zone);
  return vault.exits->pass(context, std::move(flow));
}

Result<crypto::SecretBytes> new_key(const CheckpointVault& vault, const storage::Owner& owner,
                                    const std::string& archive) {
  security::keys::DataKey made = FALAJ_TRY(vault.keys->new_data_key(
      {owner.project.str(), owner.zone, owner.object, "", std::string(ckpt::kKeyPurpose)}));
  std::error_code error;
  fs::create_directories(archive, error);
  if (!error) fs::permissions(archive, fs::perms::owner_all, error);
  if (error) return Error(ErrorId::kDataFolderFull, "cannot create " + archive);
  ckpt::KeyName name{owner.project.str(), owner.zone.name(), owner.object, made.wrapped};
  FALAJ_TRY(storage::write_small_file(ckpt::key_name_path(archive), ckpt::encode_key_name(name)));
  return std::move(made.key);
}

Result<crypto::SecretBytes> key_of(const CheckpointVault& vault, const storage::Owner& owner,
                                   const std::string& archive) {
  const auto file = storage::read_small_file(ckpt::key_name_path(archive));
  if (!file.ok() && file.error().code != Code::kNotFound) return file.error();
  if (!file.ok()) return new_key(vault, owner, archive);
  const ckpt::KeyName name = FALAJ_TRY(ckpt::decode_key_name(file->content));
  auto key = vault.keys->open_data_key(
      {owner.project.str(), owner.zone, owner.object, "", std::string(ckpt::kKeyPurpose)},
      name.wrapped);
  if (key.ok() || key.error().id != ErrorId::kKeyMissing) return key;
  std::error_code ignored;
  fs::remove_all(archive, ignored);
  return new_key(vault, owner, archive);
}

}  // namespace

storage::Owner checkpoint_owner(const std::string& project, const Zone& zone,
                                const std::string& train_job) {
  return {ProjectName(project), zone, "TrainJob/" + train_job};
}

Status hand_over_key(const CheckpointVault& vault, const storage::Owner& owner,
                     const std::string& archive, const std::string& memory) {
  if (vault.exits != nullptr) FALAJ_TRY(pass(vault, owner, 0));
  if (vault.keys == nullptr) return {};
  const crypto::SecretBytes key = FALAJ_TRY(key_of(vault, owner, archive));
  return storage::write_small_file(ckpt::key_path(memory), key.view());
}

void count_kept(const CheckpointVault& vault, const storage::Owner& owner,
                const std::string& archive) {
  if (vault.exits == nullptr) return;
  std::int64_t bytes = 0;
  std::error_code failed;
  for (auto at = fs::recursive_directory_iterator(archive, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code ignored;
    if (fs::is_regular_file(at->symlink_status(ignored))) {
      bytes += static_cast<std::int64_t>(at->file_size(ignored));
    }
  }
  (void)pass(vault, owner, bytes).ok();
}

}  // namespace falaj::training
