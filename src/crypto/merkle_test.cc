#include "crypto/merkle.h"

#include <gtest/gtest.h>

#include <random>

namespace falaj::crypto {
namespace {

// The tree that the RFC's own authors test with.
const std::vector<std::string>& known_entries() {
  static const std::vector<std::string> kEntries{"",
                                                 std::string("\x00", 1),
                                                 "\x10",
                                                 "\x20\x21",
                                                 "\x30\x31",
                                                 "\x40\x41\x42\x43",
                                                 "\x50\x51\x52\x53\x54\x55\x56\x57",
                                                 "\x60\x61\x62\x63\x64\x65\x66\x67"
                                                 "\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f"};
  return kEntries;
}

std::vector<Sha256> leaves_of(const std::vector<std::string>& entries) {
  std::vector<Sha256> leaves;
  for (const std::string& entry : entries) leaves.push_back(leaf_hash(entry));
  return leaves;
}

// The definition of RFC 9162, 2.1.1, word for word; slow.
Sha256 naive_root(const std::vector<Sha256>& leaves, std::size_t begin, std::size_t end) {
  if (begin == end) return empty_root();
  if (end - begin == 1) return leaves[begin];
  std::size_t k = 1;
  while (k * 2 < end - begin) k *= 2;
  return node_hash(naive_root(leaves, begin, begin + k), naive_root(leaves, begin + k, end));
}

// 2.1.3.1.
Proof naive_path(const std::vector<Sha256>& leaves, std::size_t m, std::size_t begin,
                 std::size_t end) {
  if (end - begin == 1) return {};
  std::size_t k = 1;
  while (k * 2 < end - begin) k *= 2;
  Proof proof;
  if (m < k) {
    proof = naive_path(leaves, m, begin, begin + k);
    proof.push_back(naive_root(leaves, begin + k, end));
  } else {
    proof = naive_path(leaves, m - k, begin + k, end);
    proof.push_back(naive_root(leaves, begin, begin + k));
  }
  return proof;
}

// 2.1.4.1.
Proof naive_subproof(const std::vector<Sha256>& leaves, std::size_t m, std::size_t begin,
                     std::size_t end, bool whole) {
  if (m == end - begin) return whole ? Proof{} : Proof{naive_root(leaves, begin, end)};
  std::size_t k = 1;
  while (k * 2 < end - begin) k *= 2;
  Proof proof;
  if (m <= k) {
    proof = naive_subproof(leaves, m, begin, begin + k, whole);
    proof.push_back(naive_root(leaves, begin + k, end));
  } else {
    proof = naive_subproof(leaves, m - k, begin + k, end, false);
    proof.push_back(naive_root(leaves, begin, begin + k));
  }
  return proof;
}

HashReader reader_of(const std::vector<Sha256>& leaves) {
  return [&leaves](unsigned level, std::uint64_t index) -> Result<Sha256> {
    const std::size_t width = std::size_t{1} << level;
    EXPECT_LE((index + 1) * width, leaves.size());
    return naive_root(leaves, index * width, (index + 1) * width);
  };
}

std::vector<Sha256> numbered_leaves(std::size_t count) {
  std::vector<Sha256> leaves;
  for (std::size_t i = 0; i < count; ++i) leaves.push_back(leaf_hash("entry " + std::to_string(i)));
  return leaves;
}

TEST(Merkle, gives_the_known_roots) {
  const std::vector<std::string> roots{
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
      "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
      "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
      "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
      "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
      "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
  Frontier frontier;
  for (std::size_t n = 0; n <= known_entries().size(); ++n) {
    EXPECT_EQ(frontier.size(), n);
    EXPECT_EQ(frontier.root().hex(), roots[n]);
    if (n < known_entries().size()) frontier.append(leaf_hash(known_entries()[n]));
  }
}

TEST(Merkle, gives_the_known_proofs) {
  const std::vector<Sha256> leaves = leaves_of(known_entries());
  const Proof first = inclusion_proof(reader_of(leaves), 0, 8).value();
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].hex(), "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7");
  EXPECT_EQ(first[1].hex(), "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e");
  EXPECT_EQ(first[2].hex(), "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4");
  const Proof grown = consistency_proof(reader_of(leaves), 6, 8).value();
  ASSERT_EQ(grown.size(), 3u);
  EXPECT_EQ(grown[0].hex(), "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a");
  EXPECT_EQ(grown[1].hex(), "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0");
  EXPECT_EQ(grown[2].hex(), "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7");
}

TEST(Merkle, agrees_with_the_definition_on_every_small_tree) {
  const std::vector<Sha256> leaves = numbered_leaves(40);
  for (std::size_t n = 1; n <= leaves.size(); ++n) {
    const TreeHead head{n, naive_root(leaves, 0, n)};
    EXPECT_EQ(root_at(reader_of(leaves), n).value(), head.root);
    EXPECT_EQ(root_of({leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(n)}),
              head.root);
    for (std::size_t m = 0; m < n; ++m) {
      const Proof path = inclusion_proof(reader_of(leaves), m, n).value();
      EXPECT_EQ(path, naive_path(leaves, m, 0, n));
      EXPECT_TRUE(verify_inclusion(leaves[m], m, head, path).ok()) << m << " of " << n;
      const Proof growth = consistency_proof(reader_of(leaves), m, n).value();
      if (m > 0) {
        EXPECT_EQ(growth, naive_subproof(leaves, m, 0, n, true));
      }
      EXPECT_TRUE(verify_consistency({m, naive_root(leaves, 0, m)}, head, growth).ok());
    }
  }
}

TEST(Merkle, refuses_what_cannot_be_proven) {
  const std::vector<Sha256> leaves = numbered_leaves(5);
  EXPECT_EQ(inclusion_proof(reader_of(leaves), 5, 5).error().id, ErrorId::kOutOfRange);
  EXPECT_EQ(consistency_proof(reader_of(leaves), 5, 4).error().id, ErrorId::kOutOfRange);
  const TreeHead head{5, naive_root(leaves, 0, 5)};
  EXPECT_FALSE(verify_inclusion(leaves[0], 5, head, {}).ok());
  EXPECT_FALSE(verify_consistency(head, {4, naive_root(leaves, 0, 4)}, {}).ok());
  EXPECT_FALSE(verify_consistency({0, head.root}, head, {}).ok());
  // What leads to the root by chance of shape: a leaf behind the only one, the root as a leaf, and
  // a smaller tree that was built around the root of the larger.
  EXPECT_FALSE(verify_inclusion(leaves[0], 1, {1, leaves[0]}, {}).ok());
  EXPECT_FALSE(verify_inclusion(head.root, 0, head, {}).ok());
  const TreeHead around{2, node_hash(head.root, leaves[1])};
  EXPECT_FALSE(verify_consistency({3, head.root}, around, {head.root, leaves[1]}).ok());
  EXPECT_FALSE(verify_consistency(head, {5, empty_root()}, {}).ok());
}

// 10 000 forgeries of right proofs, seed 9162: another leaf, place, size, root, a hash flipped,
// cut, doubled, swapped or added.
TEST(Merkle, refuses_forged_proofs) {
  std::mt19937_64 random(9162);
  const std::vector<Sha256> leaves = numbered_leaves(70);
  std::vector<Sha256> roots;
  for (std::size_t n = 0; n <= leaves.size(); ++n) roots.push_back(naive_root(leaves, 0, n));
  auto forge = [&](Proof& proof) {
    const std::size_t at = proof.empty() ? 0 : random() % proof.size();
    const auto place = proof.begin() + static_cast<std::ptrdiff_t>(at);
    switch (proof.empty() ? 3 : random() % 4) {
      case 0:
        (*place).bytes[random() % 32] ^= static_cast<std::uint8_t>(1u << (random() % 8));
        return;
      case 1:
        proof.erase(place);
        return;
      case 2:
        proof.insert(place, *place);
        return;
      default:
        proof.push_back(leaves[random() % leaves.size()]);
        return;
    }
  };
  for (int i = 0; i < 5'000; ++i) {
    const std::size_t n = 2 + random() % 69;
    const std::size_t m = random() % n;
    Proof path = inclusion_proof(reader_of(leaves), m, n).value();
    switch (random() % 4) {
      case 0:
        ASSERT_FALSE(verify_inclusion(leaves[(m + 1) % n], m, {n, roots[n]}, path).ok());
        break;
      case 1:
        ASSERT_FALSE(verify_inclusion(leaves[m], (m + 1) % n, {n, roots[n]}, path).ok());
        break;
      case 2:
        ASSERT_FALSE(verify_inclusion(leaves[m], m, {n, roots[n - 1]}, path).ok());
        break;
      default:
        forge(path);
        ASSERT_FALSE(verify_inclusion(leaves[m], m, {n, roots[n]}, path).ok());
    }
    const std::size_t a = 1 + random() % (n - 1);
    Proof growth = consistency_proof(reader_of(leaves), a, n).value();
    switch (random() % 3) {
      case 0:
        ASSERT_FALSE(verify_consistency({a, roots[a - 1]}, {n, roots[n]}, growth).ok());
        break;
      case 1:
        ASSERT_FALSE(verify_consistency({a, roots[a]}, {n, roots[n - 1]}, growth).ok());
        break;
      default:
        forge(growth);
        ASSERT_FALSE(verify_consistency({a, roots[a]}, {n, roots[n]}, growth).ok());
    }
  }
}

}  // namespace
}  // namespace falaj::crypto
