// security/identity/job_identities.h — a job's own identity: short, narrow, gone with the job.
//
// A running job is the principal "job:ID". Its token stands in its environment (FALAJ_TOKEN), so it
// cannot be replaced there: it is good for 15 minutes, and the server puts that off while the job's
// process lives. Its scopes are the job's declared inputs and outputs and nothing else, whatever
// the person who started it may do; of a submitted command, only those that who submitted it may
// still do himself, which is looked at whenever the token is shown. Kept in memory only. After a
// restart no job's token holds but those of attempts that outlived the server, which the new one
// mints again (mint_for).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "crypto/random.h"
#include "security/context.h"
#include "security/identity/credentials.h"

namespace falaj::security {

inline constexpr Duration kJobIdentityLifetime = Duration::minutes(15);

// Who a job is: "job:ID", for as long as it runs. Its scopes are all that it may do.
Principal job_principal(const JobId& job, std::vector<Scope> scopes, Timestamp expires);

// Whether who submitted a job may do what the scope names, now. Quick; called on any thread.
using SubmitterMay = std::function<bool(const Principal& submitter, const Scope& scope)>;

// Thread-safe; short locks.
class JobIdentities {
 public:
  // `key`: what tokens of attempts follow from, the same for ever; empty: of this process only.
  explicit JobIdentities(crypto::Random& random, crypto::SecretBytes key = {});

  // Who says what submitters may do; before that, what was submitted by somebody may do nothing.
  void bound_by(SubmitterMay may);

  // The token's text. `scopes` name objects: one that covers a whole project or every action is
  // refused with FJ-7063. A second call for the same job (its next attempt) ends the token before.
  Result<std::string> mint(const JobId& job, std::vector<Scope> scopes, Timestamp now);
  // The token of one attempt, "JOB-NUMBER", which may outlive this server: its text follows from
  // the key and `attempt`, so that the next server knows it again by the same call although it is
  // written down nowhere. As mint() otherwise. `submitter`: who it may never do more than; null:
  // the server itself, by a declaration. `place`: the zone where what it reads arrives; unlabelled:
  // where it asks from.
  Result<std::string> mint_for(const JobId& job, std::string_view attempt,
                               std::vector<Scope> scopes, Timestamp now,
                               PrincipalPtr submitter = nullptr, Zone place = {});
  // The jobs whose token ends within ten minutes: see whether they still run, and renew or end.
  std::vector<JobId> ending(Timestamp now) const;
  // 15 minutes from now on. False when the job has none that holds.
  bool renew(const JobId& job, Timestamp now);
  // With the scopes that its submitter has left. FJ-7011 for a token that no running job has,
  // FJ-7012 when it has ended.
  Result<PrincipalPtr> check(const TokenText& token, Timestamp now) const;
  // The job is over: none of its tokens holds any longer.
  void end(const JobId& job);
  void sweep(Timestamp now);
  std::size_t size() const;

 private:
  struct Entry {
    std::string secret_hash;
    PrincipalPtr principal;
    Timestamp expires{};
    PrincipalPtr submitter;  // Null: nobody.
  };
  Result<std::string> keep(NewTokenText made, Principal principal, PrincipalPtr submitter);

  crypto::Random& random_;
  const crypto::SecretBytes key_;
  mutable Mutex mutex_;
  std::shared_ptr<const SubmitterMay> may_ FALAJ_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Entry> entries_ FALAJ_GUARDED_BY(mutex_);  // By token id.
};

}  // namespace falaj::security
