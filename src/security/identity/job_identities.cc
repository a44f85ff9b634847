#include "security/identity/job_identities.h"

#include "base/hash.h"
#include "crypto/kdf.h"

namespace falaj::security {
namespace {

constexpr Duration kRenewWithin = Duration::minutes(10);
constexpr std::string_view kPrefix = "job:";

std::string principal_id(const JobId& job) { return std::string(kPrefix) + job.str(); }

bool is_narrow(const Scope& scope) {
  return !scope.action.ends_with('*') && !scope.project.empty() && !scope.object.empty();
}

// What its submitter may still do himself.
PrincipalPtr left_to(const PrincipalPtr& job, const Principal& submitter, const SubmitterMay* may) {
  std::vector<Scope> left;
  for (const Scope& scope : *job->scopes) {
    if (may != nullptr && (*may)(submitter, scope)) left.push_back(scope);
  }
  if (left.size() == job->scopes->size()) return job;
  Principal less = *job;
  less.scopes = std::move(left);
  return std::make_shared<const Principal>(std::move(less));
}

}  // namespace

Principal job_principal(const JobId& job, std::vector<Scope> scopes, Timestamp expires) {
  Principal principal;
  principal.kind = PrincipalKind::kJob;
  principal.id = principal_id(job);
  principal.name = job.str();
  principal.scopes = std::move(scopes);
  principal.expires = expires;
  return principal;
}

JobIdentities::JobIdentities(crypto::Random& random, crypto::SecretBytes key)
    : random_(random), key_(key.empty() ? random.key() : std::move(key)) {}

Result<std::string> JobIdentities::mint(const JobId& job, std::vector<Scope> scopes,
                                        Timestamp now) {
  return keep(make_token_text('j', random_),
              job_principal(job, std::move(scopes), now + kJobIdentityLifetime), nullptr);
}

Result<std::string> JobIdentities::mint_for(const JobId& job, std::string_view attempt,
                                            std::vector<Scope> scopes, Timestamp now,
                                            PrincipalPtr submitter, Zone place) {
  const crypto::SecretBytes bytes =
      crypto::hkdf_sha256(key_.view(), attempt, "falaj/job/token", kTokenBytes);
  Principal principal = job_principal(job, std::move(scopes), now + kJobIdentityLifetime);
  principal.zone = std::move(place);
  return keep(token_text_of('j', bytes), std::move(principal), std::move(submitter));
}

Result<std::string> JobIdentities::keep(NewTokenText made, Principal principal,
                                        PrincipalPtr submitter) {
  for (const Scope& scope : *principal.scopes) {
    if (!is_narrow(scope)) {
      return Error{ErrorId::kJobScopeExceeded, "a job's identity is limited to named objects; '" +
                                                   to_string(scope) + "' is wider"};
    }
  }
  const TokenText parts = FALAJ_TRY(parse_token_text(made.text));
  principal.credential = "token:" + made.id;
  Entry entry{sha256_hex(parts.secret), std::make_shared<const Principal>(principal),
              principal.expires, std::move(submitter)};
  MutexLock lock(mutex_);
  std::erase_if(entries_,
                [&](const auto& item) { return item.second.principal->id == principal.id; });
  entries_.emplace(made.id, std::move(entry));
  return made.text;
}

std::vector<JobId> JobIdentities::ending(Timestamp now) const {
  std::vector<JobId> jobs;
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.expires - now > kRenewWithin) continue;
    jobs.emplace_back(entry.principal->id.substr(kPrefix.size()));
  }
  return jobs;
}

bool JobIdentities::renew(const JobId& job, Timestamp now) {
  const std::string id = principal_id(job);
  MutexLock lock(mutex_);
  for (auto& [token, entry] : entries_) {
    if (entry.principal->id != id || now >= entry.expires) continue;
    Principal longer = *entry.principal;
    longer.expires = entry.expires = now + kJobIdentityLifetime;
    entry.principal = std::make_shared<const Principal>(std::move(longer));
    return true;
  }
  return false;
}

Result<PrincipalPtr> JobIdentities::check(const TokenText& token, Timestamp now) const {
  const std::string hash = sha256_hex(token.secret);
  PrincipalPtr principal;
  PrincipalPtr submitter;
  std::shared_ptr<const SubmitterMay> may;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(std::string(token.id));
    if (found == entries_.end() || !crypto::constant_time_equal(hash, found->second.secret_hash)) {
      return Error{ErrorId::kCredentialRefused, "no running job has this token"};
    }
    if (now >= found->second.expires) {
      return Error{ErrorId::kCredentialExpired, "the job's token has expired"};
    }
    principal = found->second.principal;
    submitter = found->second.submitter;
    may = may_;
  }
  return submitter == nullptr ? principal : left_to(principal, *submitter, may.get());
}

void JobIdentities::bound_by(SubmitterMay may) {
  MutexLock lock(mutex_);
  may_ = std::make_shared<const SubmitterMay>(std::move(may));
}

void JobIdentities::end(const JobId& job) {
  const std::string id = principal_id(job);
  MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const auto& item) { return item.second.principal->id == id; });
}

void JobIdentities::sweep(Timestamp now) {
  MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const auto& item) { return now >= item.second.expires; });
}

std::size_t JobIdentities::size() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace falaj::security
