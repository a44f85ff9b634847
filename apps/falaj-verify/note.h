// Signed notes and checkpoints (C2SP): who signed which text, checked against keys given by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tree.h"

namespace falaj_verify {

// "name+0a1b2c3d+base64": a public key as people pass it on.
struct Key {
  std::string name;
  bool cosigns = false;  // A witness's key rather than a log's.
  std::string id;        // 4 bytes.
  std::string raw;       // Ed25519.
};
std::optional<Key> parse_key(std::string_view text);
// One that signs, of these 32 bytes.
Key make_key(std::string name, std::string raw);

struct Signature {
  std::string name;
  std::string blob;
};

struct Note {
  std::string body;
  std::vector<Signature> signatures;
};
std::optional<Note> parse_note(std::string_view text);

struct Checkpoint {
  std::string origin;
  std::uint64_t size = 0;
  Hash root{};
  std::uint64_t time = 0;  // Seconds, of the line "time N"; 0 without one.
};
std::optional<Checkpoint> parse_checkpoint(std::string_view body);

enum class Signed : std::uint8_t { kNo, kYes, kForged };
struct Verdict {
  Signed state = Signed::kNo;  // kForged: a signature in the key's name that is not the key's.
  std::uint64_t time = 0;      // Of a cosignature.
};
Verdict check_signature(const Note& note, const Key& key);
// Whether the log's signer put its name under this very document.
bool vouches_for(const Note& note, const Key& log, std::string_view document);
// ECDSA over P-256 with SHA-256 and nothing else, whatever the key or the signature says.
bool p256_ok(std::string_view pem, std::string_view message, std::string_view signature);

// Strict: one text for each byte string.
std::optional<std::string> from_base64(std::string_view text);

// Strict too, below 2^62.
std::optional<std::uint64_t> to_number(std::string_view text);

// What stands between the marks: one part more than there are marks.
std::vector<std::string_view> split(std::string_view text, char mark);
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace falaj_verify
