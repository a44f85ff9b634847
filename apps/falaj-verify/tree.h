// The Merkle tree of RFC 9162, for checking only: hashes, roots, and the two kinds of proof.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace falaj_verify {

using Hash = std::array<unsigned char, 32>;

Hash sha256(std::string_view bytes);
Hash leaf_hash(std::string_view entry);
Hash node_hash(const Hash& left, const Hash& right);
std::string to_hex(const Hash& hash);
std::optional<Hash> from_hex(std::string_view hex);

// Grows leaf by leaf; knows the root at every size.
class Tree {
 public:
  void append(const Hash& leaf);
  std::uint64_t size() const { return size_; }
  Hash root() const;

 private:
  std::uint64_t size_ = 0;
  std::vector<Hash> peaks_;
};

using Proof = std::vector<Hash>;

// True if the proof leads from the leaf at `index` to `root` of a tree of `size`.
bool check_inclusion(const Hash& leaf, std::uint64_t index, std::uint64_t size, const Hash& root,
                     const Proof& proof);
// True if the tree (later_size, later_root) begins with the tree (size, root).
bool check_consistency(std::uint64_t size, const Hash& root, std::uint64_t later_size,
                       const Hash& later_root, const Proof& proof);

}  // namespace falaj_verify
