#include "security/audit/wire.h"

namespace falaj::security {
namespace {

Error malformed(const std::string& what) {
  return {ErrorId::kProofInvalid, "the proof is malformed: " + what};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Result<Sha256> hash_from(std::string_view hex) {
  Sha256 hash;
  if (hex.size() != 2 * hash.bytes.size()) return malformed("a hash has 64 hex digits");
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return malformed("a hash is lower-case hex");
    hash.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

Value head_value(const crypto::TreeHead& head) {
  Value value;
  value["size"] = head.size;
  value["root"] = head.root.hex();
  return value;
}

Result<crypto::TreeHead> head_from(const Value& value) {
  if (!value["size"].is_int() || value["size"].as_int() < 0) return malformed("a size is a number");
  const Sha256 root = FALAJ_TRY(hash_from(value.text("root")));
  return crypto::TreeHead{static_cast<std::uint64_t>(value["size"].as_int()), root};
}

Value proof_value(const crypto::Proof& proof) {
  Value value = Value::array();
  for (const Sha256& hash : proof) value.push(hash.hex());
  return value;
}

Result<crypto::Proof> proof_from(const Value& value) {
  if (!value.is_array() || value.as_array().size() > crypto::kProofMax) {
    return malformed("it is a list of at most 128 hashes");
  }
  crypto::Proof proof;
  for (const Value& item : value.as_array()) {
    if (!item.is_string()) return malformed("it is a list of hashes");
    proof.push_back(FALAJ_TRY(hash_from(item.as_string())));
  }
  return proof;
}

}  // namespace falaj::security
