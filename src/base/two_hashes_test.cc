#include "base/two_hashes.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace falaj {
namespace {

std::string text_of(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(TwoHashes, each_is_what_it_would_be_alone) {
  for (const std::size_t one : {0, 1, 55, 56, 63, 64, 65, 119, 128, 1'000}) {
    for (const std::size_t other : {0, 1, 64, 777, 4'096}) {
      const std::string a = text_of(one, 1);
      const std::string b = text_of(other, 2);
      PairedHasher of_a;
      PairedHasher of_b;
      PairedHasher::update_both({of_a, a}, {of_b, b});
      EXPECT_EQ(of_a.finish(), sha256(a)) << one << " beside " << other;
      EXPECT_EQ(of_b.finish(), sha256(b)) << other << " beside " << one;
    }
  }
}

TEST(TwoHashes, however_they_are_cut) {
  std::mt19937 random(20261118);
  for (int round = 0; round < 50; ++round) {
    const std::string a = text_of(random() % 20'000, static_cast<unsigned>(round));
    const std::string b = text_of(random() % 20'000, static_cast<unsigned>(round) + 100);
    PairedHasher of_a;
    PairedHasher of_b;
    std::string_view left_a = a;
    std::string_view left_b = b;
    while (!left_a.empty() || !left_b.empty()) {
      const std::string_view part_a = left_a.substr(0, random() % 3'000);
      const std::string_view part_b = left_b.substr(0, random() % 3'000);
      left_a.remove_prefix(part_a.size());
      left_b.remove_prefix(part_b.size());
      if (random() % 3 == 0) {
        of_a.update(part_a);
        of_b.update(part_b);
      } else {
        PairedHasher::update_both({of_a, part_a}, {of_b, part_b});
      }
    }
    ASSERT_EQ(of_a.finish(), sha256(a)) << round;
    ASSERT_EQ(of_b.finish(), sha256(b)) << round;
  }
}

}  // namespace
}  // namespace falaj
