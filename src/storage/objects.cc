#include "storage/objects.h"

#include "base/decode.h"
#include "base/json.h"

namespace falaj::storage {
namespace {

constexpr std::string_view kApiVersion = "falaj.dev/v1";

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

// Columns: kind, project, name, labels, spec, generation, created_at, updated_at.
Result<Object> object_from_row(const SqlRow& row) {
  auto labels = parse_json(row.text(3));
  auto spec = parse_json(row.text(4));
  if (!labels.ok() || !spec.ok()) {
    return Error(ErrorId::kDatabaseCorrupt,
                 "the stored " + row.text(0) + " " + quoted(row.text(2)) + " in project " +
                     quoted(row.text(1)) + " is no valid JSON; restore from a backup");
  }
  return Object{row.text(0),
                row.text(1),
                row.text(2),
                std::move(labels).value(),
                std::move(spec).value(),
                row.integer(5),
                Timestamp{row.integer(6)},
                Timestamp{row.integer(7)}};
}

Result<std::vector<Object>> objects_from_rows(const SqlRows& rows) {
  std::vector<Object> objects;
  objects.reserve(rows.size());
  for (const SqlRow& row : rows) objects.push_back(FALAJ_TRY(object_from_row(row)));
  return objects;
}

Status check_labels(const Value& labels, const std::string& where) {
  if (labels.is_null()) return {};
  if (!labels.is_object()) {
    return Error(ErrorId::kWrongType,
                 where + ": labels is a " + std::string(labels.type_name()) + ", not an object");
  }
  for (const auto& [key, value] : labels.as_object()) {
    if (value.is_string()) continue;
    return Error(ErrorId::kWrongType, where + ": the label " + quoted(key) + " is a " +
                                          std::string(value.type_name()) + ", not a text");
  }
  return {};
}

// An empty set of labels is the same as none.
Value normal_labels(const Value& labels) {
  return labels.is_object() && labels.as_object().empty() ? Value() : labels;
}

Error not_found(SqlTransaction& tx, std::string_view kind, std::string_view project,
                std::string_view name) {
  std::string message = std::string(kind) + " " + quoted(name);
  if (!project.empty()) message += " in project " + quoted(project);
  message += " does not exist";
  const auto rows = tx.query("SELECT name FROM objects WHERE kind = ? AND project = ?",
                             {std::string(kind), std::string(project)});
  std::vector<std::string> names;
  if (rows.ok()) {
    for (const SqlRow& row : *rows) names.push_back(row.text(0));
  }
  const std::string near = nearest_name(name, names);
  const std::string where = project.empty() ? "" : " -p " + std::string(project);
  message += near.empty() ? "; see what exists with: falaj list " + std::string(kind) + where
                          : "; did you mean " + quoted(near) + "?";
  return {ErrorId::kObjectNotFound, message};
}

// Of an object that may be deleted; 0 when the name is new.
Result<std::int64_t> last_generation(SqlTransaction& tx, const Object& object) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT COALESCE(MAX(generation), 0) FROM object_history"
                         " WHERE kind = ? AND project = ? AND name = ?",
                         {object.kind, object.project, object.name}));
  return rows.at(0).integer(0);
}

Status write_history(SqlTransaction& tx, const Object& object) {
  FALAJ_TRY(
      tx.execute("INSERT INTO object_history (kind, project, name, generation, labels, spec, at)"
                 " VALUES (?, ?, ?, ?, ?, ?, ?)",
                 {object.kind, object.project, object.name, object.generation,
                  to_json(object.labels), to_json(object.spec), object.updated_at.nanos}));
  return {};
}

}  // namespace

const Migration kObjectsMigration{
    "storage-001-objects",
    "CREATE TABLE objects ("
    " kind TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL,"
    " labels TEXT NOT NULL, spec TEXT NOT NULL, generation INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,"
    " PRIMARY KEY (kind, project, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE object_history ("
    " id INTEGER PRIMARY KEY, kind TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL,"
    " generation INTEGER NOT NULL, labels TEXT NOT NULL, spec TEXT NOT NULL,"
    " at INTEGER NOT NULL) STRICT;"
    "CREATE INDEX object_history_by_name ON object_history (kind, project, name, id);"};

Value to_value(const Object& object) {
  Value metadata;
  metadata["name"] = object.name;
  if (!object.project.empty()) metadata["project"] = object.project;
  const Value labels = normal_labels(object.labels);
  if (!labels.is_null()) metadata["labels"] = labels;
  if (object.generation > 0) {
    metadata["generation"] = object.generation;
    metadata["created_at"] = to_rfc3339(object.created_at);
    metadata["updated_at"] = to_rfc3339(object.updated_at);
  }
  Value value;
  value["apiVersion"] = kApiVersion;
  value["kind"] = object.kind;
  value["metadata"] = std::move(metadata);
  value["spec"] = object.spec.is_null() ? Value::object() : object.spec;
  return value;
}

Result<Object> object_from_value(const Value& value) {
  Fields fields(value, "object");
  const std::string version = FALAJ_TRY(fields.required_text("apiVersion"));
  if (version != kApiVersion) {
    return Error(ErrorId::kOutOfRange, "object: apiVersion is " + quoted(version) +
                                           ", this program reads " + quoted(kApiVersion));
  }
  Object object;
  object.kind = FALAJ_TRY(fields.required_text("kind"));
  const Value metadata = FALAJ_TRY(fields.object("metadata"));
  Fields names(metadata, object.kind + " metadata");
  object.name = FALAJ_TRY(names.required_text("name"));
  object.project = FALAJ_TRY(names.text("project"));
  object.labels = normal_labels(names.any("labels"));
  FALAJ_TRY(names.finish());
  object.spec = FALAJ_TRY(fields.object("spec"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_name(object.kind + " name", object.name));
  if (!object.project.empty()) FALAJ_TRY(check_name(object.kind + " project", object.project));
  FALAJ_TRY(check_labels(object.labels, names.where()));
  return object;
}

Result<PutOutcome> put_object(SqlTransaction& tx, const Object& object, Timestamp now) {
  Object next = object;
  next.labels = normal_labels(object.labels);
  next.updated_at = now;
  const auto existing = FALAJ_TRY(find_object(tx, object.kind, object.project, object.name));
  if (!existing.has_value()) {
    next.generation = FALAJ_TRY(last_generation(tx, next)) + 1;
    FALAJ_TRY(
        tx.execute("INSERT INTO objects (kind, project, name, labels, spec, generation, created_at,"
                   " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                   {next.kind, next.project, next.name, to_json(next.labels), to_json(next.spec),
                    next.generation, now.nanos, now.nanos}));
    FALAJ_TRY(write_history(tx, next));
    return PutOutcome::kCreated;
  }
  const bool same = to_json(existing->spec) == to_json(next.spec) &&
                    to_json(existing->labels) == to_json(next.labels);
  if (same) return PutOutcome::kUnchanged;
  next.generation = existing->generation + 1;
  FALAJ_TRY(
      tx.execute("UPDATE objects SET labels = ?, spec = ?, generation = ?, updated_at = ?"
                 " WHERE kind = ? AND project = ? AND name = ?",
                 {to_json(next.labels), to_json(next.spec), next.generation, now.nanos, next.kind,
                  next.project, next.name}));
  FALAJ_TRY(write_history(tx, next));
  return PutOutcome::kChanged;
}

Result<std::optional<Object>> find_object(SqlTransaction& tx, std::string_view kind,
                                          std::string_view project, std::string_view name) {
  const SqlRows rows = FALAJ_TRY(tx.query(
      "SELECT kind, project, name, labels, spec, generation, created_at, updated_at FROM objects"
      " WHERE kind = ? AND project = ? AND name = ?",
      {std::string(kind), std::string(project), std::string(name)}));
  if (rows.empty()) return std::optional<Object>();
  return std::optional<Object>(FALAJ_TRY(object_from_row(rows.front())));
}

Result<Object> get_object(SqlTransaction& tx, std::string_view kind, std::string_view project,
                          std::string_view name) {
  auto found = FALAJ_TRY(find_object(tx, kind, project, name));
  if (!found.has_value()) return not_found(tx, kind, project, name);
  return std::move(*found);
}

Result<std::vector<Object>> list_objects(SqlTransaction& tx, std::string_view kind,
                                         std::string_view project) {
  const std::string kind_text(kind);
  const std::string project_text(project);
  return objects_from_rows(FALAJ_TRY(tx.query(
      "SELECT kind, project, name, labels, spec, generation, created_at, updated_at FROM objects"
      " WHERE (? = '' OR kind = ?) AND (? = '' OR project = ?) ORDER BY kind, project, name",
      {kind_text, kind_text, project_text, project_text})));
}

Result<std::int64_t> count_objects(SqlTransaction& tx, std::string_view project) {
  const SqlRows rows =
      FALAJ_TRY(tx.query("SELECT COUNT(*) FROM objects WHERE project = ?", {std::string(project)}));
  return rows.at(0).integer(0);
}

Result<std::vector<Object>> object_history(SqlTransaction& tx, std::string_view kind,
                                           std::string_view project, std::string_view name) {
  return objects_from_rows(FALAJ_TRY(
      tx.query("SELECT kind, project, name, labels, spec, generation, at, at FROM object_history"
               " WHERE kind = ? AND project = ? AND name = ? ORDER BY id DESC",
               {std::string(kind), std::string(project), std::string(name)})));
}

Result<std::vector<Object>> object_history(SqlTransaction& tx, std::string_view kind) {
  return objects_from_rows(FALAJ_TRY(
      tx.query("SELECT kind, project, name, labels, spec, generation, at, at FROM object_history"
               " WHERE kind = ? ORDER BY id",
               {std::string(kind)})));
}

Status delete_object(SqlTransaction& tx, std::string_view kind, std::string_view project,
                     std::string_view name) {
  const std::int64_t removed =
      FALAJ_TRY(tx.execute("DELETE FROM objects WHERE kind = ? AND project = ? AND name = ?",
                           {std::string(kind), std::string(project), std::string(name)}));
  if (removed == 0) return not_found(tx, kind, project, name);
  return {};
}

}  // namespace falaj::storage
