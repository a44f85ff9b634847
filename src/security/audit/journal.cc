#include "security/audit/journal.h"

#include "base/json.h"
#include "base/thread_shard.h"
#include "crypto/merkle.h"

namespace falaj::security {
namespace {

constexpr std::size_t kBatchBytesMax = 512 * 1024;

std::string row_key(const Access& access) {
  std::string key;
  key.reserve(96);
  key += '[';
  for (const std::string_view text :
       {access.principal, access.action, access.project, access.object}) {
    append_json_string(key, text);
    key += ',';
  }
  return key;
}

}  // namespace

AccessJournal::AccessJournal(Audit& audit, const Clock& clock, std::size_t rows_max)
    : audit_(audit), clock_(clock), rows_max_(rows_max), since_(clock.now()) {}

void AccessJournal::note(const Access& access, std::int64_t count) {
  std::string key = row_key(access);
  Shard& shard = shards_[thread_shard(kShards)];
  const MutexLock lock(shard.mutex);
  const auto found = shard.rows.find(key);
  if (found != shard.rows.end()) {
    found->second += count;
    return;
  }
  // Whoever makes up names does not fill the memory; the total stays true.
  if (shard.rows.size() >= rows_max_) key = row_key({"other", "other", "", ""});
  shard.rows[std::move(key)] += count;
}

AccessJournal::Rows AccessJournal::take() {
  Rows all;
  for (Shard& shard : shards_) {
    Rows rows;
    {
      const MutexLock lock(shard.mutex);
      rows.swap(shard.rows);
    }
    for (auto& [key, count] : rows) all[key] += count;
  }
  return all;
}

void AccessJournal::put_back(const Rows& rows) {
  const MutexLock lock(shards_[0].mutex);
  for (const auto& [key, count] : rows) shards_[0].rows[key] += count;
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
  const Rows rows = take();
  if (rows.empty()) return {};
  const Timestamp now = clock_.now();
  std::string text;
  std::int64_t total = 0;
  std::int64_t kept = 0;
  for (const auto& [key, count] : rows) {
    total += count;
    if (text.size() > kBatchBytesMax) continue;  // Counted, no longer listed: "rows" says so.
    text += key + std::to_string(count) + "]\n";
    ++kept;
  }
  Value detail;
  detail["count"] = total;
  detail["rows"] = kept;
  detail["rows_left_out"] = static_cast<std::int64_t>(rows.size()) - kept;
  detail["root"] = batch_root(text);
  detail["from"] = to_rfc3339(since_);
  detail["to"] = to_rfc3339(now);
  const auto context = system_context("service:journal", ProjectName(), Zone());
  const auto entry =
      audit_.record(context, {"access.batch", "AccessJournal", detail, {{"records", text}}});
  if (!entry.ok()) {
    put_back(rows);
    return entry.error();
  }
  since_ = now;
  return {};
}

}  // namespace falaj::security
