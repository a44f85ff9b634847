// security/identity/job_identities.h — a job's own identity: short, narrow, gone with the job.
//
// A running job is the principal "job:ID". Its token stands in its environment (FALAJ_TOKEN), so it
// cannot be replaced there: it is good for 15 minutes, and the server puts that off while the job's
// process lives. Its scopes are the job's declared inputs and outputs and nothing else, whatever
// the person who started it may do. Kept in memory only: after a restart no job's token holds.
#pragma once

#include <cstdint>
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

// Thread-safe; short locks.
class JobIdentities {
 public:
  explicit JobIdentities(crypto::Random& random) : random_(random) {}

  // The token's text. `scopes` name objects: one that covers a whole project or every action is
  // refused with FJ-7063. A second call for the same job (its next attempt) ends the token before.
  Result<std::string> mint(const JobId& job, std::vector<Scope> scopes, Timestamp now);
  // The jobs whose token ends within ten minutes: see whether they still run, and renew or end.
  std::vector<JobId> ending(Timestamp now) const;
  // 15 minutes from now on. False when the job has none that holds.
  bool renew(const JobId& job, Timestamp now);
  // FJ-7011 for a token that no running job has, FJ-7012 when it has ended.
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
  };
  crypto::Random& random_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ FALAJ_GUARDED_BY(mutex_);  // By token id.
};

}  // namespace falaj::security
