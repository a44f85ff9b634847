#include "crypto/merkle.h"

#include <bit>

namespace falaj::crypto {
namespace {

// The largest power of two below n; n > 1.
std::uint64_t split_point(std::uint64_t n) { return std::bit_floor(n - 1); }

bool is_full(std::uint64_t n) { return std::has_single_bit(n); }

// The root of leaves [begin, begin + count), where begin is a multiple of the largest power of two
// that count needs: full subtrees are read, their joins computed.
Result<Sha256> range_root(const HashReader& reader, std::uint64_t begin, std::uint64_t count) {
  if (is_full(count)) {
    const auto level = static_cast<unsigned>(std::countr_zero(count));
    return reader(level, begin >> level);
  }
  const std::uint64_t left = split_point(count);
  const Sha256 first = FALAJ_TRY(range_root(reader, begin, left));
  const Sha256 second = FALAJ_TRY(range_root(reader, begin + left, count - left));
  return node_hash(first, second);
}

Error out_of_range(std::uint64_t index, std::uint64_t size) {
  return {ErrorId::kOutOfRange, "the audit tree has " + std::to_string(size) +
                                    " leaves; there is no proof about leaf or size " +
                                    std::to_string(index)};
}

Error invalid(const char* what) {
  return {ErrorId::kProofInvalid, std::string("the proof does not hold: ") + what};
}

// RFC 9162, 2.1.4.1: SUBPROOF, from the top down; collected bottom up.
Status subproof(const HashReader& reader, std::uint64_t begin, std::uint64_t first,
                std::uint64_t count, Proof& proof) {
  bool whole = true;  // `first` still ends at a subtree that the verifier knows by itself.
  struct Sibling {
    std::uint64_t begin;
    std::uint64_t count;
  };
  std::vector<Sibling> siblings;
  while (first != count) {
    const std::uint64_t left = split_point(count);
    if (first <= left) {
      siblings.push_back({begin + left, count - left});
      count = left;
    } else {
      siblings.push_back({begin, left});
      begin += left;
      first -= left;
      count -= left;
      whole = false;
    }
  }
  if (!whole) proof.push_back(FALAJ_TRY(range_root(reader, begin, count)));
  for (auto it = siblings.rbegin(); it != siblings.rend(); ++it) {
    proof.push_back(FALAJ_TRY(range_root(reader, it->begin, it->count)));
  }
  return {};
}

}  // namespace

Sha256 leaf_hash(std::string_view entry) {
  Sha256Hasher hasher;
  hasher.update(std::string_view("\0", 1));
  hasher.update(entry);
  return hasher.finish();
}

Sha256 node_hash(const Sha256& left, const Sha256& right) {
  std::array<char, 65> bytes;
  bytes[0] = 1;
  std::copy(left.bytes.begin(), left.bytes.end(), bytes.begin() + 1);
  std::copy(right.bytes.begin(), right.bytes.end(), bytes.begin() + 33);
  return sha256({bytes.data(), bytes.size()});
}

Sha256 empty_root() { return sha256(""); }

void Frontier::append(const Sha256& leaf) {
  Sha256 hash = leaf;
  // Each trailing one of the old size is a full subtree that the new one completes.
  for (std::uint64_t n = size_; (n & 1) != 0; n >>= 1) {
    hash = node_hash(full_.back(), hash);
    full_.pop_back();
  }
  full_.push_back(hash);
  ++size_;
}

Sha256 Frontier::root() const {
  if (full_.empty()) return empty_root();
  Sha256 root = full_.back();
  for (auto it = full_.rbegin() + 1; it != full_.rend(); ++it) root = node_hash(*it, root);
  return root;
}

Sha256 root_of(const std::vector<Sha256>& leaves) {
  Frontier frontier;
  for (const Sha256& leaf : leaves) frontier.append(leaf);
  return frontier.root();
}

Result<Sha256> root_at(const HashReader& reader, std::uint64_t size) {
  if (size == 0) return empty_root();
  return range_root(reader, 0, size);
}

Result<Proof> inclusion_proof(const HashReader& reader, std::uint64_t index, std::uint64_t size) {
  if (index >= size) return out_of_range(index, size);
  struct Sibling {
    std::uint64_t begin;
    std::uint64_t count;
  };
  std::vector<Sibling> siblings;
  std::uint64_t begin = 0;
  std::uint64_t count = size;
  while (count > 1) {
    const std::uint64_t left = split_point(count);
    if (index - begin < left) {
      siblings.push_back({begin + left, count - left});
      count = left;
    } else {
      siblings.push_back({begin, left});
      begin += left;
      count -= left;
    }
  }
  Proof proof;
  for (auto it = siblings.rbegin(); it != siblings.rend(); ++it) {
    proof.push_back(FALAJ_TRY(range_root(reader, it->begin, it->count)));
  }
  return proof;
}

Result<Proof> consistency_proof(const HashReader& reader, std::uint64_t first,
                                std::uint64_t second) {
  if (first > second) return out_of_range(first, second);
  Proof proof;
  if (first == 0 || first == second) return proof;
  FALAJ_TRY(subproof(reader, 0, first, second, proof));
  return proof;
}

// RFC 9162, 2.1.3.2.
Status verify_inclusion(const Sha256& leaf, std::uint64_t index, const TreeHead& head,
                        const Proof& proof) {
  if (index >= head.size) return invalid("the leaf lies behind the end of the tree");
  std::uint64_t fn = index;
  std::uint64_t sn = head.size - 1;
  Sha256 root = leaf;
  for (const Sha256& hash : proof) {
    if (sn == 0) return invalid("it is longer than the tree is deep");
    if ((fn & 1) != 0 || fn == sn) {
      root = node_hash(hash, root);
      while ((fn & 1) == 0 && fn != 0) {
        fn >>= 1;
        sn >>= 1;
      }
    } else {
      root = node_hash(root, hash);
    }
    fn >>= 1;
    sn >>= 1;
  }
  if (sn != 0) return invalid("it is shorter than the tree is deep");
  if (root != head.root) return invalid("it leads to another root");
  return {};
}

// RFC 9162, 2.1.4.2.
Status verify_consistency(const TreeHead& earlier, const TreeHead& later, const Proof& proof) {
  if (earlier.size > later.size) return invalid("the later tree is the smaller one");
  if (earlier.size == later.size || earlier.size == 0) {
    if (!proof.empty()) return invalid("hashes where none are needed");
    if (earlier.size == 0) {
      return earlier.root == empty_root() ? Status() : invalid("an empty tree with another root");
    }
    return earlier.root == later.root ? Status() : invalid("two roots for one size");
  }
  if (proof.empty()) return invalid("it is empty");
  std::uint64_t fn = earlier.size - 1;
  std::uint64_t sn = later.size - 1;
  while ((fn & 1) != 0) {
    fn >>= 1;
    sn >>= 1;
  }
  auto next = proof.begin();
  // A power of two is its own subtree: the verifier holds that hash already.
  Sha256 first = is_full(earlier.size) ? earlier.root : *next++;
  Sha256 second = first;
  for (; next != proof.end(); ++next) {
    if (sn == 0) return invalid("it is longer than the tree is deep");
    if ((fn & 1) != 0 || fn == sn) {
      first = node_hash(*next, first);
      second = node_hash(*next, second);
      while ((fn & 1) == 0 && fn != 0) {
        fn >>= 1;
        sn >>= 1;
      }
    } else {
      second = node_hash(second, *next);
    }
    fn >>= 1;
    sn >>= 1;
  }
  if (sn != 0) return invalid("it is shorter than the tree is deep");
  if (first != earlier.root) return invalid("the earlier tree is not its beginning");
  if (second != later.root) return invalid("it leads to another later root");
  return {};
}

}  // namespace falaj::crypto
