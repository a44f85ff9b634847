#include "security/residency/internal/ledger.h"

#include <iterator>

#include "base/thread_shard.h"
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

std::shared_ptr<FlowCell> Ledger::cell(const LedgerKey& key) {
  Shard& shard = shards_[thread_shard(kShards)];
  const MutexLock lock(shard.mutex);
  std::shared_ptr<FlowCell>& found = shard.rows[key];
  if (found == nullptr) found = std::make_shared<FlowCell>();
  return found;
}

void Ledger::note(const RequestContext& context, const Flow& flow, const Decision& decision,
                  const FlowCounts& counts) {
  std::string key = likeness(context, flow, decision);
  const MutexLock lock(notes_mutex_);
  auto found = notes_.find(key);
  Flow kept = flow;
  if (found == notes_.end() && notes_.size() >= kNotesMax) {
    kept.object = "Project/" + flow.project;
    Decision alike = decision;
    alike.rule = "past the limit of different notes: " + decision.transfer;
    key = likeness({}, kept, alike);
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
  {
    // First: what a note counts is in its row already, so that no row is taken later than its note.
    const MutexLock lock(notes_mutex_);
    for (auto& [key, note] : notes_) out.notes.push_back(std::move(note));
    notes_.clear();
  }
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (auto at = shard.rows.begin(); at != shard.rows.end();) {
      // Held by nobody else, and under the lock nobody can begin to: what is taken is all of it.
      const bool last = at->second.use_count() == 1;
      const FlowCounts counts = at->second->take();
      if (counts != FlowCounts{}) add_to(out.rows[at->first], counts);
      at = last ? shard.rows.erase(at) : std::next(at);
    }
  }
  return out;
}

void Ledger::put_back(Taken taken) {
  for (const auto& [key, counts] : taken.rows) cell(key)->add(counts);
  for (const Note& item : taken.notes) note(item.context, item.flow, item.decision, item.counts);
}

std::map<LedgerKey, FlowCounts> Ledger::waiting() const {
  std::map<LedgerKey, FlowCounts> out;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [key, cell] : shard.rows) add_to(out[key], cell->look());
  }
  std::erase_if(out, [](const auto& row) { return row.second == FlowCounts{}; });
  return out;
}

Crossing::Crossing(std::shared_ptr<Ledger> ledger, Note use, Timestamp now)
    : ledger_(std::move(ledger)), use_(std::move(use)), told_(now) {}

Crossing::~Crossing() {
  const MutexLock lock(mutex_);
  tell();
}

void Crossing::add(std::int64_t bytes, Timestamp now) {
  constexpr Duration kPatience = Duration::minutes(1);
  const MutexLock lock(mutex_);
  use_.counts.bytes += bytes;
  if (now < told_ + kPatience) return;
  told_ = now;
  tell();
}

void Crossing::tell() {
  if (use_.counts == FlowCounts{}) return;
  ledger_->note(use_.context, use_.flow, use_.decision, use_.counts);
  use_.counts = {};
}

}  // namespace falaj::security::residency
