#include "crypto/aead.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <set>
#include <thread>

#include "crypto/testing/fake_random.h"
#include "crypto/testing/hex.h"

namespace falaj::crypto {
namespace {

using testing::FakeRandom;
using testing::from_hex;
using testing::to_hex;

// Hands out a given nonce.
class GivenRandom final : public Random {
 public:
  explicit GivenRandom(std::string_view bytes) : bytes_(bytes) {}
  void fill(void* out, std::size_t size) override { bytes_.copy(static_cast<char*>(out), size); }

 private:
  std::string_view bytes_;
};

std::string xaes(std::string_view key, std::string_view nonce, std::string_view plaintext,
                 std::string_view aad) {
  GivenRandom random(nonce);
  return seal(SecretBytes(key), plaintext, aad, random).substr(kXaesNonceBytes);
}

std::string shake128(std::string_view input, std::size_t size) {
  std::string out(size, '\0');
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  EXPECT_EQ(EVP_DigestInit_ex(context, EVP_shake128(), nullptr), 1);
  EXPECT_EQ(EVP_DigestUpdate(context, input.data(), input.size()), 1);
  EXPECT_EQ(EVP_DigestFinalXOF(context, reinterpret_cast<unsigned char*>(out.data()), size), 1);
  EVP_MD_CTX_free(context);
  return out;
}

TEST(Aead, xaes_agrees_with_the_published_vectors) {
  const std::string_view nonce = "ABCDEFGHIJKLMNOPQRSTUVWX";
  EXPECT_EQ(to_hex(xaes(std::string(32, '\1'), nonce, "XAES-256-GCM", "")),
            "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271");
  EXPECT_EQ(to_hex(xaes(std::string(32, '\3'), nonce, "XAES-256-GCM", "c2sp.org/XAES-256-GCM")),
            "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d");
}

// The accumulated vector of the same text: keys, nonces, texts and aad from SHAKE-128.
TEST(Aead, xaes_agrees_with_ten_thousand_accumulated_vectors) {
  const std::string stream = shake128("", 10'000 * (32 + 24 + 2 + 510));
  ASSERT_EQ(to_hex(stream.substr(0, 16)), "7f9c2ba4e88f827d616045507605853e");
  std::size_t at = 0;
  const auto take = [&](std::size_t size) {
    at += size;
    return std::string_view(stream).substr(at - size, size);
  };
  const auto take_sized = [&] { return take(static_cast<unsigned char>(take(1)[0])); };
  std::string all;
  for (int i = 0; i < 10'000; ++i) {
    const std::string_view key = take(32);
    const std::string_view nonce = take(24);
    const std::string_view plaintext = take_sized();
    const std::string_view aad = take_sized();
    all += xaes(key, nonce, plaintext, aad);
  }
  EXPECT_EQ(to_hex(shake128(all, 32)),
            "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939");
}

// Case 16 of the GCM submission: 256-bit key, 60 bytes of text, 20 of additional data.
TEST(Aead, gcm_agrees_with_the_published_vector) {
  const std::string key =
      from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const std::string nonce = from_hex("cafebabefacedbaddecaf888");
  const std::string aad = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const std::string text = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
      "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
  const auto* n = reinterpret_cast<const unsigned char*>(nonce.data());
  std::string sealed(text.size() + kTagBytes, '\0');
  Aes256Gcm sealer(key, Aes256Gcm::Use::kSeal);
  sealer.seal(n, aad, text, reinterpret_cast<unsigned char*>(sealed.data()));
  EXPECT_EQ(to_hex(sealed),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
            "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
            "76fc6ece0f4e1768cddf8853bb2d551b");
  Aes256Gcm opener(key, Aes256Gcm::Use::kOpen);
  std::string back(text.size(), '\0');
  auto* out = reinterpret_cast<unsigned char*>(back.data());
  ASSERT_TRUE(opener.open(n, aad, sealed, out).ok());
  EXPECT_EQ(back, text);
  sealed[5] = static_cast<char>(sealed[5] ^ 1);
  EXPECT_FALSE(opener.open(n, aad, sealed, out).ok());
  EXPECT_EQ(back, std::string(text.size(), '\0'));  // Nothing unverified is left.
}

TEST(Aead, many_messages_of_one_sealer_open_one_by_one) {
  const SecretBytes key = system_random().key();
  const std::string largest(kXaesNonceBytes, '\xff');  // Counting on goes round to zero.
  GivenRandom random(largest);
  ManySealer sealer(key, random);
  std::set<std::string> nonces;
  for (const std::size_t size : {0, 1, 16, 300, 2}) {
    const std::string text(size, 'w');
    std::string sealed = "before";
    sealer.seal(text, "aad", sealed);
    ASSERT_EQ(sealed.substr(0, 6), "before");
    sealed.erase(0, 6);
    EXPECT_EQ(open(key, sealed, "aad").value(), text);
    EXPECT_FALSE(open(key, sealed, "aae").ok());
    nonces.insert(sealed.substr(0, kXaesNonceBytes));
  }
  EXPECT_EQ(nonces.size(), 5u) << "a nonce was used twice";
}

TEST(Aead, two_sealers_of_one_key_share_nothing) {
  const SecretBytes key = system_random().key();
  std::string first;
  std::string second;
  ManySealer(key).seal("text", "", first);
  ManySealer(key).seal("text", "", second);
  EXPECT_NE(first.substr(0, kXaesNonceBytes / 2), second.substr(0, kXaesNonceBytes / 2));
  EXPECT_NE(first.substr(kXaesNonceBytes / 2, 12), second.substr(kXaesNonceBytes / 2, 12));
}

TEST(Aead, opens_what_it_sealed_and_only_that) {
  FakeRandom random(1);
  const SecretBytes key = random.key();
  const SecretBytes other = random.key();
  for (const std::size_t size : {0U, 1U, 15U, 16U, 17U, 300U, 4096U}) {
    const std::string text = random.bytes(size);
    const std::string sealed = seal(key, text, "aad", random);
    EXPECT_EQ(sealed.size(), size + kSealOverhead);
    EXPECT_EQ(open(key, sealed, "aad").value(), text);
    EXPECT_EQ(open_secret(key, sealed, "aad").value().view(), text);
    EXPECT_EQ(open(other, sealed, "aad").error().id, ErrorId::kDecryptFailed);
    EXPECT_EQ(open(key, sealed, "aae").error().id, ErrorId::kDecryptFailed);
    EXPECT_EQ(open(key, sealed, "").error().id, ErrorId::kDecryptFailed);
    EXPECT_NE(seal(key, text, "aad", random), sealed);
  }
}

TEST(Aead, every_flipped_bit_and_every_cut_is_refused_with_one_message) {
  FakeRandom random(2);
  const SecretBytes key = random.key();
  const std::string sealed = seal(key, "thirty-two bytes of water rights", "aad", random);
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string bad = sealed;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(open(key, bad, "aad").error(), decrypt_failed()) << bit;
  }
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_EQ(open(key, sealed.substr(0, size), "aad").error(), decrypt_failed()) << size;
  }
  EXPECT_EQ(open(key, sealed + '\0', "aad").error(), decrypt_failed());
}

TEST(Aead, in_place_means_in_place) {
  FakeRandom random(3);
  const SecretBytes key = random.key();
  const std::string text = random.bytes(4000);
  const std::string nonce = random.bytes(kXaesNonceBytes);
  const auto* n = reinterpret_cast<const unsigned char*>(nonce.data());
  std::string page = text;
  auto* bytes = reinterpret_cast<unsigned char*>(page.data());
  unsigned char tag[kTagBytes];
  seal_in_place(key, n, "page 7", page, bytes, tag);
  EXPECT_NE(page, text);
  ASSERT_TRUE(open_in_place(key, n, "page 7", page, tag, bytes).ok());
  EXPECT_EQ(page, text);
  EXPECT_FALSE(open_in_place(key, n, "page 7", page, tag, bytes).ok());
  EXPECT_EQ(page, std::string(page.size(), '\0'));
}

TEST(Aead, threads_share_a_key) {
  const SecretBytes key = system_random().key();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&key, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string text = std::to_string(t) + ":" + std::to_string(i);
        EXPECT_EQ(open(key, seal(key, text, "x"), "x").value(), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tlv, different_lists_give_different_bytes) {
  EXPECT_NE(Tlv("x").add("ab").add("c").str(), Tlv("x").add("a").add("bc").str());
  EXPECT_NE(Tlv("x").add("").str(), Tlv("x").str());
  EXPECT_NE(Tlv("x").add("y").str(), Tlv("y").add("x").str());
  EXPECT_NE(Tlv("x").add(std::uint64_t{0}).str(),
            Tlv("x").add(std::string_view("\0\0\0\0\0\0\0\0", 8)).str());
}

}  // namespace
}  // namespace falaj::crypto
