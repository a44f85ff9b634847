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

namespace {

// One hash on its way through the instructions, which keep the state as (a b e f) and (c d g h),
// highest lane first.
struct Lane {
  __m128i abef;
  __m128i cdgh;
  __m128i abef_before;
  __m128i cdgh_before;
  __m128i w[4];  // The last sixteen words of the schedule; group i stands at i % 4.
};

#define FALAJ_SHA_INLINE __attribute__((target("sha,sse4.1,ssse3"), always_inline)) inline

FALAJ_SHA_INLINE void load(Lane& lane, const Sha256State& state) {
  const __m128i abcd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data()));
  const __m128i efgh = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data() + 4));
  const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
  lane.abef = _mm_alignr_epi8(badc, hgfe, 8);
  lane.cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
}

FALAJ_SHA_INLINE void store(const Lane& lane, Sha256State& state) {
  alignas(16) std::uint32_t words[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(words), lane.abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(words + 4), lane.cdgh);
  state = {words[3], words[2], words[7], words[6], words[1], words[0], words[5], words[4]};
}

FALAJ_SHA_INLINE void begin_block(Lane& lane) {
  lane.abef_before = lane.abef;
  lane.cdgh_before = lane.cdgh;
}

// Four of the 64 rounds.
FALAJ_SHA_INLINE void rounds(Lane& lane, const std::uint8_t* block, int i) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  if (i < 4) {
    const auto* from = reinterpret_cast<const __m128i*>(block + 16 * i);
    lane.w[i] = _mm_shuffle_epi8(_mm_loadu_si128(from), byte_order);
  } else {
    const __m128i newest = lane.w[(i - 1) % 4];
    const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(lane.w[i % 4], lane.w[(i - 3) % 4]),
                                          _mm_alignr_epi8(newest, lane.w[(i - 2) % 4], 4));
    lane.w[i % 4] = _mm_sha256msg2_epu32(partial, newest);
  }
  const auto* constants = reinterpret_cast<const __m128i*>(kRound + 4 * i);
  const __m128i sum = _mm_add_epi32(lane.w[i % 4], _mm_load_si128(constants));
  lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, sum);
  lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

FALAJ_SHA_INLINE void end_block(Lane& lane) {
  lane.abef = _mm_add_epi32(lane.abef, lane.abef_before);
  lane.cdgh = _mm_add_epi32(lane.cdgh, lane.cdgh_before);
}

#undef FALAJ_SHA_INLINE

}  // namespace

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_native(Sha256State& state,
                                                                      const std::uint8_t* blocks,
                                                                      std::size_t count) {
  Lane lane;
  load(lane, state);
  for (; count > 0; --count, blocks += 64) {
    begin_block(lane);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rounds(lane, blocks, i);
    end_block(lane);
  }
  store(lane, state);
}

__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_native(Sha256Work a, Sha256Work b,
                                                                      std::size_t count) {
  Lane first;
  Lane second;
  load(first, a.state);
  load(second, b.state);
  for (; count > 0; --count, a.blocks += 64, b.blocks += 64) {
    begin_block(first);
    begin_block(second);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      rounds(first, a.blocks, i);
      rounds(second, b.blocks, i);
    }
    end_block(first);
    end_block(second);
  }
  store(first, a.state);
  store(second, b.state);
}

#else

bool sha256_has_instructions() { return false; }

void sha256_blocks_native(Sha256State&, const std::uint8_t*, std::size_t) {
  FALAJ_CHECK(sha256_has_instructions());
}

void sha256_blocks_native(Sha256Work, Sha256Work, std::size_t) {
  FALAJ_CHECK(sha256_has_instructions());
}

#endif

}  // namespace falaj::internal
