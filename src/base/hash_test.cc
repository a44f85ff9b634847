#include "base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

#include "base/internal/sha256_blocks.h"

namespace falaj {
namespace {

// From FIPS 180-4's examples and the NIST response files (short and long messages).
TEST(Sha256, gives_the_published_digests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex("\xbd"), "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, any_split_gives_the_digest_of_the_whole) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string data(random() % 400, '\0');
    for (char& c : data) c = static_cast<char>(random());
    Sha256Hasher hasher;
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t part = std::min<std::size_t>(data.size() - at, random() % 130);
      hasher.update(std::string_view(data).substr(at, part));
      at += part;
    }
    ASSERT_EQ(hasher.finish(), sha256(data)) << "round " << round << ", size " << data.size();
  }
}

TEST(Sha256, the_portable_and_the_native_path_agree) {
  if (!internal::sha256_has_instructions()) {
    GTEST_SKIP() << "this processor has no SHA instructions: only the portable path exists";
  }
  std::mt19937 random(12);
  for (int round = 0; round < 500; ++round) {
    const std::size_t blocks = random() % 9;
    std::vector<std::uint8_t> data(blocks * 64);
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    internal::Sha256State one;
    for (std::uint32_t& word : one) word = static_cast<std::uint32_t>(random());
    internal::Sha256State other = one;
    internal::sha256_blocks_portable(one, data.data(), blocks);
    internal::sha256_blocks_native(other, data.data(), blocks);
    ASSERT_EQ(one, other) << "round " << round;
  }
}

// The published digests are checked on the portable path too, whatever the processor has.
TEST(Sha256, the_portable_path_gives_the_published_digest) {
  std::array<std::uint8_t, 64> block{'a', 'b', 'c', 0x80};
  block[63] = 24;
  internal::Sha256State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  internal::sha256_blocks_portable(state, block.data(), 1);
  EXPECT_EQ(state[0], 0xba7816bfu);
  EXPECT_EQ(state[7], 0xf20015adu);
}

TEST(Hash64, is_the_same_on_every_build) {
  EXPECT_EQ(hash64(""), hash64("", 0));
  EXPECT_EQ(hash64("falaj"), 14806939287100259490u);
  EXPECT_EQ(hash64("a text of more than sixteen bytes", 7), 3272889362341695312u);
}

TEST(Hash64, one_flipped_bit_flips_about_half_of_the_hash) {
  std::mt19937 random(13);
  double flipped = 0;
  int trials = 0;
  for (std::size_t size = 1; size <= 40; ++size) {
    std::string data(size, '\0');
    for (char& c : data) c = static_cast<char>(random());
    const std::uint64_t before = hash64(data);
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      std::string changed = data;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
      flipped += std::popcount(before ^ hash64(changed));
      ++trials;
    }
  }
  EXPECT_NEAR(flipped / trials, 32, 0.5);
}

TEST(Hash64, sizes_and_seeds_give_different_hashes) {
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size < 100; ++size) seen.insert(hash64(std::string(size, '\0')));
  for (std::uint64_t seed = 1; seed < 100; ++seed) seen.insert(hash64("key", seed));
  EXPECT_EQ(seen.size(), 199u);
}

}  // namespace
}  // namespace falaj
