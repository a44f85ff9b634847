#include "crypto/aead.h"

#include <openssl/evp.h>

#include <climits>
#include <cstring>

#include "base/check.h"

namespace falaj::crypto {
namespace {

constexpr std::size_t kBlock = 16;

// A context that a thread keeps: making one costs more than sealing a small message.
struct Context {
  EVP_CIPHER_CTX* const it = EVP_CIPHER_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_CIPHER_CTX_free(it); }  // Wipes the key schedule.
};

// Looked up once: by name it costs more than the encryption of a small message. Never freed, so
// that threads that outlive main() may use them.
const EVP_CIPHER* aes_256_gcm() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  FALAJ_CHECK(cipher != nullptr);
  return cipher;
}
const EVP_CIPHER* aes_256_block() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-ECB", nullptr);
  FALAJ_CHECK(cipher != nullptr);
  return cipher;
}

const unsigned char* octets(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// EVP counts in int; larger messages belong in a stream (crypto/stream.h).
int length(std::size_t size) {
  FALAJ_CHECK(size <= INT_MAX);
  return static_cast<int>(size);
}

// The context holds key and nonce. Writes ciphertext to `out` and the tag to `tag`.
void gcm_seal(EVP_CIPHER_CTX* context, std::string_view aad, std::string_view plaintext,
              unsigned char* out, unsigned char* tag) {
  int n = 0;
  unsigned char end[kBlock];
  if (!aad.empty()) {
    FALAJ_CHECK(EVP_EncryptUpdate(context, nullptr, &n, octets(aad), length(aad.size())) == 1);
  }
  if (!plaintext.empty()) {
    FALAJ_CHECK(EVP_EncryptUpdate(context, out, &n, octets(plaintext), length(plaintext.size())) ==
                1);
  }
  FALAJ_CHECK(EVP_EncryptFinal_ex(context, end, &n) == 1);
  FALAJ_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1);
}

bool gcm_open(EVP_CIPHER_CTX* context, std::string_view aad, std::string_view ciphertext,
              const unsigned char* tag, unsigned char* out) {
  if (ciphertext.size() > INT_MAX || aad.size() > INT_MAX) return false;
  int n = 0;
  unsigned char end[kBlock];
  unsigned char expected[kTagBytes];  // EVP takes it without const.
  std::memcpy(expected, tag, kTagBytes);
  if (!aad.empty() &&
      EVP_DecryptUpdate(context, nullptr, &n, octets(aad), length(aad.size())) != 1) {
    return false;
  }
  if (!ciphertext.empty() &&
      EVP_DecryptUpdate(context, out, &n, octets(ciphertext), length(ciphertext.size())) != 1) {
    return false;
  }
  return EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected) == 1 &&
         EVP_DecryptFinal_ex(context, end, &n) == 1;
}

// The steps of the C2SP text: a CMAC-based key derivation whose input is one block.
void derive_xaes_key(const SecretBytes& key, const unsigned char* nonce, unsigned char* derived) {
  thread_local const Context block;
  FALAJ_CHECK(key.size() == kKeyBytes);
  EVP_CIPHER_CTX* const c = block.it;
  FALAJ_CHECK(EVP_EncryptInit_ex(c, aes_256_block(), nullptr, key.data(), nullptr) == 1);
  EVP_CIPHER_CTX_set_padding(c, 0);
  int n = 0;
  unsigned char k1[kBlock] = {};
  FALAJ_CHECK(EVP_EncryptUpdate(c, k1, &n, k1, kBlock) == 1);
  const unsigned carry_out = k1[0] >> 7;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const unsigned next = i + 1 < kBlock ? k1[i + 1] >> 7 : 0U;
    k1[i] = static_cast<unsigned char>((k1[i] << 1) | next);
  }
  // Without a branch on key material.
  k1[kBlock - 1] = static_cast<unsigned char>(k1[kBlock - 1] ^ (0x87U & (0U - carry_out)));

  unsigned char message[2 * kBlock];
  for (std::size_t half = 0; half < 2; ++half) {
    unsigned char* const m = message + half * kBlock;
    const unsigned char prefix[4] = {0, static_cast<unsigned char>(half + 1), 'X', 0};
    std::memcpy(m, prefix, 4);
    std::memcpy(m + 4, nonce, 12);
    for (std::size_t i = 0; i < kBlock; ++i) m[i] = static_cast<unsigned char>(m[i] ^ k1[i]);
  }
  FALAJ_CHECK(EVP_EncryptUpdate(c, derived, &n, message, sizeof message) == 1);
  wipe(k1, sizeof k1);
  wipe(message, sizeof message);
}

// A context of this thread with the key and nonce that XAES derives.
EVP_CIPHER_CTX* xaes_context(const SecretBytes& key, const unsigned char* nonce, int encrypt) {
  thread_local const Context sealing;
  thread_local const Context opening;
  unsigned char derived[kKeyBytes];
  derive_xaes_key(key, nonce, derived);
  EVP_CIPHER_CTX* const c = encrypt == 1 ? sealing.it : opening.it;
  FALAJ_CHECK(EVP_CipherInit_ex(c, aes_256_gcm(), nullptr, derived, nonce + 12, encrypt) == 1);
  wipe(derived, sizeof derived);
  return c;
}

}  // namespace

Error decrypt_failed() {
  return Error{ErrorId::kDecryptFailed,
               "the data does not open: it was changed, moved, cut, or sealed with another key"};
}

Tlv::Tlv(std::string_view label) { field('L', label); }

void Tlv::field(char type, std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  bytes_ += type;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes_ += static_cast<char>(static_cast<unsigned char>(size >> shift));
  }
  bytes_ += bytes;
}

Tlv& Tlv::add(std::string_view text) & {
  field('T', text);
  return *this;
}
Tlv&& Tlv::add(std::string_view text) && {
  field('T', text);
  return std::move(*this);
}
Tlv& Tlv::add(std::uint64_t number) & {
  char bytes[8];
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(static_cast<unsigned char>(number >> (56 - 8 * i)));
  }
  field('N', std::string_view(bytes, sizeof bytes));
  return *this;
}
Tlv&& Tlv::add(std::uint64_t number) && {
  add(number);
  return std::move(*this);
}

void seal_in_place(const SecretBytes& key, const unsigned char* nonce, std::string_view aad,
                   std::string_view plaintext, unsigned char* out, unsigned char* tag) {
  gcm_seal(xaes_context(key, nonce, 1), aad, plaintext, out, tag);
}

Status open_in_place(const SecretBytes& key, const unsigned char* nonce, std::string_view aad,
                     std::string_view ciphertext, const unsigned char* tag, unsigned char* out) {
  if (!gcm_open(xaes_context(key, nonce, 0), aad, ciphertext, tag, out)) {
    wipe(out, ciphertext.size());
    return decrypt_failed();
  }
  return {};
}

std::string seal(const SecretBytes& key, std::string_view plaintext, std::string_view aad,
                 Random& random) {
  std::string sealed(kSealOverhead + plaintext.size(), '\0');
  auto* const bytes = reinterpret_cast<unsigned char*>(sealed.data());
  random.fill(bytes, kXaesNonceBytes);
  seal_in_place(key, bytes, aad, plaintext, bytes + kXaesNonceBytes,
                bytes + kXaesNonceBytes + plaintext.size());
  return sealed;
}

namespace {

Status open_into(const SecretBytes& key, std::string_view sealed, std::string_view aad,
                 unsigned char* out) {
  const unsigned char* const bytes = octets(sealed);
  const std::string_view ciphertext = sealed.substr(kXaesNonceBytes, sealed.size() - kSealOverhead);
  return open_in_place(key, bytes, aad, ciphertext, bytes + sealed.size() - kTagBytes, out);
}

}  // namespace

Result<std::string> open(const SecretBytes& key, std::string_view sealed, std::string_view aad) {
  if (sealed.size() < kSealOverhead) return decrypt_failed();
  std::string plaintext(sealed.size() - kSealOverhead, '\0');
  FALAJ_TRY(open_into(key, sealed, aad, reinterpret_cast<unsigned char*>(plaintext.data())));
  return plaintext;
}

Result<SecretBytes> open_secret(const SecretBytes& key, std::string_view sealed,
                                std::string_view aad) {
  if (sealed.size() < kSealOverhead) return decrypt_failed();
  SecretBytes plaintext(sealed.size() - kSealOverhead);
  FALAJ_TRY(open_into(key, sealed, aad, plaintext.data()));
  return plaintext;
}

void Aes256Gcm::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Aes256Gcm::Aes256Gcm(std::string_view key, Use use) : context_(EVP_CIPHER_CTX_new()) {
  FALAJ_CHECK(key.size() == kKeyBytes && context_ != nullptr);
  FALAJ_CHECK(EVP_CipherInit_ex(context_.get(), aes_256_gcm(), nullptr, octets(key), nullptr,
                                use == Use::kSeal ? 1 : 0) == 1);
}
Aes256Gcm::~Aes256Gcm() = default;
Aes256Gcm::Aes256Gcm(Aes256Gcm&&) noexcept = default;
Aes256Gcm& Aes256Gcm::operator=(Aes256Gcm&&) noexcept = default;

void Aes256Gcm::seal(const unsigned char* nonce, std::string_view aad, std::string_view plaintext,
                     unsigned char* out) {
  FALAJ_CHECK(EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce) == 1);
  gcm_seal(context_.get(), aad, plaintext, out, out + plaintext.size());
}

Status Aes256Gcm::open(const unsigned char* nonce, std::string_view aad, std::string_view sealed,
                       unsigned char* out) {
  if (sealed.size() < kTagBytes) return decrypt_failed();
  const std::string_view ciphertext = sealed.substr(0, sealed.size() - kTagBytes);
  if (EVP_DecryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce) != 1 ||
      !gcm_open(context_.get(), aad, ciphertext, octets(sealed) + ciphertext.size(), out)) {
    wipe(out, ciphertext.size());
    return decrypt_failed();
  }
  return {};
}

ManySealer::ManySealer(const SecretBytes& key, Random& random) {
  random.fill(nonce_, sizeof nonce_);
  SecretBytes derived(kKeyBytes);
  derive_xaes_key(key, nonce_, derived.data());
  cipher_ = std::make_unique<Aes256Gcm>(derived.view(), Aes256Gcm::Use::kSeal);
}
ManySealer::~ManySealer() = default;

void ManySealer::seal(std::string_view plaintext, std::string_view aad, std::string& out) {
  unsigned char* const counted = nonce_ + kXaesNonceBytes - kGcmNonceBytes;
  const std::size_t before = out.size();
  out.resize(before + kSealOverhead + plaintext.size());
  auto* const bytes = reinterpret_cast<unsigned char*>(out.data()) + before;
  std::memcpy(bytes, nonce_, kXaesNonceBytes);
  cipher_->seal(counted, aad, plaintext, bytes + kXaesNonceBytes);
  for (std::size_t i = kGcmNonceBytes; i-- > 0 && ++counted[i] == 0;) {
  }
}

}  // namespace falaj::crypto
