#include "net/compression.h"

#include <gtest/gtest.h>

#include <random>

namespace falaj::net {
namespace {

constexpr std::size_t kMax = 1 << 20;

TEST(Compression, gives_back_what_was_put_in) {
  std::mt19937 random(11);
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate, Coding::kIdentity}) {
    for (const std::size_t size : {0, 1, 1000, 65'536, 65'537, 300'000}) {
      std::string plain(size, 'a');
      for (std::size_t i = 0; i < size; i += 3) plain[i] = static_cast<char>(random());
      const std::string packed = deflate(plain, coding).value();
      EXPECT_EQ(inflate(packed, coding, kMax).value(), plain) << size;
    }
  }
}

TEST(Compression, names_are_those_of_http) {
  EXPECT_EQ(parse_coding(""), Coding::kIdentity);
  EXPECT_EQ(parse_coding("GZip"), Coding::kGzip);
  EXPECT_EQ(parse_coding("deflate"), Coding::kDeflate);
  EXPECT_FALSE(parse_coding("br").has_value());
  EXPECT_FALSE(parse_coding("gzip, gzip").has_value());
  EXPECT_EQ(accepted_coding("br, gzip;q=0.5, deflate"), Coding::kGzip);
  EXPECT_EQ(accepted_coding("gzip;q=0, deflate"), Coding::kDeflate);
  EXPECT_EQ(accepted_coding("identity, *"), Coding::kIdentity);
  EXPECT_EQ(accepted_coding(""), Coding::kIdentity);
  EXPECT_EQ(accepted_coding(",,;,"), Coding::kIdentity);
}

TEST(Compression, refuses_a_bomb_at_its_limit) {
  const std::string bomb = deflate(std::string(64 << 20, '\0'), Coding::kGzip).value();
  EXPECT_LT(bomb.size(), std::size_t{1} << 19);
  const auto refused = inflate(bomb, Coding::kGzip, kMax);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kBodyTooLarge);
  // A small one may fill a quarter of what a plain body may have, a large one 64 times itself.
  EXPECT_EQ(inflated_max(10, 64 << 20), std::size_t{16} << 20);
  EXPECT_EQ(inflated_max(512 << 10, 64 << 20), std::size_t{32} << 20);
  EXPECT_EQ(inflated_max(60 << 20, 64 << 20), std::size_t{64} << 20);
}

TEST(Compression, refuses_every_cut_and_what_follows) {
  const std::string packed = deflate("a text that is long enough to be cut", Coding::kGzip).value();
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_FALSE(inflate(packed.substr(0, size), Coding::kGzip, kMax).ok()) << size;
  }
  EXPECT_FALSE(inflate(packed + "x", Coding::kGzip, kMax).ok());
  EXPECT_FALSE(inflate(packed, Coding::kDeflate, kMax).ok());
  EXPECT_FALSE(inflate("no such thing", Coding::kGzip, kMax).ok());
}

}  // namespace
}  // namespace falaj::net
