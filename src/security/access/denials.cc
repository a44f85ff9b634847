#include "security/access/denials.h"

#include <algorithm>

#include "security/audit/request_ids.h"

namespace falaj::security::access {

Denial denial_of(const AccessRequest& request, const Decision& decision, Error told,
                 std::string request_id, std::string sentence) {
  Denial denial;
  denial.at = request.now;
  denial.request_id = std::move(request_id);
  denial.principal = request.principal.id;
  denial.action = request.action;
  denial.project = request.object.project;
  denial.kind = request.object.kind;
  denial.name = request.object.name;
  denial.because = decision.because;
  denial.rule = decision.rule == nullptr ? "" : decision.rule->name;
  denial.sentence = sentence.empty() ? explain(request, decision) : std::move(sentence);
  denial.told = std::move(told);
  return denial;
}

void Denials::add(Denial denial) {
  MutexLock lock(mutex_);
  tally_.add({denial.principal, denial.action, denial.because}, denial);
  remember(std::move(denial));
}

void Denials::keep(Denial denial) {
  MutexLock lock(mutex_);
  remember(std::move(denial));
}

void Denials::remember(Denial denial) {
  recent_.push_back(std::move(denial));
  if (recent_.size() > kKept) recent_.pop_front();
}

std::optional<Denial> Denials::find(std::string_view request_id) const {
  MutexLock lock(mutex_);
  const auto found = std::find_if(recent_.rbegin(), recent_.rend(), [&](const Denial& denial) {
    const RequestIds ids = request_ids_of(denial.request_id);
    return denial.request_id == request_id || ids.ours == request_id || ids.chosen == request_id;
  });
  if (found == recent_.rend()) return std::nullopt;
  return *found;
}

std::vector<DenialSummary> Denials::due(Timestamp now) {
  MutexLock lock(mutex_);
  return tally_.due(now);
}

}  // namespace falaj::security::access
