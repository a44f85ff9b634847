#include "net/tls/records.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace falaj::net {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr unsigned char kKindAlert = 21;
constexpr unsigned char kKindHandshake = 22;
constexpr unsigned char kKindData = 23;
constexpr unsigned char kKeyUpdateMessage = 24;
constexpr unsigned char kFatal = 2;
constexpr unsigned char kWarning = 1;

// HKDF-Expand-Label with SHA-384 and no context (RFC 8446, 7.1). All that is ever asked for fits
// into the first block, which is one HMAC.
void expand(const TrafficSecret& secret, std::string_view label, std::span<unsigned char> out) {
  static constexpr std::string_view kPrefix = "tls13 ";
  std::array<unsigned char, 64> info{};
  std::array<unsigned char, EVP_MAX_MD_SIZE> block{};
  FALAJ_CHECK(out.size() <= secret.bytes.size() && label.size() <= 32);
  std::size_t at = 0;
  info[at++] = 0;
  info[at++] = static_cast<unsigned char>(out.size());
  info[at++] = static_cast<unsigned char>(kPrefix.size() + label.size());
  for (const std::string_view part : {kPrefix, label}) {
    std::memcpy(info.data() + at, part.data(), part.size());
    at += part.size();
  }
  info[at++] = 0;  // No context.
  info[at++] = 1;  // The first block.
  unsigned int size = 0;
  FALAJ_CHECK(HMAC(EVP_sha384(), secret.bytes.data(), static_cast<int>(secret.bytes.size()),
                   info.data(), at, block.data(), &size) != nullptr &&
              size == secret.bytes.size());
  std::memcpy(out.data(), block.data(), out.size());
  OPENSSL_cleanse(block.data(), block.size());
}

// Behind the head, as the head says.
std::size_t length_in(std::span<const unsigned char> sealed) {
  return static_cast<std::size_t>(sealed[3]) << 8 | sealed[4];
}

void put_head(std::size_t length, unsigned char* head) {
  head[0] = kKindData;  // Whatever is inside.
  head[1] = 3;
  head[2] = 3;
  head[3] = static_cast<unsigned char>(length >> 8);
  head[4] = static_cast<unsigned char>(length);
}

}  // namespace

TrafficSecret::~TrafficSecret() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

void RecordKey::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);  // Wipes the key.
}

RecordKey::RecordKey(const TrafficSecret& secret, Use use)
    : use_(use), secret_(secret), cipher_(EVP_CIPHER_CTX_new()) {
  FALAJ_CHECK(cipher_ != nullptr);
  make_keys();
}

RecordKey::~RecordKey() { OPENSSL_cleanse(iv_.data(), iv_.size()); }

void RecordKey::make_keys() {
  std::array<unsigned char, kKeyBytes> key{};
  expand(secret_, "key", key);
  expand(secret_, "iv", iv_);
  const int sealing = use_ == Use::kSeal ? 1 : 0;
  FALAJ_CHECK(EVP_CipherInit_ex(cipher_.get(), EVP_aes_256_gcm(), nullptr, key.data(), nullptr,
                                sealing) == 1);
  OPENSSL_cleanse(key.data(), key.size());
  records_ = 0;
}

void RecordKey::next() {
  TrafficSecret after;
  expand(secret_, "traffic upd", after.bytes);
  secret_ = after;
  make_keys();
}

// The number of the record, mixed into the iv: no two records of a key have the same.
RecordKey::Nonce RecordKey::take_nonce() {
  Nonce nonce = iv_;
  const std::uint64_t number = records_++;
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
}

void RecordKey::seal(const unsigned char* head, std::string_view content, unsigned char kind,
                     unsigned char* out) {
  const Nonce nonce = take_nonce();
  EVP_CIPHER_CTX* c = cipher_.get();
  const std::size_t size = content.size() + 1;
  // Sealed where it will lie: a copy is cheaper than a second call for the kind.
  std::memcpy(out, content.data(), content.size());
  out[content.size()] = kind;
  int done = 0;
  const bool good = EVP_EncryptInit_ex(c, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
                    EVP_EncryptUpdate(c, nullptr, &done, head, kRecordHeadBytes) == 1 &&
                    EVP_EncryptUpdate(c, out, &done, out, static_cast<int>(size)) == 1 &&
                    EVP_EncryptFinal_ex(c, out + size, &done) == 1 &&
                    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, out + size) == 1;
  FALAJ_CHECK(good);
}

bool RecordKey::open(const unsigned char* head, std::span<const unsigned char> sealed,
                     unsigned char* out) {
  const Nonce nonce = take_nonce();
  EVP_CIPHER_CTX* c = cipher_.get();
  const std::size_t size = sealed.size() - kRecordTagBytes;
  // OpenSSL takes it by a pointer that could be written to, and does not write.
  auto* tag = const_cast<unsigned char*>(sealed.data() + size);
  int done = 0;
  const bool good = EVP_DecryptInit_ex(c, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
                    EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes, tag) == 1 &&
                    EVP_DecryptUpdate(c, nullptr, &done, head, kRecordHeadBytes) == 1 &&
                    EVP_DecryptUpdate(c, out, &done, sealed.data(), static_cast<int>(size)) == 1 &&
                    EVP_DecryptFinal_ex(c, out + size, &done) == 1;
  if (!good) OPENSSL_cleanse(out, size);
  return good;
}

// ---- Reading ------------------------------------------------------------------------------------

RecordReader::Opened RecordReader::broken(Alert alert) { return {Kind::kBroken, 0, 0, alert}; }

bool RecordReader::is_whole(std::span<const unsigned char> sealed) {
  if (sealed.size() < kRecordHeadBytes) return !sealed.empty() && sealed[0] != kKindData;
  const std::size_t size = kRecordHeadBytes + length_in(sealed);
  return sealed[0] != kKindData || size > kRecordBytesMax || sealed.size() >= size;
}

std::size_t RecordReader::needed(std::span<const unsigned char> sealed) {
  return std::max(length_in(sealed), kRecordTagBytes) - kRecordTagBytes;
}

RecordReader::Opened RecordReader::open(std::span<const unsigned char> sealed,
                                        std::span<unsigned char> out) {
  if (!is_whole(sealed)) return {};
  // After the handshake everything is sealed, and says "data" outside.
  if (sealed[0] != kKindData) return broken(Alert::kUnexpectedMessage);
  const std::size_t size = kRecordHeadBytes + length_in(sealed);
  if (size > kRecordBytesMax) return broken(Alert::kRecordOverflow);
  if (size < kRecordOverhead) return broken(Alert::kBadRecordMac);  // No room for tag and kind.
  const std::size_t inner = needed(sealed);
  if (out.size() < inner) return {Kind::kNoRoom, 0, 0, {}};
  const auto body = sealed.subspan(kRecordHeadBytes, size - kRecordHeadBytes);
  if (!key_.open(sealed.data(), body, out.data())) return broken(Alert::kBadRecordMac);
  Opened found = opened(size, out.first(inner));
  if (found.kind == Kind::kBroken) OPENSSL_cleanse(out.data(), inner);
  return found;
}

// `inner` is content, kind and any number of noughts.
RecordReader::Opened RecordReader::opened(std::size_t used, std::span<const unsigned char> inner) {
  if (inner.size() > kRecordContentMax + 1) return broken(Alert::kRecordOverflow);  // RFC 8446, 5.4
  std::size_t end = inner.size();
  while (end > 0 && inner[end - 1] == 0) --end;
  if (end == 0) return broken(Alert::kUnexpectedMessage);
  const auto content = inner.first(end - 1);
  Opened found{Kind::kData, used, content.size(), {}};
  switch (inner[end - 1]) {
    case kKindData:
      return found;
    case kKindAlert:
      if (content.size() != 2) return broken(Alert::kDecodeError);
      found.kind = Kind::kAlert;
      found.alert = static_cast<Alert>(content[1]);
      return found;
    case kKindHandshake:
      return key_update(found, content);
    default:
      return broken(Alert::kUnexpectedMessage);
  }
}

// The one handshake message that a client may send after the handshake; it ends its record, and
// nobody cuts five bytes into two.
RecordReader::Opened RecordReader::key_update(Opened found,
                                              std::span<const unsigned char> content) {
  static constexpr std::array<unsigned char, 4> kHead{kKeyUpdateMessage, 0, 0, 1};
  if (content.size() != kHead.size() + 1 ||
      !std::equal(kHead.begin(), kHead.end(), content.begin()))
    return broken(Alert::kUnexpectedMessage);
  if (content.back() > 1) return broken(Alert::kIllegalParameter);
  found.kind = content.back() == 1 ? Kind::kKeyUpdateAsked : Kind::kKeyUpdate;
  key_.next();
  return found;
}

// ---- Writing ------------------------------------------------------------------------------------

std::size_t RecordWriter::record(unsigned char kind, std::string_view content, unsigned char* out) {
  FALAJ_CHECK(content.size() <= kRecordContentMax);
  put_head(content.size() + 1 + kRecordTagBytes, out);
  key_.seal(out, content, kind, out + kRecordHeadBytes);
  return content.size() + kRecordOverhead;
}

std::size_t RecordWriter::data(std::string_view content, unsigned char* out) {
  return record(kKindData, content, out);
}

std::size_t RecordWriter::alert(Alert alert, unsigned char* out) {
  const unsigned char level = alert == Alert::kCloseNotify ? kWarning : kFatal;
  const std::array<char, 2> content{static_cast<char>(level), static_cast<char>(alert)};
  return record(kKindAlert, {content.data(), content.size()}, out);
}

std::size_t RecordWriter::key_update(unsigned char* out) {
  static constexpr std::array<char, 5> kNotAsked{kKeyUpdateMessage, 0, 0, 1, 0};
  const std::size_t size = record(kKindHandshake, {kNotAsked.data(), kNotAsked.size()}, out);
  key_.next();
  return size;
}

}  // namespace falaj::net
