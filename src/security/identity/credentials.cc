#include "security/identity/credentials.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/json.h"
#include "crypto/base64.h"

namespace falaj::security {
namespace {

constexpr std::size_t kHeaderBytesMax = 12 << 10;
constexpr std::string_view kIdAlphabet = "abcdefghijklmnopqrstuvwxyz234567";

Error refused(std::string what) { return {ErrorId::kCredentialRefused, std::move(what)}; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<Authorization> bearer(std::string_view value) {
  Authorization out;
  out.secret = value;
  if (value.starts_with(kTokenPrefix)) {
    FALAJ_TRY(parse_token_text(value));
    out.scheme = Scheme::kToken;
    return out;
  }
  if (std::ranges::count(value, '.') != 2) {
    return refused("the bearer token is neither one of Falaj's (fj_…) nor a signed JWT");
  }
  out.scheme = Scheme::kJwt;
  return out;
}

Result<Authorization> basic(std::string_view value) {
  const Result<std::string> text = crypto::from_base64(value);
  const std::size_t colon = text.ok() ? text->find(':') : std::string::npos;
  if (colon == std::string::npos || !is_valid_utf8(*text) ||
      std::ranges::any_of(*text, is_control)) {
    return refused("the Basic credential is not base64 of name:password");
  }
  Authorization out;
  out.name = text->substr(0, colon);
  out.secret = text->substr(colon + 1);
  out.scheme = parse_token_text(out.secret).ok() ? Scheme::kBasicToken : Scheme::kPassword;
  return out;
}

// What a token is made of, as a table: every request of a client with a token is looked at.
using CharSet = std::array<bool, 256>;
constexpr CharSet char_set(std::string_view members) {
  CharSet set{};
  for (const char c : members) set[static_cast<unsigned char>(c)] = true;
  return set;
}
constexpr CharSet kInId = char_set(kIdAlphabet);
constexpr CharSet kInSecret =
    char_set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

bool consists_of(std::string_view text, const CharSet& set) {
  bool all = true;
  for (const char c : text) all &= set[static_cast<unsigned char>(c)];
  return all;
}

}  // namespace

NewTokenText make_token_text(char mark, crypto::Random& random) {
  return token_text_of(mark, random.secret(kTokenBytes));
}

NewTokenText token_text_of(char mark, const crypto::SecretBytes& bytes) {
  FALAJ_CHECK(bytes.size() == kTokenBytes);
  NewTokenText made;
  made.id.push_back(mark);
  for (std::size_t i = 1; i < kTokenIdBytes; ++i) {
    made.id.push_back(kIdAlphabet[bytes.data()[i] % kIdAlphabet.size()]);
  }
  made.text = std::string(kTokenPrefix) + made.id + "_" +
              crypto::base64url(bytes.view().substr(kTokenIdBytes));
  return made;
}

Result<TokenText> parse_token_text(std::string_view text) {
  constexpr std::size_t kSize = kTokenPrefix.size() + kTokenIdBytes + 1 + kTokenSecretBytes;
  if (text.size() == kSize && text.starts_with(kTokenPrefix)) {
    const TokenText parts{text.substr(kTokenPrefix.size(), kTokenIdBytes),
                          text.substr(kSize - kTokenSecretBytes)};
    if (text[kTokenPrefix.size() + kTokenIdBytes] == '_' && consists_of(parts.id, kInId) &&
        consists_of(parts.secret, kInSecret)) {
      return parts;
    }
  }
  return refused("the token does not have the form fj_ID_SECRET; it may have been cut when copied");
}

Result<Authorization> parse_authorization(std::string_view header) {
  if (header.empty()) return Authorization{};
  if (header.size() > kHeaderBytesMax || std::ranges::any_of(header, is_control)) {
    return refused("the Authorization header is too long or holds control characters");
  }
  const std::size_t blank = header.find(' ');
  const std::string_view scheme = header.substr(0, blank);
  const std::string_view value =
      blank == std::string_view::npos ? "" : trimmed(header.substr(blank + 1));
  if (!value.empty() && value.find(' ') == std::string_view::npos) {
    if (equal_ignoring_case(scheme, "bearer")) return bearer(value);
    if (equal_ignoring_case(scheme, "basic")) return basic(value);
  }
  return refused("the Authorization header must be 'Bearer TOKEN' or 'Basic …'");
}

std::string_view find_cookie(std::string_view header, std::string_view name) {
  std::string_view found;
  int count = 0;
  while (!header.empty()) {
    const std::size_t end = header.find(';');
    const std::string_view pair = trimmed(header.substr(0, end));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      found = pair.substr(equals + 1);
      ++count;
    }
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
  }
  return count == 1 ? found : std::string_view();
}

}  // namespace falaj::security
