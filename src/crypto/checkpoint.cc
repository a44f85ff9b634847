#include "crypto/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "crypto/base64.h"

namespace falaj::crypto {
namespace {

constexpr std::size_t kNoteMax = 64 * 1024;
constexpr std::size_t kSignaturesMax = 64;
constexpr std::size_t kExtensionsMax = 16;
constexpr std::string_view kDash = "\xE2\x80\x94 ";  // An em dash and a blank.

Error refused(const std::string& what) {
  return {ErrorId::kProofInvalid, "the checkpoint is refused: " + what};
}

std::string_view view(const Sha256& hash) {
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

std::string key_id(std::string_view name, NoteKeyUse use, std::string_view raw) {
  const std::string text = std::string(name) + "\n" + static_cast<char>(use) + std::string(raw);
  return std::string(view(sha256(text)).substr(0, 4));
}

// Without sign, blank or leading zero.
Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || at != end || std::to_string(number) != text || number >> 62 != 0) {
    return refused("'" + std::string(text.substr(0, 24)) + "' is no number of leaves");
  }
  return number;
}

// The lines of `body`, which must end with a newline.
Result<std::vector<std::string_view>> lines_of(std::string_view body) {
  if (!body.ends_with('\n')) return refused("its text does not end with a line's end");
  std::vector<std::string_view> lines;
  while (!body.empty()) {
    const std::size_t end = body.find('\n');
    lines.push_back(body.substr(0, end));
    body.remove_prefix(end + 1);
  }
  return lines;
}

bool is_plain_line(std::string_view line) {
  return !line.empty() && std::all_of(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

std::string cosigned_text(std::string_view body, std::int64_t seconds) {
  return "cosignature/v1\ntime " + std::to_string(seconds) + "\n" + std::string(body);
}

std::string big_endian(std::int64_t number) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>((number >> shift) & 0xff);
  return out;
}

std::int64_t from_big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = (number << 8) | static_cast<std::uint8_t>(byte);
  return static_cast<std::int64_t>(number);
}

Result<NoteSignature> parse_signature(std::string_view line) {
  if (!line.starts_with(kDash)) return refused("a signature line begins with a dash");
  line.remove_prefix(kDash.size());
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return refused("a signature line has a name and a text");
  const std::string_view name = line.substr(0, blank);
  if (!is_note_name(name)) return refused("a signature's name is malformed");
  const auto blob = from_base64(line.substr(blank + 1));
  if (!blob.ok() || blob->size() < 5) return refused("a signature is not base64");
  return NoteSignature{std::string(name), *blob};
}

}  // namespace

std::string Checkpoint::extension(std::string_view name) const {
  for (const std::string& line : extensions) {
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ') {
      return line.substr(name.size() + 1);
    }
  }
  return "";
}

std::string to_body(const Checkpoint& checkpoint) {
  std::string body = checkpoint.origin + "\n" + std::to_string(checkpoint.head.size) + "\n" +
                     base64(view(checkpoint.head.root)) + "\n";
  for (const std::string& line : checkpoint.extensions) body += line + "\n";
  return body;
}

Result<Checkpoint> parse_body(std::string_view body) {
  if (body.size() > kNoteMax) return refused("it is too long");
  const std::vector<std::string_view> lines = FALAJ_TRY(lines_of(body));
  if (lines.size() < 3 || lines.size() > 3 + kExtensionsMax) {
    return refused("it has origin, size, root and at most 16 further lines");
  }
  Checkpoint checkpoint;
  if (!is_note_name(lines[0])) return refused("its origin is malformed");
  checkpoint.origin = lines[0];
  checkpoint.head.size = FALAJ_TRY(parse_size(lines[1]));
  const auto root = from_base64(lines[2]);
  if (!root.ok() || root->size() != 32) return refused("its root is not 32 bytes in base64");
  std::copy(root->begin(), root->end(), checkpoint.head.root.bytes.begin());
  for (std::size_t i = 3; i < lines.size(); ++i) {
    if (!is_plain_line(lines[i])) return refused("a further line is empty or not plain text");
    checkpoint.extensions.emplace_back(lines[i]);
  }
  return checkpoint;
}

std::string to_text(const Note& note) {
  std::string text = note.body + "\n";
  for (const NoteSignature& signature : note.signatures) {
    text += std::string(kDash) + signature.name + " " + base64(signature.blob) + "\n";
  }
  return text;
}

Result<Note> parse_note(std::string_view text) {
  if (text.size() > kNoteMax) return refused("it is too long");
  if (!is_valid_utf8(text)) return refused("it is not UTF-8");
  const std::size_t blank = text.rfind("\n\n");
  if (blank == std::string_view::npos) return refused("no blank line stands before its signatures");
  Note note{std::string(text.substr(0, blank + 1)), {}};
  const auto lines = FALAJ_TRY(lines_of(text.substr(blank + 1)));
  if (lines.size() < 2 || lines.size() - 1 > kSignaturesMax) {
    return refused("it has no signature or more than 64");
  }
  for (std::size_t i = 1; i < lines.size(); ++i) {
    note.signatures.push_back(FALAJ_TRY(parse_signature(lines[i])));
  }
  return note;
}

std::string NoteKey::id() const { return key_id(name, use, raw); }

std::string to_text(const NoteKey& key) {
  std::string hex;
  for (const char c : key.id()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<std::uint8_t>(c) >> 4];
    hex += kDigits[static_cast<std::uint8_t>(c) & 15];
  }
  return key.name + "+" + hex + "+" + base64(static_cast<char>(key.use) + key.raw);
}

Result<NoteKey> parse_note_key(std::string_view text) {
  const std::size_t first = text.find('+');
  const std::size_t second = first == std::string_view::npos ? first : text.find('+', first + 1);
  if (second == std::string_view::npos) return refused("a key reads name+id+base64");
  const auto bytes = from_base64(text.substr(second + 1));
  if (!bytes.ok() || bytes->size() != 33) return refused("a key holds 33 bytes in base64");
  NoteKey key{std::string(text.substr(0, first)), NoteKeyUse::kSign, bytes->substr(1)};
  if (!is_note_name(key.name)) return refused("a key's name is malformed");
  if ((*bytes)[0] == static_cast<char>(NoteKeyUse::kCosign)) key.use = NoteKeyUse::kCosign;
  if ((*bytes)[0] != static_cast<char>(key.use)) return refused("a key is of an unknown kind");
  if (to_text(key) != text) return refused("a key's id does not belong to it");
  return key;
}

bool is_note_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '+';
  });
}

Result<NoteSignature> sign_note(std::string_view body, std::string_view name,
                                const PrivateKey& key) {
  const std::string signature = FALAJ_TRY(key.sign(Scheme::kEd25519, body));
  return NoteSignature{std::string(name),
                       key_id(name, NoteKeyUse::kSign, key.public_key().raw()) + signature};
}

Result<NoteSignature> cosign_note(std::string_view body, std::string_view name,
                                  const PrivateKey& key, std::int64_t seconds) {
  const std::string signature = FALAJ_TRY(key.sign(Scheme::kEd25519, cosigned_text(body, seconds)));
  return NoteSignature{
      std::string(name),
      key_id(name, NoteKeyUse::kCosign, key.public_key().raw()) + big_endian(seconds) + signature};
}

Result<std::int64_t> verify_note(const Note& note, const NoteKey& key) {
  const PublicKey verifier = FALAJ_TRY(PublicKey::ed25519(key.raw));
  const std::string id = key.id();
  for (const NoteSignature& signature : note.signatures) {
    if (signature.name != key.name || !signature.blob.starts_with(id)) continue;
    std::string_view rest = std::string_view(signature.blob).substr(id.size());
    if (key.use == NoteKeyUse::kSign) {
      if (verifier.verify(Scheme::kEd25519, note.body, rest)) return std::int64_t{0};
      return refused("the signature of " + key.name + " is not valid");
    }
    if (rest.size() != 72) return refused("a cosignature has 72 bytes");
    const std::int64_t seconds = from_big_endian(rest.substr(0, 8));
    if (seconds >= 0 &&
        verifier.verify(Scheme::kEd25519, cosigned_text(note.body, seconds), rest.substr(8))) {
      return seconds;
    }
    return refused("the cosignature of " + key.name + " is not valid");
  }
  return refused("it bears no signature of " + key.name);
}

}  // namespace falaj::crypto
