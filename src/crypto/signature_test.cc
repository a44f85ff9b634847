#include "crypto/signature.h"

#include <gtest/gtest.h>

#include "crypto/base64.h"

namespace falaj::crypto {
namespace {

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return out;
}

TEST(Base64, round_trips_and_refuses_what_no_encoder_writes) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64url("\xfb\xff"), "-_8");
  for (const std::string text : {"", "f", "fo", "foo", "foob", "fooba"}) {
    EXPECT_EQ(from_base64(base64(text)).value(), text);
    EXPECT_EQ(from_base64url(base64url(text)).value(), text);
  }
  for (const char* bad : {"Zg", "Zg=", "Zh==", "Zg== ", "Z===", "====", "Zm9v\n", "Zm8_"}) {
    EXPECT_FALSE(from_base64(bad).ok()) << bad;
  }
  for (const char* bad : {"Zg==", "Zh", "Z", "Zm8+"}) EXPECT_FALSE(from_base64url(bad).ok()) << bad;
}

// RFC 8032, 7.1, tests 1 and 2.
TEST(Signature, gives_the_known_ed25519_answers) {
  struct Known {
    const char *seed, *key, *message, *signature;
  };
  for (const Known& known : {
           Known{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                 "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
                 "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
                 "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
           Known{"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                 "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
                 "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
                 "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
       }) {
    const PrivateKey key = PrivateKey::ed25519(from_hex(known.seed)).value();
    EXPECT_EQ(key.public_key().raw(), from_hex(known.key));
    EXPECT_EQ(key.sign(Scheme::kEd25519, from_hex(known.message)).value(),
              from_hex(known.signature));
    const PublicKey verifier = PublicKey::ed25519(from_hex(known.key)).value();
    EXPECT_TRUE(
        verifier.verify(Scheme::kEd25519, from_hex(known.message), from_hex(known.signature)));
  }
}

// RFC 7515, A.3.
TEST(Signature, verifies_the_known_es256_token) {
  const PublicKey key =
      PublicKey::p256(from_base64url("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU").value(),
                      from_base64url("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0").value())
          .value();
  const std::string message =
      "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
      "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
  std::string signature = from_base64url(
                              "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISl"
                              "SApmWQxfKTUJqPP3-Kg6NU1Q")
                              .value();
  EXPECT_TRUE(key.verify(Scheme::kEcdsaP256Raw, message, signature));
  EXPECT_FALSE(key.verify(Scheme::kEcdsaP256Der, message, signature));
  EXPECT_FALSE(key.verify(Scheme::kEcdsaP256Raw, message + "x", signature));
  signature[5] = static_cast<char>(signature[5] ^ 1);
  EXPECT_FALSE(key.verify(Scheme::kEcdsaP256Raw, message, signature));
  EXPECT_FALSE(key.verify(Scheme::kEcdsaP256Raw, message, ""));
  EXPECT_FALSE(key.verify(Scheme::kEcdsaP256Raw, message, std::string(64, '\0')));
}

TEST(Signature, signs_and_verifies_by_every_scheme_that_fits_and_by_no_other) {
  const Scheme schemes[] = {Scheme::kEd25519, Scheme::kEcdsaP256Raw, Scheme::kEcdsaP256Der,
                            Scheme::kRsaPkcs1, Scheme::kRsaPss};
  for (const KeyType type : {KeyType::kEd25519, KeyType::kP256, KeyType::kRsa}) {
    const PrivateKey key = PrivateKey::generate(type).value();
    const PublicKey verifier = PublicKey::from_pem(key.public_key().to_pem()).value();
    const PrivateKey again = PrivateKey::from_pem(key.to_pem()).value();
    EXPECT_EQ(again.public_key().fingerprint(), verifier.fingerprint());
    EXPECT_EQ(verifier.type(), type);
    int fitting = 0;
    for (const Scheme scheme : schemes) {
      const auto signature = key.sign(scheme, "message");
      if (!signature.ok()) continue;
      ++fitting;
      for (const Scheme other : schemes) {
        EXPECT_EQ(verifier.verify(other, "message", *signature), other == scheme);
      }
      EXPECT_FALSE(verifier.verify(scheme, "massage", *signature));
      EXPECT_FALSE(verifier.verify(scheme, "message", *signature + "x"));
    }
    EXPECT_EQ(fitting, type == KeyType::kEd25519 ? 1 : 2);
  }
}

TEST(Signature, refuses_weak_and_foreign_keys) {
  EXPECT_FALSE(PublicKey::from_pem("").ok());
  EXPECT_FALSE(PublicKey::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n").ok());
  EXPECT_FALSE(PublicKey::ed25519(std::string(31, 'x')).ok());
  EXPECT_FALSE(PublicKey::p256(std::string(32, '\1'), std::string(32, '\1')).ok());
  EXPECT_FALSE(PublicKey::rsa(std::string(128, '\xff'), std::string("\1\0\1", 3)).ok());
  EXPECT_TRUE(PublicKey::rsa(std::string(256, '\xff'), std::string("\1\0\1", 3)).ok());
  EXPECT_FALSE(PublicKey::rsa(std::string(1026, '\xff'), std::string("\1\0\1", 3)).ok());
}

}  // namespace
}  // namespace falaj::crypto
