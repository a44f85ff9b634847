#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/regimes.h"
#include "app/secret_file.h"
#include "app/wiring.h"
#include "base/decode.h"
#include "base/json.h"
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
      if (chosen.pkcs11_module.empty() || chosen.pkcs11_token.empty() ||
          chosen.pkcs11_pin_file.empty()) {
        return Error{ErrorId::kVaultSealed,
                     "keys.vault=pkcs11 needs keys.pkcs11_module (the HSM's library), "
                     "keys.pkcs11_token (the token's label) and keys.pkcs11_pin_file (a file with "
                     "its PIN that only you can read)"};
      }
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

// What the TrainJobs of a project learned from.
struct Learned {
  std::map<std::string, std::set<std::string>> sets;  // By job: the TrainingSets.
  std::set<std::string> silent;                       // Jobs of which a run names none.

  bool from_any(const std::string& job, const std::vector<std::string>& of) const {
    const auto found = sets.find(job);
    return found != sets.end() && std::ranges::any_of(of, [&](const std::string& set) {
             return found->second.contains(set);
           });
  }
  // Whether all that it learned from is known. A declaration tells nothing of runs before it.
  bool tells(const std::string& job) const { return sets.contains(job) && !silent.contains(job); }
};

// As its runs and its declaration say. A command that says nothing is not in `sets`.
Result<Learned> learned_in(storage::SqlStore& sql, const std::string& project) {
  Learned learned;
  const auto add = [&](const std::string& job, const std::string& set) {
    if (!set.empty()) learned.sets[job].insert(set);
  };
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    for (const storage::SqlRow& row : FALAJ_TRY(tx.query(
             "SELECT DISTINCT experiment, inputs FROM runs WHERE project = ?", {project}))) {
      const Value inputs = FALAJ_TRY(parse_json(row.text(1)));
      const std::string set = inputs["training_set"].text("name");
      add(row.text(0), set);
      if (set.empty()) learned.silent.insert(row.text(0));
    }
    for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "TrainJob"))) {
      if (object.project != project) continue;
      add(object.name, object.spec["data"].text("training_set"));
      add(object.name, object.spec["capture"]["data"].text("training_set"));
    }
    return {};
  }));
  return learned;
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

constexpr std::string_view kTrainJob = "TrainJob/";

Result<std::vector<keys::RingInfo>> rings_alive(Storage& storage, const std::string& project) {
  std::vector<keys::RingInfo> rings = FALAJ_TRY(storage.keys.tree->inventory());
  std::erase_if(rings, [&](const keys::RingInfo& ring) {
    return ring.project != project || ring.shredded.nanos != 0;
  });
  return rings;
}

// Whether everything that an erasure may destroy may be, before any of it is: FJ-7034.
Status check_erasable(Storage& storage, const std::string& project, const Learned& learned) {
  for (const keys::RingInfo& ring : FALAJ_TRY(rings_alive(storage, project))) {
    const bool checkpoints = ring.object.starts_with(kTrainJob) &&
                             learned.sets.contains(ring.object.substr(kTrainJob.size()));
    if (!checkpoints && !ring.object.starts_with("FeatureView/") &&
        !ring.object.starts_with("TrainingSet/")) {
      continue;
    }
    FALAJ_TRY(storage.exits->check_erasable(project, ring.zone, ring.created, ring.object));
  }
  return {};
}

// The checkpoints of TrainJobs that learned from these sets. What a command learned that names no
// set nobody can tell: unless it is shredded anyway, it is named in `checkpoints`, to be shredded
// if need be.
Status shred_checkpoints(Storage& storage, const security::RequestContext& context,
                         const Learned& learned, const std::vector<std::string>& sets,
                         keys::ShredGround ground, Value& reply) {
  const std::string& project = context.project.str();
  reply["checkpoints"] = Value::array();
  for (const keys::RingInfo& ring : FALAJ_TRY(rings_alive(storage, project))) {
    if (!ring.object.starts_with(kTrainJob)) continue;
    const std::string job = ring.object.substr(kTrainJob.size());
    if (!learned.from_any(job, sets)) {
      if (!learned.tells(job)) reply["checkpoints"].push(ring.object);
      continue;
    }
    const keys::KeyScope scope{project, ring.zone, ring.object, "", ""};
    FALAJ_TRY(shred_into(storage, context, scope, ground, reply["receipts"]));
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
    const Learned learned = FALAJ_TRY(learned_in(*storage.sql, project));
    FALAJ_TRY(check_erasable(storage, project, learned));
    const features::EraseReport report = FALAJ_TRY(features::erase_subject(
        context, {*storage.sql, *storage.blobs, *features.ingest, *features.training_sets}, entity,
        key));
    // Whose answers they are cannot be told from their hashes: all of them go.
    serving.deployments->drop_answers(context.project);
    FALAJ_TRY(serving.recordings->erase(context.project));
    // The keys of the old segments are deleted; now their last copies in the log go too.
    FALAJ_TRY(storage::purge_deleted(storage.keys.path));
    FALAJ_TRY(storage.generations->advance());
    Value reply = to_value(report);
    reply["receipts"] = Value::array();
    for (const features::ErasedView& view : report.views) {
      for (const std::string& row : view.own_keys) {
        const keys::KeyScope scope =
            FALAJ_TRY(security::sealed::row_scope(*storage.keys.tree, view.owner, row));
        FALAJ_TRY(shred_into(storage, context, scope, ground, reply["receipts"]));
      }
    }
    // Before the sets: while they live, a repeated erasure finds what learned from them.
    FALAJ_TRY(shred_checkpoints(storage, context, learned, report.training_sets, ground, reply));
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
        if (serving.recordings) FALAJ_TRY(serving.recordings->erase(ProjectName(receipt.project)));
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
