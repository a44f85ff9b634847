#include "security/identity/failed_sign_ins.h"

#include "base/json.h"

namespace falaj::security {
namespace {

const telemetry::MetricInfo kRefused{"falaj_identity_refused_total",
                                     "Credentials that were not accepted, by how they were shown "
                                     "and what was wrong.",
                                     telemetry::MetricKind::kCounter,
                                     {"how", "outcome"}};

std::string_view outcome_of(ErrorId id) {
  switch (id) {
    case ErrorId::kCredentialRefused:
      return "refused";
    case ErrorId::kTokenMalformed:
      return "malformed";
    case ErrorId::kCredentialExpired:
      return "expired";
    case ErrorId::kCsrfRefused:
      return "csrf";
    case ErrorId::kRateLimited:
      return "held_back";
    default:
      return "";
  }
}

}  // namespace

FailedSignIns::FailedSignIns(Audit& audit, telemetry::Metrics* metrics)
    : audit_(audit), metrics_(metrics) {
  if (metrics_ != nullptr) metrics_->declare(kRefused);
}

void FailedSignIns::note(std::string_view how, const Error& error, std::string_view name,
                         std::string_view address) {
  const std::string_view outcome = outcome_of(error.id);
  if (outcome.empty()) return;
  if (metrics_ != nullptr) {
    metrics_->counter(kRefused, {std::string(how), std::string(outcome)}).add();
  }
  const bool kept = name.size() <= kTextMax && is_valid_utf8(name);
  FailedSignIn failed{std::string(how), std::string(outcome),
                      kept ? std::string(name) : std::string("(not a name)"), std::string(address)};
  MutexLock lock(mutex_);
  tally_.add({failed.how, failed.outcome, failed.address}, failed);
}

Status FailedSignIns::tick(Timestamp now) {
  std::vector<Tally<Kind, FailedSignIn>::Summary> due;
  {
    MutexLock lock(mutex_);
    due = tally_.due(now);
  }
  std::vector<AuditRecord> records;
  for (const auto& [kind, first, count] : due) {
    const auto& [how, outcome, address] = kind;
    Value detail;
    detail["how"] = how;
    detail["outcome"] = outcome;
    detail["count"] = count;
    AuditEvent event{"sign_in.refused", "SignIn/" + how, std::move(detail)};
    if (!first.name.empty()) event.personal.push_back({"name", first.name});
    if (!address.empty()) event.personal.push_back({"address", address});
    records.push_back({system_context("nobody", ProjectName(), Zone()), std::move(event)});
  }
  if (records.empty()) return {};
  return audit_.record_all(records);
}

}  // namespace falaj::security
