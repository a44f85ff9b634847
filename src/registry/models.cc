#include "registry/models.h"

#include <algorithm>
#include <utility>

#include "base/decode.h"
#include "base/hash.h"
#include "base/json.h"

namespace falaj::registry {
namespace {

using storage::SqlRow;
using storage::SqlRows;
using storage::SqlTransaction;

#define FALAJ_VERSION_COLUMNS                                                              \
  "project, model, version, onnx, native, signature, training_set, feature_service, run, " \
  "code_version, zone, metrics, proof, created_at, onnx_sha256, "                          \
  "native_sha256, signer, bundle"
constexpr std::string_view kSelectOne =
    "SELECT " FALAJ_VERSION_COLUMNS
    " FROM model_versions WHERE project = ? AND model = ? AND version = ?";
constexpr std::string_view kSelectAll =
    "SELECT " FALAJ_VERSION_COLUMNS
    " FROM model_versions WHERE project = ? AND model = ? ORDER BY version DESC";
#undef FALAJ_VERSION_COLUMNS

std::string object_name(std::string_view project, std::string_view model, std::int64_t version) {
  return "ModelVersion/" + std::string(project) + "/" + std::string(model) + "/" +
         std::to_string(version);
}

Value to_value(const TensorSpec& tensor) {
  Value value;
  value["name"] = tensor.name;
  value["datatype"] = tensor.datatype;
  value["shape"] = Value::array();
  for (const std::int64_t size : tensor.shape) value["shape"].push(size);
  return value;
}

Result<TensorSpec> tensor_from_value(const Value& value) {
  Fields fields(value, "signature tensor");
  TensorSpec tensor;
  tensor.name = FALAJ_TRY(fields.required_text("name"));
  tensor.datatype = FALAJ_TRY(fields.required_text("datatype"));
  for (const Value& size : FALAJ_TRY(fields.list("shape"))) {
    if (!size.is_int() || size.as_int() < -1) {
      return Error(ErrorId::kWrongType, "signature tensor " + tensor.name + ": shape holds a " +
                                            std::string(size.type_name()));
    }
    tensor.shape.push_back(size.as_int());
  }
  FALAJ_TRY(fields.finish());
  return tensor;
}

Error model_missing(const std::string& what, const std::vector<std::string>& there) {
  std::string list;
  for (const std::string& name : there) list.append(list.empty() ? "" : ", ").append(name);
  return Error(ErrorId::kModelNotFound,
               what + "; there is " + (list.empty() ? "none yet: train one" : list));
}

Result<std::vector<std::string>> model_names(SqlTransaction& tx, const std::string& project) {
  std::vector<std::string> names;
  for (const SqlRow& row :
       FALAJ_TRY(tx.query("SELECT DISTINCT model FROM model_versions WHERE project = ?"
                          " ORDER BY model",
                          {project}))) {
    names.push_back(row.text(0));
  }
  return names;
}

// FJ-5001 for a version that is not there, saying which are.
Status missing_version(SqlTransaction& tx, const std::string& project, const std::string& model,
                       std::int64_t version) {
  std::vector<std::string> there;
  for (const SqlRow& row :
       FALAJ_TRY(tx.query("SELECT version FROM model_versions WHERE project = ? AND model = ?"
                          " ORDER BY version DESC LIMIT 10",
                          {project, model}))) {
    there.push_back("version " + std::to_string(row.integer(0)));
  }
  if (there.empty()) {
    there = FALAJ_TRY(model_names(tx, project));
    return model_missing("project " + project + " has no model '" + model + "'", there);
  }
  return model_missing("model '" + model + "' has no version " + std::to_string(version), there);
}

Result<Value> parse_column(const SqlRow& row, std::size_t column) {
  auto value = parse_json(row.text(column));
  if (value.ok()) return value;
  return Error(ErrorId::kDatabaseCorrupt, object_name(row.text(0), row.text(1), row.integer(2)) +
                                              " holds a value that is no JSON; restore a backup");
}

Result<ModelVersion> version_from_row(const SqlRow& row) {
  ModelVersion version;
  version.project = row.text(0);
  version.model = row.text(1);
  version.version = row.integer(2);
  version.onnx = BlobId(row.text(3));
  version.native = BlobId(row.text(4));
  version.signature = FALAJ_TRY(signature_from_value(FALAJ_TRY(parse_column(row, 5))));
  version.training_set = row.text(6);
  version.feature_service = row.text(7);
  version.run = RunId(row.text(8));
  version.code_version = row.text(9);
  version.zone = row.text(10);
  version.metrics = FALAJ_TRY(parse_column(row, 11));
  version.proof = FALAJ_TRY(parse_column(row, 12));
  version.created_at = Timestamp{row.integer(13)};
  version.onnx_sha256 = row.text(14);
  version.native_sha256 = row.text(15);
  version.signer = row.text(16);
  version.bundle = row.text(17);
  return version;
}

Status insert_version(SqlTransaction& tx, const ModelVersion& v) {
  FALAJ_TRY(tx.execute(
      "INSERT INTO model_versions (project, model, version, onnx, native, signature, training_set,"
      " feature_service, run, code_version, zone, metrics, proof, created_at, onnx_sha256,"
      " native_sha256, signer, bundle)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {v.project, v.model, v.version, v.onnx.str(), v.native.str(), to_json(to_value(v.signature)),
       v.training_set, v.feature_service, v.run.str(), v.code_version, v.zone, to_json(v.metrics),
       to_json(v.proof), v.created_at.nanos, v.onnx_sha256, v.native_sha256, v.signer, v.bundle}));
  return {};
}

// The declaration that `falaj get model` shows; made by the first registration if nobody did.
Status declare_model(SqlTransaction& tx, const ModelVersion& version) {
  const auto found = FALAJ_TRY(storage::find_object(tx, "Model", version.project, version.model));
  if (found) return {};
  storage::Object object;
  object.kind = "Model";
  object.project = version.project;
  object.name = version.model;
  object.spec = Value::object();
  FALAJ_TRY(storage::put_object(tx, object, version.created_at));
  return {};
}

// A retried registration of the same run must not make a second version.
Result<std::optional<ModelVersion>> already_registered(SqlTransaction& tx, const ModelVersion& v) {
  if (v.run.empty()) return std::optional<ModelVersion>{};
  const SqlRows rows = FALAJ_TRY(
      tx.query("SELECT version FROM model_versions WHERE project = ? AND model = ? AND run = ?"
               " AND onnx_sha256 = ?",
               {v.project, v.model, v.run.str(), v.onnx_sha256}));
  if (rows.empty()) return std::optional<ModelVersion>{};
  const SqlRows full =
      FALAJ_TRY(tx.query(kSelectOne, {v.project, v.model, rows.front().integer(0)}));
  return std::optional(FALAJ_TRY(version_from_row(full.front())));
}

// The purpose that the project declares now; "" when it declares none.
Result<std::string> purpose_of(SqlTransaction& tx, const std::string& project) {
  const auto object = FALAJ_TRY(storage::find_object(tx, "Project", "", project));
  return object ? object->spec.text("purpose") : std::string();
}

// `onnx_sha256`: of the bytes at hand.
security::ModelStatement statement_of(const ModelVersion& version, std::string onnx_sha256,
                                      std::string purpose) {
  security::ModelStatement statement;
  statement.model = version.project + "." + version.model;
  statement.files.push_back({"model.onnx", std::move(onnx_sha256)});
  if (!version.native.empty()) statement.files.push_back({"model.txt", version.native_sha256});
  statement.project = version.project;
  statement.zone = version.zone;
  statement.purpose = std::move(purpose);
  return statement;
}

Value registration_detail(const ModelVersion& version) {
  Value detail;
  detail["onnx"] = version.onnx_sha256;
  detail["native"] = version.native_sha256;
  detail["training_set"] = version.training_set;
  detail["run"] = version.run.str();
  if (!version.signer.empty()) detail["signer"] = version.signer;
  detail["bundle_sha256"] = sha256_hex(version.bundle);
  detail["code_version"] = version.code_version;
  detail["metrics"] = version.metrics;
  detail["proof"] = version.proof;
  return detail;
}

Result<std::vector<storage::Reference>> check_model(const storage::Object& object) {
  Fields fields(object.spec, "Model " + object.name + " spec");
  FALAJ_TRY(fields.text("description"));
  FALAJ_TRY(fields.finish());
  return std::vector<storage::Reference>{};
}

}  // namespace

const storage::Migration kRegistryMigration{
    "registry-001-versions",
    "CREATE TABLE model_versions (project TEXT NOT NULL, model TEXT NOT NULL,"
    " version INTEGER NOT NULL CHECK (version > 0), onnx TEXT NOT NULL, native TEXT NOT NULL,"
    " signature TEXT NOT NULL, training_set TEXT NOT NULL, feature_service TEXT NOT NULL,"
    " run TEXT NOT NULL, code_version TEXT NOT NULL, zone TEXT NOT NULL CHECK (zone != ''),"
    " metrics TEXT NOT NULL,"
    " proof TEXT NOT NULL, created_at INTEGER NOT NULL, onnx_sha256 TEXT NOT NULL,"
    " native_sha256 TEXT NOT NULL, signer TEXT NOT NULL, bundle TEXT NOT NULL,"
    " PRIMARY KEY (project, model, version)) WITHOUT ROWID;"
    "CREATE TABLE model_aliases (project TEXT NOT NULL, model TEXT NOT NULL, alias TEXT NOT NULL,"
    " version INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
    " PRIMARY KEY (project, model, alias),"
    " FOREIGN KEY (project, model, version) REFERENCES model_versions (project, model, version))"
    " WITHOUT ROWID;"};

Result<Signature> signature_from_value(const Value& value) {
  Fields fields(value, "signature");
  Signature signature;
  for (const Value& tensor : FALAJ_TRY(fields.list("inputs"))) {
    signature.inputs.push_back(FALAJ_TRY(tensor_from_value(tensor)));
  }
  for (const Value& tensor : FALAJ_TRY(fields.list("outputs"))) {
    signature.outputs.push_back(FALAJ_TRY(tensor_from_value(tensor)));
  }
  signature.features = FALAJ_TRY(fields.texts("features"));
  FALAJ_TRY(fields.finish());
  return signature;
}

Value to_value(const Signature& signature) {
  Value value;
  for (const char* list : {"inputs", "outputs", "features"}) value[list] = Value::array();
  for (const TensorSpec& tensor : signature.inputs) value["inputs"].push(to_value(tensor));
  for (const TensorSpec& tensor : signature.outputs) value["outputs"].push(to_value(tensor));
  for (const std::string& feature : signature.features) value["features"].push(feature);
  return value;
}

Value to_value(const ModelVersion& version) {
  Value value = registration_detail(version);
  value["project"] = version.project;
  value["model"] = version.model;
  value["version"] = version.version;
  value["signature"] = to_value(version.signature);
  value["feature_service"] = version.feature_service;
  value["zone"] = version.zone;
  value["blobs"]["onnx"] = version.onnx.str();
  value["blobs"]["native"] = version.native.str();
  value["created_at"] = to_rfc3339(version.created_at);
  if (version.proof.has("optimized_from")) {
    value["optimized_from"] = version.proof["optimized_from"]["version"];
  }
  return value;
}

storage::Owner owner_of(const ModelVersion& version) {
  return {ProjectName(version.project), Zone(version.zone), "Model/" + version.model};
}

Status keep_onnx(storage::BlobStore& blobs, std::string_view bytes, ModelVersion& version) {
  const storage::StoredBlob stored = FALAJ_TRY(blobs.put(owner_of(version), bytes));
  version.onnx = stored.id;
  version.onnx_sha256 = stored.content_sha256;
  return {};
}

Status keep_native(storage::BlobStore& blobs, std::string_view bytes, ModelVersion& version) {
  const storage::StoredBlob stored = FALAJ_TRY(blobs.put(owner_of(version), bytes));
  version.native = stored.id;
  version.native_sha256 = stored.content_sha256;
  return {};
}

std::vector<storage::KindInfo> kinds() {
  return {{"Model", storage::Scope::kProject,
           "A named model; its versions come from training, its aliases from promotion.",
           check_model}};
}

Models::Models(storage::SqlStore& sql, storage::BlobStore& blobs, security::Audit& audit,
               const security::ModelTrust& trust, const Clock& clock)
    : sql_(sql), blobs_(blobs), audit_(audit), trust_(trust), clock_(clock) {}

Result<ModelVersion> Models::add_version(const security::RequestContext& context,
                                         ModelVersion version) {
  FALAJ_TRY(check_name("model", version.model));
  version.project = context.project.str();
  if (version.zone.empty()) {
    return Error(ErrorId::kZoneMissing, "a version of model '" + version.model +
                                            "' without a zone is refused: it takes that of what "
                                            "it was made from");
  }
  for (const BlobId* blob : {&version.onnx, &version.native}) {
    if (blob->empty() && blob == &version.native) continue;
    const auto size = blobs_.size(owner_of(version), *blob);
    if (size.ok()) continue;
    return Error(ErrorId::kModelCorrupt, "model " + version.model + ": blob '" + blob->str() +
                                             "' is not in the store (" + size.error().message +
                                             "); store the model's files before registering it");
  }
  version.created_at = clock_.now();
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    if (auto before = FALAJ_TRY(already_registered(tx, version))) {
      version = *std::move(before);
      return {};
    }
    const SqlRows newest = FALAJ_TRY(
        tx.query("SELECT max(version) FROM model_versions WHERE project = ? AND model = ?",
                 {version.project, version.model}));
    version.version = newest.empty() ? 1 : newest.front().integer(0) + 1;
    std::string purpose = FALAJ_TRY(purpose_of(tx, version.project));
    version.bundle =
        FALAJ_TRY(trust_.sign(statement_of(version, version.onnx_sha256, std::move(purpose))));
    FALAJ_TRY(insert_version(tx, version));
    FALAJ_TRY(declare_model(tx, version));
    FALAJ_TRY(audit_.append(
        tx, context,
        {"model.register", object_name(version.project, version.model, version.version),
         registration_detail(version)}));
    return {};
  }));
  return version;
}

Result<std::string> Models::purpose(const std::string& project) const {
  std::string purpose;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    purpose = FALAJ_TRY(purpose_of(tx, project));
    return {};
  }));
  return purpose;
}

Result<std::string> Models::admit_foreign(const security::RequestContext& context,
                                          const std::string& model, std::string_view onnx,
                                          std::string_view bundle) const {
  ModelVersion version;
  version.project = context.project.str();
  version.model = model;
  version.zone = context.zone.name();
  const std::string wanted = FALAJ_TRY(purpose(version.project));
  return trust_.admit_foreign(statement_of(version, sha256_hex(onnx), wanted), bundle);
}

Error Models::refuse_foreign(const security::RequestContext& context, const std::string& model,
                             std::string_view onnx, Error why) const {
  Value detail;
  detail["code"] = to_string(why.id);
  detail["reason"] = why.message;
  detail["sha256"] = sha256_hex(onnx);
  detail["bytes"] = onnx.size();
  const auto recorded = audit_.record(
      context, {"model.refused", "Model/" + context.project.str() + "/" + model, detail});
  return recorded.ok() ? std::move(why) : recorded.error();
}

Result<std::string> Models::load_onnx(const ModelVersion& version) const {
  const std::string name = object_name(version.project, version.model, version.version);
  Result<std::string> bytes = blobs_.get(owner_of(version), version.onnx);
  if (!bytes.ok()) return Error(ErrorId::kModelCorrupt, name + ": " + bytes.error().message);
  const std::string wanted = FALAJ_TRY(purpose(version.project));
  const Status admitted =
      trust_.admit(statement_of(version, sha256_hex(*bytes), wanted), version.bundle);
  if (admitted.ok()) return bytes;
  {
    const MutexLock lock(mutex_);
    if (!refused_.insert(name).second) return admitted.error().within(name);
  }
  Value detail;
  detail["reason"] = admitted.error().message;
  const auto recorded =
      audit_.record(security::system_context("service:registry", ProjectName(version.project),
                                             Zone(version.zone)),
                    {"model.refused", name, std::move(detail)});
  if (!recorded.ok()) return recorded.error();
  return admitted.error().within(name);
}

Result<std::int64_t> Models::onnx_bytes(const ModelVersion& version) const {
  const Result<std::int64_t> bytes = blobs_.size(owner_of(version), version.onnx);
  if (bytes.ok()) return bytes;
  return Error(
      ErrorId::kModelCorrupt,
      object_name(version.project, version.model, version.version) + ": " + bytes.error().message);
}

Result<ModelVersion> Models::get(const ProjectName& project, const std::string& model,
                                 std::int64_t version) const {
  std::optional<ModelVersion> found;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    const SqlRows rows = FALAJ_TRY(tx.query(kSelectOne, {project.str(), model, version}));
    if (rows.empty()) return missing_version(tx, project.str(), model, version);
    found = FALAJ_TRY(version_from_row(rows.front()));
    return {};
  }));
  return *std::move(found);
}

Result<std::vector<ModelVersion>> Models::versions(const ProjectName& project,
                                                   const std::string& model) const {
  std::vector<ModelVersion> versions;
  for (const SqlRow& row : FALAJ_TRY(storage::query(sql_, kSelectAll, {project.str(), model}))) {
    versions.push_back(FALAJ_TRY(version_from_row(row)));
  }
  return versions;
}

Result<std::vector<std::string>> Models::models(const ProjectName& project) const {
  std::vector<std::string> names;
  FALAJ_TRY(sql_.read([&](SqlTransaction& tx) -> Status {
    names = FALAJ_TRY(model_names(tx, project.str()));
    return {};
  }));
  return names;
}

Status Models::set_alias(const security::RequestContext& context, const std::string& model,
                         const std::string& alias, std::int64_t version, const Value& evidence,
                         const AliasGuard& guard) {
  FALAJ_TRY(check_name("alias", alias));
  const std::string project = context.project.str();
  const std::int64_t now = clock_.now().nanos;
  return sql_.write([&](SqlTransaction& tx) -> Status {
    if (FALAJ_TRY(tx.query(kSelectOne, {project, model, version})).empty()) {
      return missing_version(tx, project, model, version);
    }
    const SqlRows before = FALAJ_TRY(
        tx.query("SELECT version FROM model_aliases WHERE project = ? AND model = ? AND alias = ?",
                 {project, model, alias}));
    if (!before.empty() && before.front().integer(0) == version) return {};
    const std::int64_t now_at = before.empty() ? 0 : before.front().integer(0);
    if (guard.expected_version.value_or(now_at) != now_at) {
      return Error(ErrorId::kConflict, "alias '" + alias + "' of model '" + model +
                                           "' points at version " + std::to_string(now_at) +
                                           ", not at version " +
                                           std::to_string(*guard.expected_version) +
                                           " any more; look again at what serves and decide anew");
    }
    FALAJ_TRY(
        tx.execute("INSERT INTO model_aliases (project, model, alias, version, updated_at)"
                   " VALUES (?, ?, ?, ?, ?) ON CONFLICT (project, model, alias)"
                   " DO UPDATE SET version = excluded.version, updated_at = excluded.updated_at",
                   {project, model, alias, version, now}));
    Value detail;
    detail["alias"] = alias;
    detail["version"] = version;
    detail["before"] = before.empty() ? Value() : Value(before.front().integer(0));
    detail["evidence"] = evidence;
    FALAJ_TRY(
        audit_.append(tx, context, {"model.alias", "Model/" + project + "/" + model, detail}));
    return {};
  });
}

Result<std::optional<std::int64_t>> Models::alias(const ProjectName& project,
                                                  const std::string& model,
                                                  const std::string& alias) const {
  const SqlRows rows = FALAJ_TRY(storage::query(
      sql_, "SELECT version FROM model_aliases WHERE project = ? AND model = ? AND alias = ?",
      {project.str(), model, alias}));
  if (rows.empty()) return std::optional<std::int64_t>{};
  return std::optional(rows.front().integer(0));
}

Result<Value> Models::aliases(const ProjectName& project, const std::string& model) const {
  Value value = Value::object();
  for (const SqlRow& row : FALAJ_TRY(storage::query(
           sql_, "SELECT alias, version FROM model_aliases WHERE project = ? AND model = ?",
           {project.str(), model}))) {
    value[row.text(0)] = row.integer(1);
  }
  return value;
}

}  // namespace falaj::registry
