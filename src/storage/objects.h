// storage/objects.h — declarations as people apply them: kind, project, name, spec; versioned.
//
// Every module keeps its declared objects here, in the metadata store, so that apply, diff, export
// and history are the same for all kinds. What a spec means is the owning module's business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "storage/sql.h"

namespace falaj::storage {

struct Object {
  std::string kind;     // "FeatureView"
  std::string project;  // "" for kinds that stand above projects (Project, Zone).
  std::string name;
  Value labels;  // Object of texts, or null.
  Value spec;
  // 1 at creation, +1 with each changed spec or labels. A name that is declared again after a
  // deletion goes on counting: a generation never means two things.
  std::int64_t generation = 0;
  Timestamp created_at{};
  Timestamp updated_at{};
};

// {"apiVersion","kind","metadata":{"name","project","labels"},"spec"}; a stored object (generation
// > 0) has metadata.generation, created_at and updated_at (RFC 3339) too.
Value to_value(const Object& object);
// The form that people write: strict, so without what only a stored object has.
Result<Object> object_from_value(const Value& value);

// What one object says about another. All of them must exist when it is applied.
struct Reference {
  std::string kind;
  std::string project;
  std::string name;
};

// How a module tells the catalog about a kind it owns.
enum class Scope : std::uint8_t { kProject, kPlatform };
// Null when there is none.
using FindObject = std::function<const Object*(const Reference& reference)>;
struct KindInfo {
  std::string kind;
  Scope scope = Scope::kProject;
  std::string summary;  // One sentence, for --help and the reference.
  // Reads the spec strictly; the error says what is wrong with it. Pure.
  std::function<Result<std::vector<Reference>>(const Object&)> check;
  // May be empty: every change is fine. Called with each generation that was ever applied under
  // this name, also before a deletion, since what was stored under it is still there. FJ-2006
  // naming the field, both values and what to do instead. Pure.
  std::function<Status(const Object& before, const Object& after)> check_change{};
  // May be empty. Called once all references exist, with what will stand after the apply: whether
  // the object makes sense beside those it refers to. FJ-2003 naming what is not there. Pure.
  std::function<Status(const Object& object, const FindObject& find)> check_beside{};
};

enum class PutOutcome : std::uint8_t { kCreated, kChanged, kUnchanged };

extern const Migration kObjectsMigration;

// Functions over an open transaction, so that an object, what follows from it and its audit entry
// commit together.
Result<PutOutcome> put_object(SqlTransaction& tx, const Object& object, Timestamp now);
Result<std::optional<Object>> find_object(SqlTransaction& tx, std::string_view kind,
                                          std::string_view project, std::string_view name);
// FJ-2001 naming kind, project and name, with the nearest existing name.
Result<Object> get_object(SqlTransaction& tx, std::string_view kind, std::string_view project,
                          std::string_view name);
// Ordered by kind, project, name. Empty filters match all.
Result<std::vector<Object>> list_objects(SqlTransaction& tx, std::string_view kind = "",
                                         std::string_view project = "");
// How many objects a project has.
Result<std::int64_t> count_objects(SqlTransaction& tx, std::string_view project);
// Every generation that was ever applied under this name, newest first, also after a deletion;
// created_at and updated_at are both the time of that generation.
Result<std::vector<Object>> object_history(SqlTransaction& tx, std::string_view kind,
                                           std::string_view project, std::string_view name);
// The same of all names of a kind, oldest first.
Result<std::vector<Object>> object_history(SqlTransaction& tx, std::string_view kind);
// FJ-2001 as get_object. The history remains.
Status delete_object(SqlTransaction& tx, std::string_view kind, std::string_view project,
                     std::string_view name);

}  // namespace falaj::storage
