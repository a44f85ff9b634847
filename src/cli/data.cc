// ingest and freeze.
#include <sys/stat.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/local_file.h"

namespace falaj::cli {
namespace {

bool is_folder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::string> format_by_name(const std::string& file, const std::string& otherwise) {
  if (file.ends_with(".csv")) return std::string("csv");
  if (file.ends_with(".arrow") || file.ends_with(".ipc")) return std::string("arrow");
  if (file.ends_with(".parquet")) return std::string("parquet");
  return Error{ErrorId::kUsage, "the name '" + file + "' does not tell its format: " + otherwise};
}

struct DataFile {
  std::string path;
  std::string format;
};

// The file named on the command line, or the path of the view's Source.
Result<DataFile> data_file(Connection& connection, const std::string& view, const std::string& file,
                           const std::string& format) {
  if (!file.empty()) {
    FALAJ_TRY(check_readable(file));
    if (!format.empty()) return DataFile{file, format};
    const std::string by_name =
        FALAJ_TRY(format_by_name(file, "pass --format csv, parquet or arrow"));
    return DataFile{file, by_name};
  }
  const Value declared =
      FALAJ_TRY(connection.get("/api/v1/objects/FeatureView/" + url_encode(view)));
  const std::string name = declared["spec"].text("source");
  const Value source = FALAJ_TRY(connection.get("/api/v1/objects/Source/" + url_encode(name)));
  const std::string path = source["spec"].text("path");
  if (path.empty() || is_folder(path)) {
    return Error{Code::kInvalidArgument,
                 "Source '" + name + "' names no single file ('" + path + "'): pass --file"};
  }
  FALAJ_TRY(check_readable(path));
  return DataFile{path, format.empty() ? source["spec"].text("format", "parquet") : format};
}

}  // namespace

Status ingest(const Session& session, const std::string& view, const std::string& file,
              const std::string& format) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const DataFile data = FALAJ_TRY(data_file(*connection, view, file, format));
  Progress progress("ingest", data.path);
  const Value report = FALAJ_TRY(connection->upload(
      "/api/v1/feature-views/" + url_encode(view) + ":ingest?format=" + url_encode(data.format) +
          "&file=" + url_encode(data.path.substr(data.path.rfind('/') + 1)),
      data.path));
  progress.done(cell(report["rows_accepted"]) + " rows, " + cell(report["rows_quarantined"]) +
                " quarantined");
  if (report.integer("duplicate_of") > 0) {
    std::fprintf(stderr,
                 "falaj: warning: the same file was ingested before as commit %s; its rows are now "
                 "in twice\n",
                 cell(report["duplicate_of"]).c_str());
  }
  for (const Value& each : items(report["warnings"])) {
    const std::string line = cell(each["first_line"]);
    std::fprintf(stderr, "falaj: warning: %s rows break an expectation%s: %s\n",
                 cell(each["rows"]).c_str(),
                 line == "0" ? "" : (", the first in line " + line).c_str(),
                 each.text("expectation").c_str());
  }
  Table table({"LINE", "REASON"});
  for (const Value& row : items(report["examples"])) {
    table.add({cell(row["line"]), row.text("reason")});
  }
  const std::string kept = report.text("quarantine");
  const std::string next = kept.empty() ? ""
                                        : "all of them: falaj quarantine " + kept + " -p " +
                                              session.target.project + "\n";
  print(session.format, report, (table.empty() ? "" : table.str()) + next);
  return {};
}

Status freeze(const Session& session, const std::string& set, const std::string& spine) {
  std::string format;
  if (!spine.empty()) {
    FALAJ_TRY(check_readable(spine));
    format = FALAJ_TRY(format_by_name(spine, "name it .csv, .parquet or .arrow"));
  }
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Progress progress("freeze", set);
  const std::string base = "/api/v1/training-sets/" + url_encode(set);
  const Value manifest = FALAJ_TRY(
      spine.empty() ? connection->call(net::Method::kPost, base + ":freeze", Value::object())
                    : connection->upload(base + ":freeze-with-spine?format=" + format, spine));
  progress.done(cell(manifest["rows"]) + " rows");
  Table table({"NAME", "ROWS", "FEATURES", "KNOWN AT", "ID"});
  table.add({manifest.text("name"), cell(manifest["rows"]),
             std::to_string(items(manifest["features"]).size()), cell(manifest["known_at"]),
             manifest.text("id").substr(0, 16)});
  print(session.format, manifest, table.str());
  return {};
}

}  // namespace falaj::cli
