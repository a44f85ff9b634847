// jobs/reach.h — what a command may do over the API while it runs: what it names, and no more.
//
// A submission names what it reads (`inputs`) and what it makes (`outputs`) as KIND/NAME of its own
// project. Each becomes scopes of the identity that its attempts have ("job:ID", FALAJ_TOKEN;
// security/identity/job_identities.h). Whoever submits must be allowed all of it himself. A command
// that names nothing can ask who it is, and nothing else. What he is not allowed any longer, his
// jobs are not either.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/decode.h"
#include "base/value.h"
#include "security/context.h"

namespace falaj::jobs {

struct JobSpec;

enum class Named : std::uint8_t { kInput, kOutput };

// The list under `field` of a submission: at most 32, sorted, each once. FJ-1006 for what is not
// KIND/NAME of a kind that can stand there.
Result<std::vector<std::string>> decode_named(Fields& fields, std::string_view field, Named as);

// All that the job's identity may do; of what was stored, so what is no name there gives nothing.
// A training run that the server started for it may be read besides. Pure.
std::vector<security::Scope> scopes_of(const JobSpec& spec);

// What the job reads, as KIND/NAME: its inputs, and the training set that it says it learns from.
// Pure.
std::vector<std::string> inputs_of(const JobSpec& spec);

// Who a job may never do more than, for its payload's `submitter`: his id, kind and the groups that
// the provider gave him then. Shown to nobody.
Value submitter_value(const security::Principal& principal);
// As it was stored; null for what the server itself submitted.
security::PrincipalPtr submitter_of(const JobSpec& spec);

}  // namespace falaj::jobs
