#include <sys/stat.h>

#include "app/regimes.h"
#include "app/secret_file.h"
#include "app/wiring.h"
#include "base/decode.h"
#include "security/residency/residency.h"
#include "security/sealed/kv.h"
#include "storage/small_file.h"

namespace falaj::app {
namespace {

namespace keys = security::keys;

Result<std::unique_ptr<keys::KeyVault>> open_vault(const Options& options,
                                                   keys::IfMissing missing) {
  const KeyOptions& chosen = options.keys;
  switch (chosen.vault) {
    case KeyOptions::Vault::kPkcs11: {
      keys::Pkcs11VaultOptions token;
      token.module = chosen.pkcs11_module;
      token.token = chosen.pkcs11_token;
      token.pin = FALAJ_TRY(
          read_secret("keys.pkcs11_pin_file", chosen.pkcs11_pin_file, ErrorId::kVaultSealed));
      return keys::open_pkcs11_vault(std::move(token));
    }
    case KeyOptions::Vault::kFile:
      break;
  }
  keys::FileVaultOptions file;
  file.path = chosen.vault_file.empty() ? options.data_folder + "/keys.sealed" : chosen.vault_file;
  struct stat info {};
  if (missing == keys::IfMissing::kRefuse && stat(file.path.c_str(), &info) != 0) {
    return Error{ErrorId::kVaultSealed,
                 file.path +
                     " does not exist, but keys.db does: this folder was made with keys.vault "
                     "pkcs11, or with its vault file elsewhere; name the settings of its server "
                     "(--config FILE)"};
  }
  file.machine_key_path = options.data_folder + "/machine.key";
  if (!chosen.passphrase_file.empty()) {
    file.passphrase = FALAJ_TRY(
        read_secret("keys.passphrase_file", chosen.passphrase_file, ErrorId::kVaultSealed));
  }
  return keys::open_file_vault(std::move(file), missing);
}

// The frozen sets that hold data of the object: the set itself, or those made from the view.
Result<std::vector<std::string>> sets_with(const features::TrainingSets& sets,
                                           const std::string& project, const std::string& object) {
  std::vector<std::string> ids;
  for (const features::Manifest& manifest : FALAJ_TRY(sets.list(ProjectName(project)))) {
    bool holds = object.empty() || object == "TrainingSet/" + manifest.name;
    for (const std::string& view : manifest.views) {
      holds = holds || object == "FeatureView/" + view.substr(0, view.find('@'));
    }
    if (holds) ids.push_back(manifest.id);
  }
  return ids;
}

// One that was shredded before is done.
Status shred_into(Storage& storage, const security::RequestContext& context,
                  const keys::KeyScope& scope, keys::ShredGround ground, Value& receipts) {
  const Result<keys::ShredOutcome> shredded = storage.key_admin->shred(context, scope, ground);
  if (shredded.ok()) {
    receipts.push(to_value(*shredded));
  } else if (shredded.error().id != ErrorId::kKeyMissing) {
    return shredded.error();
  }
  return {};
}

// What is in memory, online or in files of what the receipt says: nobody could read it after a
// restart, so nobody may before.
Status forget_shredded(const keys::ShredReceipt& receipt, features::Ingest& ingest,
                       Storage& storage, Serving& serving) {
  const ProjectName project(receipt.project);
  std::vector<std::string> views;
  constexpr std::string_view kView = "FeatureView/";
  constexpr std::string_view kModel = "Model/";
  if (receipt.object.starts_with(kView)) views.push_back(receipt.object.substr(kView.size()));
  if (receipt.object.empty()) {
    for (const storage::SqlRow& row : FALAJ_TRY(storage::query(
             *storage.sql, "SELECT DISTINCT view FROM feature_commits WHERE project = ?",
             {receipt.project}))) {
      views.push_back(row.text(0));
    }
  }
  for (const std::string& view : views) FALAJ_TRY(ingest.forget(project, view, receipt.zone));
  const bool model = receipt.object.starts_with(kModel);
  if (serving.deployments && (model || receipt.object.empty())) {
    serving.deployments->forget(project, model ? receipt.object.substr(kModel.size()) : "");
  }
  return {};
}

}  // namespace

api::EraseSubject eraser_of(Storage& storage, Features& features, Serving& serving) {
  return [&storage, &features, &serving](const security::RequestContext& context,
                                         const std::string& entity, const Value& key,
                                         keys::ShredGround ground) -> Result<Value> {
    const std::string& project = context.project.str();
    for (const keys::RingInfo& ring : FALAJ_TRY(storage.keys.tree->inventory())) {
      const bool rows =
          ring.object.starts_with("FeatureView/") || ring.object.starts_with("TrainingSet/");
      if (ring.project != project || !rows || ring.shredded.nanos != 0) continue;
      const keys::KeyScope scope{project, ring.zone, ring.object, "", ""};
      FALAJ_TRY(storage.exits->check_erasable(project, scope.zone, ring.created, scope.object));
    }
    const features::EraseReport report = FALAJ_TRY(features::erase_subject(
        context, {*storage.sql, *storage.blobs, *features.ingest, *features.training_sets}, entity,
        key));
    // Whose answers they are cannot be told from their hashes: all of them go.
    serving.deployments->drop_answers(context.project);
    // The keys of the old segments are deleted; now their last copies in the log go too.
    FALAJ_TRY(storage::purge_deleted(storage.keys.path));
    FALAJ_TRY(storage.generations->advance());
    Value reply = to_value(report);
    reply["receipts"] = Value::array();
    // What a command learned of the person nobody can tell: these are to be shredded, if need be.
    reply["checkpoints"] = Value::array();
    for (const keys::RingInfo& ring : FALAJ_TRY(storage.keys.tree->inventory())) {
      if (ring.project != project || ring.shredded.nanos != 0) continue;
      if (ring.object.starts_with("TrainJob/")) reply["checkpoints"].push(ring.object);
    }
    for (const features::ErasedView& view : report.views) {
      for (const std::string& row : view.own_keys) {
        const keys::KeyScope scope =
            FALAJ_TRY(security::sealed::row_scope(*storage.keys.tree, view.owner, row));
        FALAJ_TRY(shred_into(storage, context, scope, ground, reply["receipts"]));
      }
    }
    for (const std::string& set : report.training_sets) {
      const keys::KeyScope scope{project, Zone(), "TrainingSet/" + set, "", ""};
      FALAJ_TRY(shred_into(storage, context, scope, ground, reply["receipts"]));
    }
    return reply;
  };
}

Status wire_shredding(Storage& storage, Features& features, Training& training, Serving& serving) {
  storage.key_admin->set_after_shred(
      [sets = features.training_sets.get(), due = training.retrain_due.get(),
       ingest = features.ingest.get(), &storage,
       &serving](const security::RequestContext& context,
                 const keys::ShredReceipt& receipt) -> Result<Value> {
        if (serving.deployments) serving.deployments->drop_answers(ProjectName(receipt.project));
        // Now: a copy of any store from before this does not start beside this log.
        FALAJ_TRY(storage.generations->advance());
        // One person's online rows; what learned from them is found by the erasure itself.
        if (receipt.level == "subject") return Value::object();
        FALAJ_TRY(forget_shredded(receipt, *ingest, storage, serving));
        const std::vector<std::string> ids =
            FALAJ_TRY(sets_with(*sets, receipt.project, receipt.object));
        Value reply;
        reply["retrain_due"] = Value::array();
        const std::string cause = "Key/" + receipt.project + "/" + receipt.object;
        for (const registry::RetrainMark& mark : FALAJ_TRY(due->mark(context, ids, cause))) {
          reply["retrain_due"].push(to_value(mark));
        }
        return reply;
      });
  FALAJ_TRY(features::finish_erasures(*storage.sql, *storage.blobs));
  return storage.key_admin->deliver_receipts();
}

Result<Keys> wire_keys(const Options& options, const Clock& clock) {
  const std::string path = options.data_folder + "/keys.db";
  struct stat info {};
  const bool fresh = stat(path.c_str(), &info) != 0;
  Keys parts;
  parts.vault =
      FALAJ_TRY(open_vault(options, fresh ? keys::IfMissing::kCreate : keys::IfMissing::kRefuse));
  parts.path = path;
  parts.sql = FALAJ_TRY(storage::open_sqlite(path));
  keys::KeyTreeOptions tree;
  tree.purge = [path] { return storage::purge_deleted(path); };
  parts.tree = FALAJ_TRY(keys::open_key_tree(*parts.sql, *parts.vault, clock, std::move(tree)));
  return parts;
}

}  // namespace falaj::app
