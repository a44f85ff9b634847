// Reads feature_store.yaml and the registry that it names.
#include "cli/feast.h"
#include "cli/local_file.h"
#include "config/yaml.h"
#include "features/feast/registry.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kRegistryBytesMax = 256u << 20;

std::string inside(const std::string& folder, const std::string& path) {
  if (path.starts_with("/")) return path;
  return folder + (folder.ends_with("/") ? "" : "/") + path;
}

// `registry: path` or `registry: {registry_type: file, path: …}`.
Result<std::string> registry_path(const Value& settings, const std::string& folder) {
  const Value& registry = settings["registry"];
  if (!registry.is_null() && !registry.is_string() && !registry.is_object()) {
    return Error{ErrorId::kWrongType,
                 "'registry' of feature_store.yaml is neither a path nor {registry_type, path}"};
  }
  const std::string type = registry.is_object() ? registry.text("registry_type", "file") : "file";
  const std::string path =
      registry.is_string() ? registry.as_string() : registry.text("path", "data/registry.db");
  if (type == "file" && path.find("://") == std::string::npos) return inside(folder, path);
  return Error{Code::kFailedPrecondition,
               "the registry is no file (" + type + ", " + path +
                   "): write it to one, as Feast's file registry does, and pass --registry FILE"};
}

}  // namespace

Result<FeastRepository> open_feast(const FeastFolder& where) {
  const std::string file = inside(where.folder, "feature_store.yaml");
  const std::string text = FALAJ_TRY(read_text(file));
  const auto documents = config::parse_yaml(text);
  if (!documents.ok()) return documents.error().within(file);
  if (documents->size() != 1 || (*documents)[0].text("project").empty()) {
    return Error{ErrorId::kWrongType, file + " is no feature_store.yaml: it names no 'project'"};
  }
  FeastRepository out;
  out.project = (*documents)[0].text("project");
  const std::string path = where.registry.empty()
                               ? FALAJ_TRY(registry_path((*documents)[0], where.folder))
                               : where.registry;
  const std::string bytes = FALAJ_TRY(read_text(path, kRegistryBytesMax));
  const auto registry = features::feast::read_registry(bytes);
  if (!registry.ok()) return registry.error().within(path);
  out.translation = features::feast::translate(*registry, {out.project, where.folder});
  return out;
}

}  // namespace falaj::cli
