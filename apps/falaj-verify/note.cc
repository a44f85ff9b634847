#include "note.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <charconv>
#include <memory>

namespace falaj_verify {
namespace {

constexpr std::string_view kDash = "\xE2\x80\x94 ";
constexpr std::size_t kNoteMax = 64 * 1024;
constexpr std::size_t kPemMax = 4'096;
constexpr char kLogKey = 1;
constexpr char kWitnessKey = 4;

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > 200) return false;
  for (const char c : name) {
    if (c <= 0x20 || c >= 0x7f || c == '+') return false;
  }
  return true;
}

std::string key_id(std::string_view name, char kind, std::string_view raw) {
  const Hash hash = sha256(std::string(name) + "\n" + kind + std::string(raw));
  return {reinterpret_cast<const char*>(hash.data()), 4};
}

using PublicKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool is_signed(const PublicKey& key, const EVP_MD* digest, std::string_view message,
               std::string_view signature) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  return key && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                          message.size()) == 1;
}

bool ed25519_ok(std::string_view raw, std::string_view message, std::string_view signature) {
  const PublicKey key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(raw), raw.size()),
      EVP_PKEY_free);
  return is_signed(key, nullptr, message, signature);
}

}  // namespace

std::optional<std::uint64_t> to_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || std::to_string(number) != text || number >> 62 != 0) return {};
  return number;
}

Key make_key(std::string name, std::string raw) {
  std::string id = key_id(name, kLogKey, raw);
  return {std::move(name), false, std::move(id), std::move(raw)};
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return {};
  for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const std::size_t at = kAlphabet.find(c);
    if (at == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(at);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 0xff);
  }
  if (held == 6 || (bits & ((1u << held) - 1)) != 0) return {};
  return out;
}

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  auto lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::optional<Key> parse_key(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::size_t first = text.find('+');
  if (first == std::string_view::npos) return {};
  const std::size_t second = text.find('+', first + 1);
  if (second != first + 9) return {};
  const auto bytes = from_base64(text.substr(second + 1));
  if (!bytes || bytes->size() != 33) return {};
  Key key;
  key.name = text.substr(0, first);
  key.raw = bytes->substr(1);
  const char kind = (*bytes)[0];
  if (!is_name(key.name) || (kind != kLogKey && kind != kWitnessKey)) return {};
  key.cosigns = kind == kWitnessKey;
  key.id = key_id(key.name, kind, key.raw);
  Hash padded{};
  std::copy(key.id.begin(), key.id.end(), padded.begin());
  if (to_hex(padded).substr(0, 8) != text.substr(first + 1, 8)) return {};
  return key;
}

std::optional<Note> parse_note(std::string_view text) {
  if (text.size() > kNoteMax || text.empty() || text.back() != '\n') return {};
  const std::size_t blank = text.rfind("\n\n");
  if (blank == std::string_view::npos) return {};
  Note note;
  note.body = text.substr(0, blank + 1);
  for (std::string_view line : lines_of(text.substr(blank + 2))) {
    if (line.substr(0, kDash.size()) != kDash) return {};
    line.remove_prefix(kDash.size());
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || !is_name(line.substr(0, space))) return {};
    const auto blob = from_base64(line.substr(space + 1));
    if (!blob || blob->size() < 5) return {};
    note.signatures.push_back({std::string(line.substr(0, space)), *blob});
  }
  if (note.signatures.empty()) return {};
  return note;
}

std::optional<Checkpoint> parse_checkpoint(std::string_view body) {
  if (body.empty() || body.back() != '\n') return {};
  const auto lines = lines_of(body);
  if (lines.size() < 3 || !is_name(lines[0])) return {};
  Checkpoint checkpoint;
  checkpoint.origin = lines[0];
  const auto size = to_number(lines[1]);
  const auto root = from_base64(lines[2]);
  if (!size || !root || root->size() != checkpoint.root.size()) return {};
  checkpoint.size = *size;
  std::copy(root->begin(), root->end(), checkpoint.root.begin());
  for (std::size_t i = 3; i < lines.size(); ++i) {
    if (lines[i].empty()) return {};
    if (!lines[i].starts_with("time ")) continue;
    const auto time = to_number(lines[i].substr(5));
    if (!time || checkpoint.time != 0) return {};
    checkpoint.time = *time;
  }
  return checkpoint;
}

Verdict check_signature(const Note& note, const Key& key) {
  for (const Signature& signature : note.signatures) {
    if (signature.name != key.name || signature.blob.substr(0, 4) != key.id) continue;
    const std::string_view rest = std::string_view(signature.blob).substr(4);
    if (!key.cosigns) {
      return {ed25519_ok(key.raw, note.body, rest) ? Signed::kYes : Signed::kForged, 0};
    }
    if (rest.size() != 72) return {Signed::kForged, 0};
    std::uint64_t time = 0;
    for (const char c : rest.substr(0, 8)) time = time << 8 | static_cast<unsigned char>(c);
    const std::string message = "cosignature/v1\ntime " + std::to_string(time) + "\n" + note.body;
    return {ed25519_ok(key.raw, message, rest.substr(8)) ? Signed::kYes : Signed::kForged, time};
  }
  return {};
}

bool vouches_for(const Note& note, const Key& log, std::string_view document) {
  const auto lines = lines_of(note.body);
  return lines.size() == 4 && lines[0] == "falaj-evidence/v1" && lines[1] == log.name &&
         lines[2] == "sha256 " + to_hex(sha256(document)) && lines[3].starts_with("time ") &&
         check_signature(note, log).state == Signed::kYes;
}

bool p256_ok(std::string_view pem, std::string_view message, std::string_view signature) {
  if (pem.size() > kPemMax) return false;
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const PublicKey key(
      text ? PEM_read_bio_PUBKEY(text.get(), nullptr, no_passphrase, nullptr) : nullptr,
      EVP_PKEY_free);
  char group[64] = {};
  return key && EVP_PKEY_is_a(key.get(), "EC") == 1 &&
         EVP_PKEY_get_group_name(key.get(), group, sizeof group, nullptr) == 1 &&
         std::string_view(group) == "prime256v1" &&
         is_signed(key, EVP_sha256(), message, signature);
}

}  // namespace falaj_verify
