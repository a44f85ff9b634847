#include "crypto/kdf.h"

#include <gtest/gtest.h>

#include "crypto/testing/hex.h"

namespace falaj::crypto {
namespace {

using testing::from_hex;
using testing::to_hex;

TEST(Kdf, one_key_gives_each_message_its_hmac) {
  for (const std::size_t size : {0, 1, 32, 63, 64, 65, 131}) {
    const std::string key(size, '\xaa');
    const HmacSha256 prepared(key);
    for (const std::string& message : {std::string(), std::string("a"), std::string(200, 'b')}) {
      const Sha256 hash = prepared.of(message);
      EXPECT_EQ(hash.hex(), to_hex(hmac_sha256(key, message))) << size << ' ' << message.size();
      EXPECT_EQ(prepared.of(message), hash) << "the same again";
    }
  }
}

TEST(Kdf, hmac_agrees_with_rfc_4231) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("", "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Kdf, hkdf_agrees_with_rfc_5869) {
  const std::string ikm(22, '\x0b');
  EXPECT_EQ(to_hex(hkdf_sha256(ikm, from_hex("000102030405060708090a0b0c"),
                               from_hex("f0f1f2f3f4f5f6f7f8f9"), 42)
                       .view()),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  std::string ikm2;
  std::string salt2;
  std::string info2;
  for (int i = 0; i < 80; ++i) {
    ikm2 += static_cast<char>(i);
    salt2 += static_cast<char>(0x60 + i);
    info2 += static_cast<char>(0xb0 + i);
  }
  EXPECT_EQ(to_hex(hkdf_sha256(ikm2, salt2, info2, 82).view()),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87");
  EXPECT_EQ(to_hex(hkdf_sha256(ikm, "", "", 42).view()),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Kdf, argon2id_depends_on_every_input_and_refuses_absurd_costs) {
  const Argon2Cost small{1, 64 << 10};
  const std::string salt(kArgon2SaltBytes, 's');
  const auto key = [&](std::string_view pass, std::string_view with, const Argon2Cost& cost) {
    return to_hex(argon2id(pass, with, cost).value().view());
  };
  const std::string base = key("pass", salt, small);
  EXPECT_EQ(base, key("pass", salt, small));
  EXPECT_NE(base, key("Pass", salt, small));
  EXPECT_NE(base, key("pass", std::string(kArgon2SaltBytes, 't'), small));
  EXPECT_NE(base, key("pass", salt, {2, 64 << 10}));
  EXPECT_NE(base, key("pass", salt, {1, 128 << 10}));
  EXPECT_EQ(argon2id("pass", "short", small).error().code, Code::kInvalidArgument);
  EXPECT_EQ(argon2id("pass", salt, {17, 64 << 10}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(argon2id("pass", salt, {1, 1}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace falaj::crypto
