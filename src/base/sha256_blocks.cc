#include "base/internal/sha256_blocks.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace falaj::internal {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4).
alignas(16) constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian_word(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

void portable_block(Sha256State& state, const std::uint8_t* block) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian_word(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const Sha256State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

void sha256_blocks_portable(Sha256State& state, const std::uint8_t* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += 64) portable_block(state, blocks);
}

#if defined(__x86_64__)

bool sha256_has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
  if (a < 7) return false;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  const bool sha = (b >> 29 & 1) != 0;
  return sha && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
}

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_native(Sha256State& state,
                                                                      const std::uint8_t* blocks,
                                                                      std::size_t count) {
  const auto lane = [](std::uint32_t word) { return static_cast<int>(word); };
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions keep the state as (a b e f) and (c d g h), highest lane first.
  __m128i abef = _mm_set_epi32(lane(state[0]), lane(state[1]), lane(state[4]), lane(state[5]));
  __m128i cdgh = _mm_set_epi32(lane(state[2]), lane(state[3]), lane(state[6]), lane(state[7]));
  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];  // The last sixteen words of the schedule; group i stands at i % 4.
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i < 4) {
        const auto* from = reinterpret_cast<const __m128i*>(blocks + 16 * i);
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128(from), byte_order);
      } else {
        const __m128i newest = w[(i - 1) % 4];
        const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i - 3) % 4]),
                                              _mm_alignr_epi8(newest, w[(i - 2) % 4], 4));
        w[i % 4] = _mm_sha256msg2_epu32(partial, newest);
      }
      const auto* constants = reinterpret_cast<const __m128i*>(kRound + 4 * i);
      const __m128i sum = _mm_add_epi32(w[i % 4], _mm_load_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) std::uint32_t lanes[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes + 4), cdgh);
  state = {lanes[3], lanes[2], lanes[7], lanes[6], lanes[1], lanes[0], lanes[5], lanes[4]};
}

#else

bool sha256_has_instructions() { return false; }

void sha256_blocks_native(Sha256State&, const std::uint8_t*, std::size_t) {
  FALAJ_CHECK(sha256_has_instructions());
}

#endif

}  // namespace falaj::internal
