#include "registry/retrain_due.h"

namespace falaj::registry {
namespace {

using storage::SqlRow;
using storage::SqlTransaction;

RetrainMark mark_from(const SqlRow& row) {
  return {row.text(0), row.integer(1), Timestamp{row.integer(2)}, row.text(3)};
}

}  // namespace

const storage::Migration kRetrainDueMigration{
    "registry-retrain-due-001",
    "CREATE TABLE model_retrain_due (project TEXT NOT NULL, model TEXT NOT NULL,"
    " version INTEGER NOT NULL, since INTEGER NOT NULL, cause TEXT NOT NULL,"
    " PRIMARY KEY (project, model, version)) WITHOUT ROWID;"};

Value to_value(const RetrainMark& mark) {
  Value value;
  value["model"] = mark.model;
  value["version"] = mark.version;
  value["since"] = to_rfc3339(mark.since);
  value["cause"] = mark.cause;
  return value;
}

RetrainDue::RetrainDue(storage::SqlStore& sql, security::Audit& audit, const Clock& clock)
    : sql_(sql), audit_(audit), clock_(clock) {}

Result<std::vector<RetrainMark>> RetrainDue::mark(const security::RequestContext& context,
                                                  const std::vector<std::string>& training_sets,
                                                  const std::string& cause) {
  const std::string& project = context.project.str();
  std::vector<RetrainMark> marks;
  FALAJ_TRY(sql_.write([&](SqlTransaction& tx) -> Status {
    marks.clear();
    for (const std::string& set : training_sets) {
      const storage::SqlRows rows = FALAJ_TRY(
          tx.query("SELECT v.model, v.version, coalesce(d.since, 0), coalesce(d.cause, '') "
                   "FROM model_versions v LEFT JOIN model_retrain_due d ON d.project = v.project "
                   "AND d.model = v.model AND d.version = v.version "
                   "WHERE v.project = ? AND v.training_set = ? ORDER BY v.model, v.version",
                   {project, set}));
      for (const SqlRow& row : rows) {
        RetrainMark mark = mark_from(row);
        if (mark.cause.empty()) {
          mark.since = clock_.now();
          mark.cause = cause;
          FALAJ_TRY(
              tx.execute("INSERT INTO model_retrain_due (project, model, version, since, "
                         "cause) VALUES (?, ?, ?, ?, ?)",
                         {project, mark.model, mark.version, mark.since.nanos, cause}));
          Value detail;
          detail["cause"] = cause;
          detail["training_set"] = set;
          FALAJ_TRY(audit_.append(
              tx, context,
              {"model.retrain_due",
               "ModelVersion/" + project + "/" + mark.model + "/" + std::to_string(mark.version),
               detail}));
        }
        marks.push_back(std::move(mark));
      }
    }
    return {};
  }));
  return marks;
}

Result<std::map<std::int64_t, RetrainMark>> RetrainDue::of(const ProjectName& project,
                                                           const std::string& model) const {
  std::map<std::int64_t, RetrainMark> marks;
  const storage::SqlRows rows =
      FALAJ_TRY(storage::query(sql_,
                               "SELECT model, version, since, cause FROM model_retrain_due "
                               "WHERE project = ? AND model = ?",
                               {project.str(), model}));
  for (const SqlRow& row : rows) marks.emplace(row.integer(1), mark_from(row));
  return marks;
}

}  // namespace falaj::registry
