// crypto/checkpoint.h — signed tree heads as text: C2SP checkpoints in signed notes, cosigned.
//
//   falaj/01J9…                          origin: which log
//   20852163                             leaves
//   CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2…    root
//                                        (blank)
//   — falaj/01J9… Az3grlgt…              key id and Ed25519 signature over the lines above
//   — witness.example jWbPPwAAAAB…       key id, time and cosignature
//
// Any tool of that family reads and checks them. Parsing is strict and bounded; fuzzed by
// checkpoint_fuzz.cc. Everything is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "crypto/merkle.h"
#include "crypto/signature.h"

namespace falaj::crypto {

struct Checkpoint {
  std::string origin;
  TreeHead head;
  std::vector<std::string> extensions;  // Further lines, signed too: "time 1780000000".
  // The first extension "<name> <text>"; "" if there is none.
  std::string extension(std::string_view name) const;
};

// The signed text: lines, each ended by a newline.
std::string to_body(const Checkpoint& checkpoint);
// FJ-7052 for anything that to_body() could not have written.
Result<Checkpoint> parse_body(std::string_view body);

struct NoteSignature {
  std::string name;
  std::string blob;  // Key id (4 bytes), then the signature.
};

struct Note {
  std::string body;
  std::vector<NoteSignature> signatures;
};

std::string to_text(const Note& note);
// At most 64 KiB and 64 signatures; FJ-7052 otherwise.
Result<Note> parse_note(std::string_view text);

enum class NoteKeyUse : std::uint8_t { kSign = 1, kCosign = 4 };  // The format's own numbers.

// Who signs, as others write it down: "name+0a1b2c3d+base64(use ‖ key)".
struct NoteKey {
  std::string name;
  NoteKeyUse use = NoteKeyUse::kSign;
  std::string raw;         // Ed25519 public key.
  std::string id() const;  // 4 bytes.
};
std::string to_text(const NoteKey& key);
// FJ-7052 when the id in the text is not the key's.
Result<NoteKey> parse_note_key(std::string_view text);

// True for a name or an origin: 1 to 200 printable characters without blank or '+'.
bool is_note_name(std::string_view name);

Result<NoteSignature> sign_note(std::string_view body, std::string_view name,
                                const PrivateKey& key);
// "cosignature/v1": the witness saw this body at `seconds` since 1970 and nothing inconsistent.
Result<NoteSignature> cosign_note(std::string_view body, std::string_view name,
                                  const PrivateKey& key, std::int64_t seconds);

// FJ-7052 unless the note bears a valid signature of `key`. For a cosigning key the result is the
// time it states (seconds since 1970), otherwise 0.
Result<std::int64_t> verify_note(const Note& note, const NoteKey& key);

}  // namespace falaj::crypto
