// features import-feast: declarations, and with --apply the rows too. Its words: features.cc.
#include <cstdio>

#include "cli/feast.h"
#include "cli/local_file.h"
#include "config/yaml.h"
#include "features/feast/rows.h"
#include "launch/launch.h"
#include "table/io.h"

namespace falaj::cli {
namespace {

namespace feast = features::feast;

Value remarks_value(const std::vector<feast::Remark>& remarks) {
  Value out = Value::array();
  for (const feast::Remark& each : remarks) {
    Value row;
    row["what"] = each.what;
    row["why"] = each.why;
    out.push(std::move(row));
  }
  return out;
}

// "not imported: Permission readers: …", each behind `before`.
std::string remarks_text(const feast::Translation& from, const std::string& before) {
  std::string out;
  for (const feast::Remark& each : from.left_out) {
    out += before + "not imported: " + each.what + ": " + each.why + "\n";
  }
  for (const feast::Remark& each : from.changed) {
    out += before + "changed: " + each.what + ": " + each.why + "\n";
  }
  return out;
}

Value report_of(const FeastRepository& repository) {
  Value out;
  out["project"] = repository.project;
  out["objects"] = Value(repository.translation.objects);
  out["not_imported"] = remarks_value(repository.translation.left_out);
  out["changed"] = remarks_value(repository.translation.changed);
  return out;
}

std::string yaml_of(const FeastRepository& repository) {
  std::string text = "# From Feast's project " + repository.project + ".\n" +
                     remarks_text(repository.translation, "# ");
  bool first = true;
  for (const Value& object : repository.translation.objects) {
    if (!first) text += "---\n";
    first = false;
    text += config::to_yaml(object);
  }
  return text;
}

// The reply of one file.
Result<Value> send_file(Connection& connection, const std::string& view, const std::string& file) {
  return connection.upload("/api/v1/feature-views/" + url_encode(view) + ":ingest?format=parquet",
                           file);
}

// The files as they are, or one whose columns have our names.
Result<std::vector<std::string>> files_to_send(const feast::ViewPlan& view,
                                               const std::string& folder) {
  if (view.renamed.empty()) return feast::files_of(view);
  const table::Batch rows = FALAJ_TRY(feast::read_rows(view));
  std::string file = folder + "/" + view.name + ".parquet";
  FALAJ_TRY(table::write_file(file, table::Format::kParquet, rows));
  return std::vector<std::string>{std::move(file)};
}

Result<Value> send_rows(Connection& connection, const feast::ViewPlan& view,
                        const std::string& folder) {
  std::int64_t accepted = 0;
  std::int64_t quarantined = 0;
  for (const std::string& file : FALAJ_TRY(files_to_send(view, folder))) {
    Progress progress("ingest", file);
    const Result<Value> report = send_file(connection, view.name, file);
    if (!report.ok()) return report.error().within(file);
    progress.done(cell((*report)["rows_accepted"]) + " rows");
    accepted += report->integer("rows_accepted");
    quarantined += report->integer("rows_quarantined");
  }
  Value out;
  out["rows_accepted"] = accepted;
  out["rows_quarantined"] = quarantined;
  return out;
}

// Views that have rows keep them as they are: to send a file twice would double its rows.
Result<Value> send_all(Connection& connection, const feast::Translation& translation) {
  const Value known = FALAJ_TRY(connection.get("/api/v1/feature-views"));
  const launch::LaunchFolder folder = FALAJ_TRY(launch::LaunchFolder::create());
  Value out = Value::array();
  for (const feast::ViewPlan& view : translation.views) {
    if (view.path.empty()) continue;
    std::int64_t rows = 0;
    for (const Value& each : items(known["views"])) {
      if (each.text("view") == view.name) rows = each.integer("rows");
    }
    Value row;
    if (rows > 0) {
      row["outcome"] = "skipped: it has " + std::to_string(rows) + " rows already";
    } else {
      const Result<Value> sent = send_rows(connection, view, folder.path());
      row = sent.ok() ? *sent : Value::object();
      row["outcome"] = sent.ok() ? "ingested" : "failed: " + sent.error().message;
      row["failed"] = !sent.ok();
    }
    row["view"] = view.name;
    out.push(std::move(row));
  }
  return out;
}

Status apply_feast(const Session& session, const FeastRepository& repository) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  Value body;
  body["objects"] = Value(repository.translation.objects);
  for (Value& object : body["objects"].as_array()) {
    object["metadata"]["project"] = session.target.project;
  }
  const Value applied = FALAJ_TRY(connection->call(net::Method::kPut, "/api/v1/objects", body));
  Value report = report_of(repository);
  report["applied"] = applied["applied"];
  report["ingested"] = FALAJ_TRY(send_all(*connection, repository.translation));
  Table table({"KIND", "NAME", "OUTCOME", "ROWS", "QUARANTINED"});
  for (const Value& row : items(applied["applied"])) {
    table.add({row.text("kind"), row.text("name"), row.text("outcome"), "", ""});
  }
  bool failed = false;
  for (const Value& row : items(report["ingested"])) {
    failed = failed || row["failed"] == Value(true);
    table.add({"rows", row.text("view"), row.text("outcome"), cell(row["rows_accepted"]),
               cell(row["rows_quarantined"])});
  }
  print(session.format, report, table.str());
  if (!failed) return {};
  return Error{Code::kFailedPrecondition,
               "the rows of some views did not come in; the declarations did. Correct what the "
               "list names and run this again: views that have rows are left alone"};
}

}  // namespace

Status import_feast(const Session& session, const FeastImport& choice) {
  const FeastRepository repository = FALAJ_TRY(open_feast(choice.where));
  std::fputs(remarks_text(repository.translation, "falaj: ").c_str(), stderr);
  if (repository.translation.objects.empty()) {
    return Error{Code::kFailedPrecondition,
                 "nothing of the Feast project " + repository.project + " can be imported"};
  }
  if (!choice.out.empty()) FALAJ_TRY(write_new(choice.out, yaml_of(repository)));
  if (choice.apply) return apply_feast(session, repository);
  if (choice.out.empty()) print(session.format, report_of(repository), yaml_of(repository));
  return {};
}

}  // namespace falaj::cli
