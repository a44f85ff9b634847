// What a bundle of evidence says besides the audit log: each part is a report of its own service.
#include "app/restore_drill.h"
#include "app/wiring.h"
#include "base/json.h"
#include "security/access/matrix.h"
#include "storage/objects.h"

namespace falaj::app {
namespace {

Result<std::string> key_inventory(security::keys::KeyTree& tree, const security::Audit& audit) {
  Value value;
  // Up to there the log's receipts must fit the keys below.
  value["entries"] = FALAJ_TRY(audit.head()).sequence;
  value["vault"] = tree.vault_name();
  value["roots"] = Value::array();
  const auto roots = FALAJ_TRY(tree.roots());
  for (const security::keys::RootKey& root : roots) {
    Value item;
    item["id"] = root.id;
    item["zone"] = root.zone.name();
    item["created"] = to_rfc3339(root.created);
    value["roots"].push(std::move(item));
  }
  value["keys"] = Value::array();
  const auto rings = FALAJ_TRY(tree.inventory());
  for (const auto& ring : rings) value["keys"].push(security::keys::to_value(ring));
  return to_pretty_json(value) + "\n";
}

Result<std::vector<storage::Object>> projects_of(storage::SqlStore& sql) {
  std::vector<storage::Object> projects;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    projects = FALAJ_TRY(storage::list_objects(tx, "Project"));
    return {};
  }));
  return projects;
}

// Every version of every model: what it is, what it was trained on, where and for what it may be
// used.
Result<std::string> model_cards(storage::SqlStore& sql, const registry::Models& models) {
  Value value;
  value["signer"] = models.trust().public_key();
  value["models"] = Value::array();
  const auto projects = FALAJ_TRY(projects_of(sql));
  for (const storage::Object& project : projects) {
    const ProjectName name(project.name);
    const auto names = FALAJ_TRY(models.models(name));
    for (const std::string& model : names) {
      const auto versions = FALAJ_TRY(models.versions(name, model));
      for (const registry::ModelVersion& version : versions) {
        Value card = registry::to_value(version);
        card["project"] = project.name;
        card["purpose"] = project.spec["purpose"];
        card["bundle"] = version.bundle;
        card["aliases"] = FALAJ_TRY(models.aliases(name, model));
        value["models"].push(std::move(card));
      }
    }
  }
  return to_pretty_json(value) + "\n";
}

// Which role may do what, who was granted which, and what follows from it for whom.
Result<std::string> access_matrix(const Options& options, storage::SqlStore& sql,
                                  security::Identity& identity, const Clock& clock) {
  namespace access = security::access;
  access::MatrixInput input;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    input.grants = FALAJ_TRY(storage::list_objects(tx, "Grant"));
    input.groups = FALAJ_TRY(storage::list_objects(tx, "Group"));
    const auto projects = FALAJ_TRY(storage::list_objects(tx, "Project"));
    for (const storage::Object& project : projects) input.projects.push_back(project.name);
    return {};
  }));
  input.built_in = built_in_grants(options);
  for (const security::User& user : identity.directory().users()) {
    using State = access::MatrixInput::Account::State;
    input.accounts.push_back({user.id, user.state == security::AccountState::kActive
                                           ? State::kActive
                                           : State::kDisabled});
  }
  input.resolve = [&identity](const std::string& subject) { return identity.resolve(subject); };
  return to_pretty_json(FALAJ_TRY(access::access_matrix(input, clock.now()))) + "\n";
}

// What crossed which border, by how many bytes, and on which transfer.
Result<std::string> zone_ledger(security::residency::Exits& exits, const security::Audit& audit) {
  Value value;
  // Up to there the rows count all that the log says crossed.
  value["entries"] = FALAJ_TRY(audit.head()).sequence;
  value["rows"] = Value::array();
  const auto rows = FALAJ_TRY(exits.ledger(""));
  for (const auto& row : rows) value["rows"].push(security::residency::to_value(row));
  value["transfers"] = FALAJ_TRY(exits.transfers(""));
  return to_pretty_json(value) + "\n";
}

}  // namespace

void wire_evidence(const Options& options, AuditTrail& trail, Storage& storage,
                   security::Identity& identity, Training& training, const Clock& clock) {
  std::vector<security::EvidencePart> parts;
  parts.push_back({"access/matrix.json", [options, sql = storage.sql.get(), &identity, &clock] {
                     return access_matrix(options, *sql, identity, clock);
                   }});
  parts.push_back(
      {"keys/inventory.json", [tree = storage.keys.tree.get(), audit = storage.audit.get()] {
         return key_inventory(*tree, *audit);
       }});
  parts.push_back({"models/cards.json", [sql = storage.sql.get(), models = training.models.get()] {
                     return model_cards(*sql, *models);
                   }});
  parts.push_back(
      {"restore/drill.json",
       [options, &storage, signer = trail.signer.get(), &clock]() -> Result<std::string> {
         const security::SignerInfo info = FALAJ_TRY(signer->info());
         return restore_drill(options, storage, info.log_key, clock);
       }});
  parts.push_back({"zones/ledger.json", [exits = storage.exits.get(), audit = storage.audit.get()] {
                     return zone_ledger(*exits, *audit);
                   }});
  trail.evidence = std::make_unique<security::EvidenceDesk>(*trail.heads, clock, std::move(parts));
}

}  // namespace falaj::app
