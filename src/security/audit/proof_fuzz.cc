// Whatever the bytes: no crash, and a proof that nobody made proves nothing.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"
#include "security/audit/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fc = falaj::crypto;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = falaj::parse_json(text);
  if (!value.ok()) return 0;
  const auto proof = falaj::security::proof_from((*value)["proof"]);
  const auto head = falaj::security::head_from((*value)["head"]);
  if (!proof.ok() || !head.ok()) return 0;
  FALAJ_CHECK(falaj::security::proof_from(falaj::security::proof_value(*proof)).value() == *proof);
  // A root that is the hash of this very input cannot have been reached by any path in it.
  const fc::TreeHead unreachable{head->size, falaj::sha256(text)};
  FALAJ_CHECK(!fc::verify_inclusion(fc::leaf_hash(text), head->size / 2, unreachable, *proof).ok());
  static_cast<void>(fc::verify_consistency(*head, unreachable, *proof).ok());
  return 0;
}
