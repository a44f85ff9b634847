#include "security/audit/journal.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/thread_shard.h"
#include "crypto/merkle.h"

namespace falaj::security {
namespace {

constexpr std::size_t kBatchBytesMax = 512 * 1024;
constexpr std::size_t kPrincipalShare = 8;  // A principal may have this part of the rows.

// The thread's own text, so that a row that is known costs no memory. Valid until the next call.
const std::string& row_text(const Access& access) {
  thread_local std::string text;
  text = '[';
  for (const std::string_view each :
       {access.principal, access.action, access.project, access.object}) {
    append_json_string(text, each);
    text += ',';
  }
  return text;
}

struct Batch {
  std::string project;
  std::string text;
  std::int64_t rows = 0;
  std::int64_t total = 0;
};

AuditEvent batch_event(const Batch& batch, Timestamp from, Timestamp to) {
  Value detail;
  detail["count"] = batch.total;
  detail["rows"] = batch.rows;
  detail["root"] = batch_root(batch.text);
  detail["from"] = to_rfc3339(from);
  detail["to"] = to_rfc3339(to);
  return {"access.batch", "AccessJournal", std::move(detail), {{"records", batch.text}}};
}

}  // namespace

AccessJournal::AccessJournal(Audit& audit, const Clock& clock, std::size_t rows_max)
    : audit_(audit), clock_(clock), rows_max_(rows_max), since_(clock.now()) {}

void AccessJournal::note(const Access& access, std::int64_t count) {
  Shard& shard = shards_[thread_shard(kShards)];
  const MutexLock lock(shard.mutex);
  Last& last = shard.last;
  if (last.count != nullptr && last.object == access.object && last.action == access.action &&
      last.principal == access.principal && last.project == access.project) {
    *last.count += count;
    return;
  }
  const std::string* text = &row_text(access);
  Counts& counts = shard.counts;
  std::string_view project = access.project;
  const auto known = counts.rows.find(project);
  if (known != counts.rows.end()) {
    const auto found = known->second.find(*text);
    if (found != known->second.end()) {
      found->second += count;
      last.principal = access.principal;
      last.action = access.action;
      last.project = access.project;
      last.object = access.object;
      last.count = &found->second;
      return;
    }
  }
  // Whoever makes up names fills neither the memory nor the rows of others; totals stay true.
  std::size_t& own = counts.of_principal[std::string(access.principal)];
  if (own >= std::max<std::size_t>(1, rows_max_ / kPrincipalShare) || counts.size >= rows_max_) {
    project = "";
    text = &row_text({access.principal, access.action, "", "other"});
  }
  const auto [row, added] = counts.rows[std::string(project)].try_emplace(*text, 0);
  row->second += count;
  if (!added) return;
  ++own;
  ++counts.size;
}

AccessJournal::Rows AccessJournal::take() {
  Rows all;
  for (Shard& shard : shards_) {
    Counts counts;
    {
      const MutexLock lock(shard.mutex);
      std::swap(counts, shard.counts);
      shard.last.count = nullptr;
    }
    for (auto& [project, rows] : counts.rows) {
      for (const auto& [text, count] : rows) all[project][text] += count;
    }
  }
  return all;
}

void AccessJournal::put_back(const Rows& all) {
  const MutexLock lock(shards_[0].mutex);
  for (const auto& [project, rows] : all) {
    for (const auto& [text, count] : rows) shards_[0].counts.rows[project][text] += count;
  }
}

std::string batch_root(std::string_view rows) {
  crypto::Frontier frontier;
  while (!rows.empty()) {
    const std::size_t end = rows.find('\n');
    frontier.append(crypto::leaf_hash(rows.substr(0, end)));
    if (end == std::string_view::npos) break;
    rows.remove_prefix(end + 1);
  }
  return frontier.root().hex();
}

Status AccessJournal::tick() {
  const MutexLock lock(ticking_);
  const Rows all = take();
  if (all.empty()) return {};
  const Timestamp now = clock_.now();
  std::vector<AuditRecord> events;
  const auto enter = [&](Batch& batch) FALAJ_REQUIRES(ticking_) {
    if (batch.rows == 0) return;
    events.push_back({system_context("service:journal", ProjectName(batch.project), Zone()),
                      batch_event(batch, since_, now)});
    batch = {batch.project, "", 0, 0};
  };
  for (const auto& [project, rows] : all) {
    Batch batch{project, "", 0, 0};
    for (const auto& [text, count] : rows) {
      batch.text += text + std::to_string(count) + "]\n";
      batch.total += count;
      ++batch.rows;
      if (batch.text.size() > kBatchBytesMax) enter(batch);
    }
    enter(batch);
  }
  if (const Status written = audit_.record_all(events); !written.ok()) {
    put_back(all);
    return written;
  }
  since_ = now;
  return {};
}

}  // namespace falaj::security
