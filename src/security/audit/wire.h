// security/audit/wire.h — heads, proofs and keys as JSON: between the server and its signer, in
// replies and in evidence bundles. Strict and bounded: FJ-7052 for anything else.
#pragma once

#include "base/value.h"
#include "crypto/checkpoint.h"
#include "crypto/merkle.h"

namespace falaj::security {

Value head_value(const crypto::TreeHead& head);  // {"size": n, "root": hex}
Result<crypto::TreeHead> head_from(const Value& value);

Value proof_value(const crypto::Proof& proof);  // [hex, …]
Result<crypto::Proof> proof_from(const Value& value);

Result<Sha256> hash_from(std::string_view hex);

}  // namespace falaj::security
