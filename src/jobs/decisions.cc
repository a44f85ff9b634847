// What the scheduler decided, kept for replays: bounded, the oldest go first.
#include "jobs/internal/local_queue.h"

namespace falaj::jobs {

// Bodies are counted one behind the other, with those that are gone: each is from `start` to
// `stop`.
const storage::Migration kJobDecisionsMigration{
    "jobs-decisions",
    "CREATE TABLE job_decisions (id TEXT PRIMARY KEY, at INTEGER NOT NULL, start INTEGER NOT NULL,"
    " stop INTEGER NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX job_decisions_by_start ON job_decisions (start, stop);"};

namespace internal {
namespace {

constexpr std::string_view kDecide = "scheduler.decide";

}  // namespace

Status JobStore::add_decision(storage::SqlTransaction& tx, const DecisionRecord::Packed& decision,
                              const std::vector<JobId>& leaving) {
  const auto known = FALAJ_TRY(tx.query("SELECT 1 FROM job_decisions WHERE id = ?", {decision.id}));
  if (!known.empty()) return {};
  const auto newest =
      FALAJ_TRY(tx.query("SELECT stop FROM job_decisions ORDER BY start DESC, stop DESC LIMIT 1"));
  const std::int64_t start = newest.empty() ? 0 : newest.front().integer(0);
  const std::int64_t stop = start + static_cast<std::int64_t>(decision.body.size());
  FALAJ_TRY(
      tx.execute("INSERT INTO job_decisions (id, at, start, stop, body) VALUES (?, ?, ?, ?, ?)",
                 {decision.id, clock_.now().nanos, start, stop, decision.body}));
  FALAJ_TRY(tx.execute("DELETE FROM job_decisions WHERE start < ?", {stop - decisions_bytes_max_}));
  Value detail = decision.detail;
  for (const JobId& id : leaving) detail["leaving"].push(id.str());
  FALAJ_TRY(audit_.append(tx, security::system_context("service:jobs", ProjectName(), Zone()),
                          {std::string(kDecide), "Decision/" + decision.id, std::move(detail)}));
  return {};
}

Status JobStore::keep_decision(const DecisionRecord& decision, const std::vector<JobId>& leaving) {
  const DecisionRecord::Packed& packed = decision.packed();
  return sql_.write([&](storage::SqlTransaction& tx) { return add_decision(tx, packed, leaving); });
}

Result<std::string> JobStore::decision(const std::string& id) const {
  const auto rows =
      FALAJ_TRY(storage::query(sql_, "SELECT body FROM job_decisions WHERE id = ?", {id}));
  if (!rows.empty() && !rows.front().text(0).empty()) return rows.front().text(0);
  return Error(Code::kNotFound,
               "what decision " + id.substr(0, 16) +
                   " was decided upon is kept no more; newer ones can be replayed");
}

Result<Value> LocalQueue::replay_decision(const security::AuditEntry& entry) const {
  if (entry.action != kDecide) {
    return Error(ErrorId::kOutOfRange, "entry " + std::to_string(entry.sequence) + " is " +
                                           entry.action + ", which is no decision about jobs");
  }
  const std::string body = FALAJ_TRY(store_.decision(entry.detail.text("id")));
  return jobs::replay_decision(body, entry.detail);
}

}  // namespace internal
}  // namespace falaj::jobs
