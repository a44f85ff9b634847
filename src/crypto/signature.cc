#include "crypto/signature.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <optional>

#include "base/check.h"
#include "base/hash.h"
#include "crypto/internal/openssl_handles.h"

namespace falaj::crypto {
namespace {

using Bignum = OpensslHandle<BIGNUM, BN_free>;
using DigestContext = OpensslHandle<EVP_MD_CTX, EVP_MD_CTX_free>;
using KeyContext = OpensslHandle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using EcdsaSignature = OpensslHandle<ECDSA_SIG, ECDSA_SIG_free>;
using ParamBuilder = OpensslHandle<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using Params = OpensslHandle<OSSL_PARAM, OSSL_PARAM_free>;

constexpr int kRsaBitsMin = 2048;
constexpr int kRsaBitsMax = 8192;  // A larger one only costs the verifier time.
constexpr std::size_t kCoordinate = 32;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

EVP_PKEY* key_of(const std::shared_ptr<void>& handle) {
  return static_cast<EVP_PKEY*>(handle.get());
}

std::shared_ptr<void> own(EVP_PKEY* key) {
  return {key, [](void* p) { EVP_PKEY_free(static_cast<EVP_PKEY*>(p)); }};
}

Error bad_key(const char* what) {
  ERR_clear_error();
  return {ErrorId::kInvalidArgument, std::string("the key is refused: ") + what};
}

// The type of a key that this module accepts.
std::optional<KeyType> type_of(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return KeyType::kEd25519;
  if (EVP_PKEY_is_a(key, "EC") == 1) {
    std::array<char, 64> group{};
    std::size_t length = 0;
    if (EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) != 1) return {};
    if (std::string_view(group.data(), length) != "prime256v1") return {};
    return KeyType::kP256;
  }
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const int bits = EVP_PKEY_get_bits(key);
    if (bits < kRsaBitsMin || bits > kRsaBitsMax) return {};
    return KeyType::kRsa;
  }
  return {};
}

bool fits(Scheme scheme, KeyType type) {
  switch (scheme) {
    case Scheme::kEd25519:
      return type == KeyType::kEd25519;
    case Scheme::kEcdsaP256Raw:
    case Scheme::kEcdsaP256Der:
      return type == KeyType::kP256;
    case Scheme::kRsaPkcs1:
    case Scheme::kRsaPss:
      return type == KeyType::kRsa;
  }
  return false;
}

const EVP_MD* digest_of(Scheme scheme) {
  return scheme == Scheme::kEd25519 ? nullptr : EVP_sha256();
}

bool set_padding(EVP_PKEY_CTX* context, Scheme scheme) {
  if (scheme == Scheme::kRsaPkcs1) {
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
  }
  if (scheme == Scheme::kRsaPss) {
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
  }
  return true;
}

// r ‖ s as DER; "" if it is no signature.
std::string der_from_raw(std::string_view raw) {
  if (raw.size() != 2 * kCoordinate) return "";
  const EcdsaSignature signature(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(bytes(raw), kCoordinate, nullptr);
  BIGNUM* s = BN_bin2bn(bytes(raw) + kCoordinate, kCoordinate, nullptr);
  FALAJ_CHECK(signature && ECDSA_SIG_set0(signature.get(), r, s) == 1);
  unsigned char* out = nullptr;
  const int length = i2d_ECDSA_SIG(signature.get(), &out);
  if (length <= 0) return "";
  std::string der(reinterpret_cast<char*>(out), static_cast<std::size_t>(length));
  OPENSSL_free(out);
  return der;
}

std::string raw_from_der(std::string_view der) {
  const unsigned char* at = bytes(der);
  const EcdsaSignature signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  FALAJ_CHECK(signature != nullptr);  // We made it ourselves a moment ago.
  std::string raw(2 * kCoordinate, '\0');
  BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), bytes(raw), kCoordinate);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), bytes(raw) + kCoordinate, kCoordinate);
  return raw;
}

std::string bio_text(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

Bio bio_of(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<std::shared_ptr<void>> key_from_params(const char* algorithm, OSSL_PARAM* params) {
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, algorithm, nullptr));
  EVP_PKEY* key = nullptr;
  if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
    return bad_key("its numbers are no public key");
  }
  return own(key);
}

constexpr std::size_t kPemMax = 32 * 1024;

}  // namespace

Result<PublicKey> PublicKey::checked(std::shared_ptr<void> handle) {
  const auto type = type_of(key_of(handle));
  if (!type) return bad_key("only Ed25519, P-256 and RSA of 2048 to 8192 bits are accepted");
  return PublicKey(std::move(handle), *type);
}

Result<PublicKey> PublicKey::from_pem(std::string_view pem) {
  if (pem.size() > kPemMax) return bad_key("the PEM text is too long");
  const Bio bio = bio_of(pem);
  EVP_PKEY* key = PEM_read_bio_PUBKEY(bio.get(), nullptr, no_passphrase, nullptr);
  if (key == nullptr) return bad_key("the text is no public key in PEM");
  return checked(own(key));
}

Result<PublicKey> PublicKey::ed25519(std::string_view raw32) {
  EVP_PKEY* key = raw32.size() != 32 ? nullptr
                                     : EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                                                   bytes(raw32), raw32.size());
  if (key == nullptr) return bad_key("an Ed25519 public key has 32 bytes");
  return PublicKey(own(key), KeyType::kEd25519);
}

Result<PublicKey> PublicKey::p256(std::string_view x, std::string_view y) {
  if (x.size() != kCoordinate || y.size() != kCoordinate) {
    return bad_key("a P-256 coordinate has 32 bytes");
  }
  std::string point = "\x04" + std::string(x) + std::string(y);
  std::string group = "prime256v1";
  std::array<OSSL_PARAM, 3> params{
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
      OSSL_PARAM_construct_end()};
  std::shared_ptr<void> key = FALAJ_TRY(key_from_params("EC", params.data()));
  return checked(std::move(key));
}

Result<PublicKey> PublicKey::rsa(std::string_view n, std::string_view e) {
  if (n.size() > kRsaBitsMax / 8 + 1 || e.size() > 8 || n.empty() || e.empty()) {
    return bad_key("an RSA modulus has 2048 to 8192 bits and an exponent at most 64");
  }
  const Bignum modulus(BN_bin2bn(bytes(n), static_cast<int>(n.size()), nullptr));
  const Bignum exponent(BN_bin2bn(bytes(e), static_cast<int>(e.size()), nullptr));
  const ParamBuilder builder(OSSL_PARAM_BLD_new());
  FALAJ_CHECK(builder && modulus && exponent);
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  const Params params(OSSL_PARAM_BLD_to_param(builder.get()));
  std::shared_ptr<void> key = FALAJ_TRY(key_from_params("RSA", params.get()));
  return checked(std::move(key));
}

std::string PublicKey::to_pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  FALAJ_CHECK(PEM_write_bio_PUBKEY(bio.get(), key_of(handle_)) == 1);
  return bio_text(bio.get());
}

std::string PublicKey::raw() const {
  if (type_ != KeyType::kEd25519) return "";
  std::string raw(32, '\0');
  std::size_t length = raw.size();
  FALAJ_CHECK(EVP_PKEY_get_raw_public_key(key_of(handle_), bytes(raw), &length) == 1);
  return raw;
}

std::string PublicKey::fingerprint() const {
  unsigned char* out = nullptr;
  const int length = i2d_PUBKEY(key_of(handle_), &out);
  FALAJ_CHECK(length > 0);
  const std::string hex =
      sha256_hex({reinterpret_cast<char*>(out), static_cast<std::size_t>(length)});
  OPENSSL_free(out);
  return hex;
}

bool PublicKey::verify(Scheme scheme, std::string_view message, std::string_view signature) const {
  if (!fits(scheme, type_)) return false;
  std::string der;
  if (scheme == Scheme::kEcdsaP256Raw) {
    der = der_from_raw(signature);
    if (der.empty()) return false;
    signature = der;
  }
  const DigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* key_context = nullptr;
  const bool ok = context &&
                  EVP_DigestVerifyInit(context.get(), &key_context, digest_of(scheme), nullptr,
                                       key_of(handle_)) == 1 &&
                  set_padding(key_context, scheme) &&
                  EVP_DigestVerify(context.get(), bytes(signature), signature.size(),
                                   bytes(message), message.size()) == 1;
  if (!ok) ERR_clear_error();
  return ok;
}

Result<PrivateKey> PrivateKey::checked(std::shared_ptr<void> handle) {
  const auto type = type_of(key_of(handle));
  if (!type) return bad_key("only Ed25519, P-256 and RSA of 2048 to 8192 bits are accepted");
  return PrivateKey(std::move(handle), *type);
}

Result<PrivateKey> PrivateKey::generate(KeyType type) {
  EVP_PKEY* key = nullptr;
  if (type == KeyType::kEd25519) key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (type == KeyType::kP256) key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  if (type == KeyType::kRsa) key = EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{3072});
  if (key == nullptr) {
    ERR_clear_error();
    return Error(Code::kInternal, "no key could be made: the system gives no randomness");
  }
  return PrivateKey(own(key), type);
}

Result<PrivateKey> PrivateKey::ed25519(std::string_view seed32) {
  EVP_PKEY* key = seed32.size() != 32 ? nullptr
                                      : EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                                                     bytes(seed32), seed32.size());
  if (key == nullptr) return bad_key("an Ed25519 seed has 32 bytes");
  return PrivateKey(own(key), KeyType::kEd25519);
}

Result<PrivateKey> PrivateKey::from_pem(std::string_view pem) {
  if (pem.size() > kPemMax) return bad_key("the PEM text is too long");
  const Bio bio = bio_of(pem);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr);
  if (key == nullptr) return bad_key("the text is no private key in PEM");
  return checked(own(key));
}

std::string PrivateKey::to_pem() const {
  const Bio bio(BIO_new(BIO_s_secmem()));
  FALAJ_CHECK(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_of(handle_), nullptr, nullptr, 0,
                                            nullptr, nullptr) == 1);
  return bio_text(bio.get());
}

PublicKey PrivateKey::public_key() const {
  unsigned char* out = nullptr;
  const int length = i2d_PUBKEY(key_of(handle_), &out);
  FALAJ_CHECK(length > 0);
  const unsigned char* at = out;
  EVP_PKEY* key = d2i_PUBKEY(nullptr, &at, length);
  OPENSSL_free(out);
  FALAJ_CHECK(key != nullptr);
  return PublicKey(own(key), type_);
}

Result<std::string> PrivateKey::sign(Scheme scheme, std::string_view message) const {
  if (!fits(scheme, type_)) return bad_key("it cannot sign by the scheme that was asked for");
  const DigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* key_context = nullptr;
  std::size_t length = 0;
  if (!context ||
      EVP_DigestSignInit(context.get(), &key_context, digest_of(scheme), nullptr,
                         key_of(handle_)) != 1 ||
      !set_padding(key_context, scheme) ||
      EVP_DigestSign(context.get(), nullptr, &length, bytes(message), message.size()) != 1) {
    return bad_key("signing with it failed");
  }
  std::string signature(length, '\0');
  if (EVP_DigestSign(context.get(), bytes(signature), &length, bytes(message), message.size()) !=
      1) {
    return bad_key("signing with it failed");
  }
  signature.resize(length);
  return scheme == Scheme::kEcdsaP256Raw ? raw_from_der(signature) : signature;
}

}  // namespace falaj::crypto
