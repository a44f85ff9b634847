// crypto/merkle.h — the Merkle tree of RFC 9162 over SHA-256: hashes, roots, proofs and their
// check.
//
// A leaf is SHA-256(0x00 ‖ entry), a node SHA-256(0x01 ‖ left ‖ right). The tree of n leaves splits
// at the largest power of two below n, so appending never changes the hash of a full subtree: what
// was signed for n leaves stays provable for ever. Everything here is pure; nothing keeps state but
// Frontier. Not thread-safe, not shared.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace falaj::crypto {

Sha256 leaf_hash(std::string_view entry);
Sha256 node_hash(const Sha256& left, const Sha256& right);
// The root of a tree without leaves: SHA-256 of nothing.
Sha256 empty_root();

// The right edge of a tree: enough to append and to know the root, in O(log n) memory. Appending
// costs two hashes on average.
class Frontier {
 public:
  void append(const Sha256& leaf);
  std::uint64_t size() const { return size_; }
  Sha256 root() const;

 private:
  std::uint64_t size_ = 0;
  std::vector<Sha256> full_;  // Roots of the full subtrees, largest first: one per bit of size_.
};

// The root of a list of leaf hashes; the naive definition made iterative.
Sha256 root_of(const std::vector<Sha256>& leaves);

// The hash of the full subtree of 2^level leaves that begins at leaf index * 2^level.
using HashReader = std::function<Result<Sha256>(unsigned level, std::uint64_t index)>;
using Proof = std::vector<Sha256>;

// The longest proof that a tree of 2^63 leaves can need, for bounding what comes from outside.
inline constexpr std::size_t kProofMax = 128;

// The root of the first `size` leaves.
Result<Sha256> root_at(const HashReader& reader, std::uint64_t size);
// That leaf `index` (from 0) is in the tree of `size` leaves. kOutOfRange if it cannot be.
Result<Proof> inclusion_proof(const HashReader& reader, std::uint64_t index, std::uint64_t size);
// That the tree of `second` leaves begins with the tree of `first`. kOutOfRange if first > second.
// Empty for first == second and for first == 0.
Result<Proof> consistency_proof(const HashReader& reader, std::uint64_t first,
                                std::uint64_t second);

struct TreeHead {
  std::uint64_t size = 0;
  Sha256 root{};
  bool operator==(const TreeHead&) const = default;
};

// FJ-7052 unless the proof shows `leaf` at `index` of the tree `head`.
Status verify_inclusion(const Sha256& leaf, std::uint64_t index, const TreeHead& head,
                        const Proof& proof);
// FJ-7052 unless the proof shows that `later` begins with `earlier`.
Status verify_consistency(const TreeHead& earlier, const TreeHead& later, const Proof& proof);

}  // namespace falaj::crypto
