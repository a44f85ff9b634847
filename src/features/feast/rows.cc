#include "features/feast/rows.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "table/io.h"

namespace falaj::features::feast {
namespace {

namespace fs = std::filesystem;

// What the file calls a column of ours.
std::string column_in_file(const ViewPlan& view, const std::string& name) {
  for (const auto& [theirs, ours] : view.renamed) {
    if (ours == name) return theirs;
  }
  return name;
}

table::Schema schema_of(const ViewPlan& view) {
  table::Schema out;
  out.fields = view.keys;
  out.fields.push_back({view.event_time, table::Type::kTimestamp});
  if (!view.created_time.empty()) {
    out.fields.push_back({view.created_time, table::Type::kTimestamp});
  }
  out.fields.insert(out.fields.end(), view.features.begin(), view.features.end());
  return out;
}

}  // namespace

Result<std::vector<std::string>> files_of(const ViewPlan& view) {
  std::error_code error;
  std::vector<std::string> out;
  if (!fs::is_directory(view.path, error)) {
    if (fs::exists(view.path, error)) return std::vector<std::string>{view.path};
    return Error(ErrorId::kFileUnreadable, "there is no file '" + view.path + "'");
  }
  for (fs::recursive_directory_iterator at(view.path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".parquet") out.push_back(at->path().string());
  }
  if (out.empty()) {
    return Error(ErrorId::kFileUnreadable, "no .parquet file is in '" + view.path + "'");
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<table::Batch> read_rows(const ViewPlan& view) {
  const table::Schema ours = schema_of(view);
  table::ReadOptions options;
  options.schema = ours;
  for (table::Field& field : options.schema.fields) field.name = column_in_file(view, field.name);
  table::Batch out;
  for (const std::string& file : FALAJ_TRY(files_of(view))) {
    out.append(FALAJ_TRY(table::read_all(file, table::Format::kParquet, options)));
  }
  out.schema = ours;
  return out;
}

}  // namespace falaj::features::feast
