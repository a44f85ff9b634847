#include "features/erasure.h"

#include <algorithm>
#include <set>

#include "base/decode.h"
#include "features/internal/segments.h"

namespace falaj::features {

const storage::Migration kErasureMigration{
    "features-erasure-001",
    "CREATE TABLE feature_erased_blobs (project TEXT NOT NULL, zone TEXT NOT NULL,"
    " view TEXT NOT NULL, blob TEXT NOT NULL, PRIMARY KEY (project, zone, view, blob))"
    " WITHOUT ROWID;"};

Result<Subject> subject_from_value(const Entity& entity, const Value& key) {
  Fields fields(key, "key of " + entity.name);
  Subject subject;
  for (const table::Field& field : entity.keys) {
    const Value& part = fields.any(field.name);
    if (part.is_null()) {
      return Error(ErrorId::kMissingField, "entity " + entity.name + " needs " + field.name);
    }
    const bool number = field.type == table::Type::kInt64;
    if (number ? !part.is_int() : !part.is_string()) {
      return Error(ErrorId::kWrongType, field.name + " is a " + std::string(part.type_name()) +
                                            ", not a " + (number ? "whole number" : "text"));
    }
    subject.keys.push_back(field);
    if (number) {
      subject.parts.emplace_back(part.as_int());
    } else {
      subject.parts.emplace_back(part.as_string());
    }
  }
  FALAJ_TRY(fields.finish());
  return subject;
}

Value to_value(const EraseReport& report) {
  Value out;
  out["rows"] = report.rows;
  out["views"] = Value::array();
  for (const ErasedView& view : report.views) {
    Value row;
    row["view"] = view.view;
    row["rows"] = view.rows;
    row["segments"] = view.segments;
    row["online"] = view.online;
    row["quarantines"] = view.quarantines;
    out["views"].push(std::move(row));
  }
  out["training_sets"] = Value::array();
  for (const std::string& set : report.training_sets) out["training_sets"].push(set);
  return out;
}

namespace {

bool has_all(const std::vector<std::string>& names, const std::vector<std::string>& wanted) {
  return std::ranges::all_of(
      wanted, [&](const std::string& one) { return std::ranges::find(names, one) != names.end(); });
}

std::vector<std::string> names_of(const std::vector<table::Field>& keys) {
  std::vector<std::string> names;
  for (const table::Field& key : keys) names.push_back(key.name);
  return names;
}

struct Found {
  Subject subject;
  std::vector<std::string> views;
};

Result<Found> find_views(storage::SqlTransaction& tx, const std::string& project,
                         const std::string& entity, const Value& key) {
  Found found;
  const storage::Object declared = FALAJ_TRY(storage::get_object(tx, "Entity", project, entity));
  const Entity decoded = FALAJ_TRY(decode_entity(declared));
  found.subject = FALAJ_TRY(subject_from_value(decoded, key));
  for (const storage::Object& object : FALAJ_TRY(storage::list_objects(tx, "FeatureView"))) {
    if (object.project != project) continue;
    const ViewDefinition view = FALAJ_TRY(load_view(tx, project, object.name));
    if (has_all(names_of(view.entity.keys), names_of(found.subject.keys))) {
      found.views.push_back(object.name);
    }
  }
  return found;
}

// One that was shredded holds nobody.
Result<bool> holds(const storage::BlobStore& blobs, const Manifest& manifest,
                   const Subject& subject) {
  if (!has_all(manifest.keys, names_of(subject.keys))) return false;
  const auto file = blobs.open(owner_of(manifest), manifest.data);
  if (!file.ok()) {
    if (file.error().id == ErrorId::kKeyMissing) return false;
    return file.error();
  }
  const std::string wanted = encode_key(subject.parts);
  bool found = false;
  table::ReadOptions options;
  options.schema.fields = subject.keys;
  FALAJ_TRY(table::read_table(
      **file, table::Format::kParquet, options,
      [&](const table::Batch& batch, const std::vector<std::uint64_t>&) -> Status {
        std::vector<const table::Column*> columns;
        for (const table::Column& column : batch.columns) columns.push_back(&column);
        for (std::size_t row = 0; row < batch.rows() && !found; ++row) {
          found = key_of_row(columns, row) == wanted;
        }
        return {};
      }));
  return found;
}

}  // namespace

Result<EraseReport> erase_subject(const security::RequestContext& context,
                                  const ErasureServices& services, const std::string& entity,
                                  const Value& key) {
  Found found;
  FALAJ_TRY(services.sql.read([&](storage::SqlTransaction& tx) -> Status {
    found = FALAJ_TRY(find_views(tx, context.project.str(), entity, key));
    return {};
  }));
  EraseReport report;
  for (const std::string& view : found.views) {
    report.views.push_back(FALAJ_TRY(services.ingest.erase(context, view, found.subject)));
    report.rows += report.views.back().rows;
  }
  std::set<std::string> names;
  for (const Manifest& manifest : FALAJ_TRY(services.sets.list(context.project))) {
    if (names.contains(manifest.name)) continue;
    if (FALAJ_TRY(holds(services.blobs, manifest, found.subject))) names.insert(manifest.name);
  }
  report.training_sets.assign(names.begin(), names.end());
  return report;
}

Status finish_erasures(storage::SqlStore& sql, storage::BlobStore& blobs) {
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql, "SELECT project, zone, view, blob FROM feature_erased_blobs"));
  for (const storage::SqlRow& row : rows) {
    const storage::Owner owner = owner_of_view(row.text(0), Zone(row.text(1)), row.text(2));
    const Status removed = blobs.remove(owner, BlobId(row.text(3)));
    if (!removed.ok() && removed.error().code != Code::kNotFound) return removed;
    FALAJ_TRY(sql.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(
          tx.execute("DELETE FROM feature_erased_blobs WHERE project = ? AND zone = ? AND "
                     "view = ? AND blob = ?",
                     {row.text(0), row.text(1), row.text(2), row.text(3)}));
      return {};
    }));
  }
  return {};
}

}  // namespace falaj::features
