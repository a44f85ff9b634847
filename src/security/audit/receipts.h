// security/audit/receipts.h — what a caller keeps of one prediction: which model answered what, and
// how long the audit log was, signed so that it can be checked without the server.
//
// The log's own key lives in another process and may take its time. Receipts are signed in this one
// by a key that is made here, lives in memory for an hour and is vouched for by the signer
// (Signer::sign_manifest of key_document()). A receipt is three signed notes in base64, joined by
// dots: the receipt, the signer's word for its key, and the newest signed head of the log. Format:
// docs/reference/receipts.md; `falaj-verify receipt` checks it with the log's public key alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/published.h"
#include "base/time.h"
#include "security/audit/heads.h"

namespace falaj::security {

// Of what the hash is: of the body of HTTP, of a message of gRPC, or of the contents of its raw
// outputs one after the other.
enum class HashedForm : std::uint8_t { kBody, kMessage, kRawOutputs };

struct ReceiptFacts {
  std::string project;
  std::string deployment;
  std::string model;
  std::int64_t version = 0;
  std::string onnx;      // The model's hash, 64 hex digits.
  std::string features;  // The views that were read, by comma; "": the caller brought the inputs.
  std::uint64_t first_commit = 0;  // The commits that they were read at.
  std::uint64_t last_commit = 0;
  HashedForm asked_form = HashedForm::kBody;
  Sha256 asked;
  HashedForm answered_form = HashedForm::kBody;
  Sha256 answered;
  std::string request_id;
};

// What the signer vouches for: that `key`, an Ed25519 key, signs receipts of this log in a time.
std::string key_document(std::string_view origin, std::string_view key_line);

// Thread-safe.
class Receipts {
 public:
  Receipts(Signer& signer, const Clock& clock) : signer_(signer), clock_(clock) {}

  // Takes the newest head, and has another key certified when the time of the last is half over or
  // there is none. Asks the signer then, and may block: for a ticker. What was there stays when it
  // fails.
  Status tick(const SignedHead& head);

  // FJ-7053 while there is no key whose time has come and is not over.
  Status ready() const;
  // One signature, about 0.1 ms; asks nobody. FJ-7053 as ready().
  Result<std::string> issue(const ReceiptFacts& facts) const;

 private:
  struct Current {
    std::string origin;
    std::shared_ptr<const crypto::PrivateKey> key;
    std::string key_line;  // "key BASE64 FROM UNTIL", in seconds since 1970.
    Timestamp from{};
    Timestamp until{};
    std::string certificate;  // The signer's note.
    std::string head_line;    // "log SIZE ROOT".
    std::string head;         // The head's note, with the log's own signature alone.
  };
  Result<std::shared_ptr<const Current>> current() const;
  Result<Current> certified(Timestamp now);

  Signer& signer_;
  const Clock& clock_;
  Published<Current> current_;
};

}  // namespace falaj::security
