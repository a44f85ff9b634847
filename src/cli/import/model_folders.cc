#include "cli/import/model_folders.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cli/import/pbtxt.h"
#include "cli/local_file.h"
#include "config/yaml.h"

namespace falaj::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kModelsMax = 1000;
constexpr std::size_t kVersionsMax = 1000;
constexpr std::size_t kLabelFileMax = 32u << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The folders in a folder, by name. FJ-1015 when it cannot be read.
Result<std::vector<fs::path>> folders_in(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) found.push_back(at->path());
    if (found.size() > kModelsMax) {
      return Error(ErrorId::kOutOfRange,
                   folder.string() + ": more than " + std::to_string(kModelsMax) + " folders");
    }
  }
  if (failed) return Error(ErrorId::kFileUnreadable, folder.string() + ": " + failed.message());
  std::sort(found.begin(), found.end());
  return found;
}

// 0 unless the name is a version's.
std::int64_t version_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool all = failed == std::errc() && end == name.data() + name.size();
  return all && number > 0 && name.front() != '0' ? number : 0;
}

// Whether what a config names lies in its folder.
Status check_inside(const std::string& name, const std::string& what) {
  const fs::path path(name);
  const bool leaves =
      path.is_absolute() ||
      std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (!name.empty() && !leaves) return {};
  return Error(ErrorId::kInvalidArgument, what + " '" + name + "' does not lie in the folder");
}

std::string folder_name(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  return whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
}

// Those that the policy serves, lowest first.
void keep_served(const TritonConfig& config, std::vector<FoundModel::File>& files) {
  using Policy = TritonConfig::Policy;
  if (config.policy == Policy::kSpecific) {
    std::erase_if(files, [&](const FoundModel::File& file) {
      return std::find(config.versions.begin(), config.versions.end(), file.theirs) ==
             config.versions.end();
    });
  }
  const auto latest = static_cast<std::size_t>(config.latest);
  if (config.policy == Policy::kLatest && files.size() > latest) {
    files.erase(files.begin(), files.end() - static_cast<std::ptrdiff_t>(latest));
  }
}

Status read_label_files(const fs::path& folder, FoundModel& found) {
  for (const TritonTensor& output : found.config->outputs) {
    if (output.label_file.empty()) continue;
    FALAJ_TRY(check_inside(output.label_file, "label_filename"));
    const std::string text =
        FALAJ_TRY(read_text((folder / output.label_file).string(), kLabelFileMax));
    found.labels[output.name] = FALAJ_TRY(read_labels(text));
  }
  return {};
}

Result<FoundModel> triton_model(const fs::path& folder) {
  FoundModel found;
  found.name = folder_name(folder);
  const fs::path declared = folder / "config.pbtxt";
  if (is_file(declared)) {
    const std::string text = FALAJ_TRY(read_text(declared.string(), kPbtxtBytesMax));
    Result<TritonConfig> config = read_triton_config(text);
    if (!config.ok()) return config.error().within(folder.string());
    found.config = std::move(config).value();
    if (!found.config->name.empty()) found.name = found.config->name;
    FALAJ_TRY(read_label_files(folder, found));
  }
  const TritonConfig config = found.config.value_or(TritonConfig{});
  FALAJ_TRY(check_inside(config.file, "default_model_filename"));
  for (const fs::path& version : FALAJ_TRY(folders_in(folder))) {
    const std::int64_t number = version_of(version);
    if (number > 0) found.files.push_back({(version / config.file).string(), number});
  }
  std::sort(found.files.begin(), found.files.end(),
            [](const auto& a, const auto& b) { return a.theirs < b.theirs; });
  keep_served(config, found.files);
  if (found.files.empty() || found.files.size() > kVersionsMax) {
    return Error(ErrorId::kInvalidArgument,
                 folder.string() +
                     ": a Triton model has its versions in folders 1, 2, …, of which "
                     "its version_policy serves some; there are " +
                     std::to_string(found.files.size()));
  }
  for (const FoundModel::File& file : found.files) FALAJ_TRY(check_readable(file.path));
  return found;
}

Result<bool> is_triton_model(const fs::path& folder) {
  if (is_file(folder / "config.pbtxt")) return true;
  const std::vector<fs::path> inside = FALAJ_TRY(folders_in(folder));
  return std::any_of(inside.begin(), inside.end(),
                     [](const fs::path& each) { return version_of(each) > 0; });
}

Result<std::vector<FoundModel>> triton_repository(const fs::path& folder) {
  std::vector<FoundModel> models;
  for (const fs::path& each : FALAJ_TRY(folders_in(folder))) {
    if (FALAJ_TRY(is_triton_model(each))) models.push_back(FALAJ_TRY(triton_model(each)));
  }
  if (!models.empty()) return models;
  return Error(ErrorId::kInvalidArgument,
               folder.string() +
                   " is no model: neither MLmodel, config.pbtxt nor folders of "
                   "versions lie there, nor folders that have them");
}

}  // namespace

Result<std::string> mlflow_file(std::string_view text) {
  const std::vector<Value> documents = FALAJ_TRY(config::parse_yaml(text));
  const Value flavors = documents.empty() ? Value() : documents.front()["flavors"];
  std::string known;
  if (flavors.is_object()) {
    for (const char* flavor : {"onnx", "lightgbm", "xgboost"}) {
      if (!flavors[flavor].is_object()) continue;
      const std::string file = flavors[flavor].text("data");
      FALAJ_TRY(check_inside(file, std::string("MLmodel: data of flavor ") + flavor));
      return file;
    }
    for (const auto& [name, unused] : flavors.as_object()) {
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  return Error(ErrorId::kInvalidArgument,
               "MLmodel: of the flavors onnx, lightgbm and xgboost it has none" +
                   (known.empty() ? std::string() : ", but " + known));
}

Result<std::vector<FoundModel>> find_models(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    FALAJ_TRY(check_readable(path));
    return std::vector<FoundModel>{{"", {{path, 0}}, std::nullopt, {}}};
  }
  const fs::path folder(path);
  if (is_file(folder / "MLmodel")) {
    const std::string text = FALAJ_TRY(read_text((folder / "MLmodel").string()));
    const std::string file = (folder / FALAJ_TRY(mlflow_file(text))).string();
    FALAJ_TRY(check_readable(file));
    return std::vector<FoundModel>{{"", {{file, 0}}, std::nullopt, {}}};
  }
  if (!FALAJ_TRY(is_triton_model(folder))) return triton_repository(folder);
  return std::vector<FoundModel>{FALAJ_TRY(triton_model(folder))};
}

}  // namespace falaj::cli
