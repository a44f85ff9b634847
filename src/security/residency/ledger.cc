#include "security/residency/internal/ledger.h"

#include <atomic>

namespace falaj::security::residency {
namespace {

void add_to(FlowCounts& sum, const FlowCounts& more) {
  sum.flows += more.flows;
  sum.bytes += more.bytes;
  sum.refused += more.refused;
}

// NUL parts them: no name holds one.
std::string likeness(const RequestContext& context, const Flow& flow, const Decision& decision) {
  std::string key = context.principal.id;
  for (const std::string* part :
       {&flow.project, &flow.object, &flow.data.name(), &flow.destination.name(), &decision.rule}) {
    key.push_back('\0');
    key += *part;
  }
  key.push_back(static_cast<char>(flow.exit));
  return key;
}

}  // namespace

std::size_t Ledger::thread_shard() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return mine;
}

void Ledger::add(const LedgerKey& key, const FlowCounts& counts) {
  Shard& shard = shards_[thread_shard()];
  const MutexLock lock(shard.mutex);
  add_to(shard.rows[key], counts);
}

void Ledger::note(const RequestContext& context, const Flow& flow, const Decision& decision,
                  const FlowCounts& counts) {
  std::string key = likeness(context, flow, decision);
  const MutexLock lock(notes_mutex_);
  auto found = notes_.find(key);
  Flow kept = flow;
  if (found == notes_.end() && notes_.size() >= kNotesMax) {
    key = "past the limit of different notes: " + flow.project;
    kept.object = "Project/" + flow.project;
    found = notes_.find(key);
  }
  if (found == notes_.end()) {
    notes_.emplace(std::move(key), Note{context, std::move(kept), decision, counts});
    return;
  }
  add_to(found->second.counts, counts);
}

Ledger::Taken Ledger::take() {
  Taken out;
  for (Shard& shard : shards_) {
    std::map<LedgerKey, FlowCounts> rows;
    {
      const MutexLock lock(shard.mutex);
      rows.swap(shard.rows);
    }
    for (const auto& [key, counts] : rows) add_to(out.rows[key], counts);
  }
  const MutexLock lock(notes_mutex_);
  for (auto& [key, note] : notes_) out.notes.push_back(std::move(note));
  notes_.clear();
  return out;
}

void Ledger::put_back(Taken taken) {
  for (const auto& [key, counts] : taken.rows) add(key, counts);
  for (const Note& item : taken.notes) note(item.context, item.flow, item.decision, item.counts);
}

std::map<LedgerKey, FlowCounts> Ledger::waiting() const {
  std::map<LedgerKey, FlowCounts> out;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [key, counts] : shard.rows) add_to(out[key], counts);
  }
  return out;
}

}  // namespace falaj::security::residency
