#include "security/access/denials.h"

#include <algorithm>

namespace falaj::security::access {

void Denials::add(Denial denial) {
  MutexLock lock(mutex_);
  Kind kind{denial.principal, denial.action, denial.because};
  // Past the limit of kinds, all others are one: counted, not named.
  if (kinds_.size() >= kKindsMax && !kinds_.contains(kind)) kind = {"", "", Because::kNoPermit};
  Count& count = kinds_[kind];
  if (count.summary.count++ == 0) count.summary.first = denial;
  recent_.push_back(std::move(denial));
  if (recent_.size() > kKept) recent_.pop_front();
}

std::optional<Denial> Denials::find(std::string_view request_id) const {
  MutexLock lock(mutex_);
  const auto found = std::find_if(recent_.rbegin(), recent_.rend(), [&](const Denial& denial) {
    return denial.request_id == request_id;
  });
  if (found == recent_.rend()) return std::nullopt;
  return *found;
}

std::vector<DenialSummary> Denials::due(Timestamp now) {
  std::vector<DenialSummary> list;
  MutexLock lock(mutex_);
  for (auto it = kinds_.begin(); it != kinds_.end();) {
    Count& count = it->second;
    const bool waited = count.told_at == Timestamp::min() || now - count.told_at >= kEvery;
    if (waited && count.summary.count == 0) {
      it = kinds_.erase(it);  // Quiet for a minute: its next one is a first again.
      continue;
    }
    if (waited && list.size() < kDueMax) {
      list.push_back(std::exchange(count.summary, {}));
      count.told_at = now;
    }
    ++it;
  }
  return list;
}

}  // namespace falaj::security::access
