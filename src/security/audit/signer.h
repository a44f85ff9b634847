// security/audit/signer.h — who signs tree heads, and never two that contradict each other.
//
// The signer is a process of its own (`falaj engine sign`): the server that writes the log does not
// hold the key that vouches for it. It remembers the last head it signed, in its own folder, and
// refuses a smaller tree, another root for the same size, and a tree that does not begin with the
// one it signed before. The same holds for the logs of others that it cosigns as a witness. It
// remembers before it hands a signature out, so that no crash makes it forget one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "crypto/checkpoint.h"
#include "crypto/secret.h"

namespace falaj::security {

struct SignerInfo {
  std::string origin;
  crypto::NoteKey log_key;      // Signs this log's heads and manifests.
  crypto::NoteKey witness_key;  // Cosigns other logs' heads.
  crypto::TreeHead last;        // The last head signed; size 0: none yet.
  Timestamp last_at{};
};

// The port. Thread-safe; calls may block. FJ-7053 when the signer cannot be asked.
class Signer {
 public:
  virtual ~Signer() = default;
  virtual Result<SignerInfo> info() = 0;
  // The signed note for `head`, with `at` in it; `proof` shows that it continues info().last.
  // FJ-7051 for a smaller tree or one that does not; FJ-7052 for a proof that proves nothing.
  virtual Result<std::string> sign_head(const crypto::TreeHead& head, const crypto::Proof& proof,
                                        Timestamp at) = 0;
  // A signed note that vouches for a file by its hash: an evidence bundle's manifest. Its text can
  // never pass for a checkpoint.
  virtual Result<std::string> sign_manifest(const Sha256& manifest, Timestamp at) = 0;
  // Cosigns another log's signed head after checking it against the last one seen of that origin.
  // The first one pins the log's key. The result is the note with the cosignature added.
  // FJ-7054 naming why: unknown key, smaller, inconsistent.
  virtual Result<std::string> cosign(std::string_view note, const crypto::NoteKey& key,
                                     const crypto::Proof& proof, Timestamp at) = 0;
  // The last head of `origin` that was cosigned; the empty tree if none.
  virtual Result<crypto::TreeHead> witnessed(std::string_view origin) = 0;
};

struct LocalSignerOptions {
  std::string folder;           // Made if missing; the signer's alone.
  std::string origin;           // For a new folder; "": "falaj/" and a random id.
  crypto::SecretBytes wrapper;  // Seals the key file; empty: the file is plain, mode 0600.
};

// In this process: what the engine runs, and tests. FJ-7053 when the folder's key cannot be read or
// does not open with `wrapper`, or the state is damaged (a signer that forgot what it signed must
// not sign).
Result<std::unique_ptr<Signer>> open_local_signer(LocalSignerOptions options);

// What the manifest's signed note says: "falaj-evidence/v1", origin, hash, time.
std::string manifest_body(std::string_view origin, const Sha256& manifest, Timestamp at);

}  // namespace falaj::security
