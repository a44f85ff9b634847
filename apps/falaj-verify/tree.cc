#include "tree.h"

#include <openssl/evp.h>

#include <charconv>
#include <cstdlib>
#include <span>

namespace falaj_verify {
namespace {

struct Digest {
  Digest() : md(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context(EVP_MD_CTX_new()) {
    if (md == nullptr || context == nullptr) std::abort();  // No cryptography, no verdict.
  }
  ~Digest() {
    EVP_MD_CTX_free(context);
    EVP_MD_free(md);
  }
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  EVP_MD* md;
  EVP_MD_CTX* context;
};

// The context is made once a thread: making one costs more than hashing an entry.
Hash hash_parts(std::string_view a, std::string_view b) {
  thread_local const Digest digest;
  Hash out;
  unsigned length = 0;
  const bool ok = EVP_DigestInit_ex2(digest.context, digest.md, nullptr) == 1 &&
                  EVP_DigestUpdate(digest.context, a.data(), a.size()) == 1 &&
                  EVP_DigestUpdate(digest.context, b.data(), b.size()) == 1 &&
                  EVP_DigestFinal_ex(digest.context, out.data(), &length) == 1;
  if (!ok || length != out.size()) std::abort();
  return out;
}

// Climbs from the node at `place` of a level that ends at `last`, by the siblings on its way.
// `whole` becomes the root; `left` what it would be without the nodes to the right. False when the
// way is longer or shorter than the tree is high.
bool climb(std::uint64_t place, std::uint64_t last, std::span<const Hash> way, Hash& left,
           Hash& whole) {
  for (const Hash& sibling : way) {
    if (last == 0) return false;
    if (place % 2 == 1 || place == last) {
      left = node_hash(sibling, left);
      whole = node_hash(sibling, whole);
      while (place % 2 == 0 && place != 0) {
        place /= 2;
        last /= 2;
      }
    } else {
      whole = node_hash(whole, sibling);
    }
    place /= 2;
    last /= 2;
  }
  return last == 0;
}

}  // namespace

Hash sha256(std::string_view bytes) { return hash_parts(bytes, {}); }

Hash leaf_hash(std::string_view entry) { return hash_parts({"\0", 1}, entry); }

Hash node_hash(const Hash& left, const Hash& right) {
  std::array<char, 65> bytes;
  bytes[0] = 1;
  std::copy(left.begin(), left.end(), bytes.begin() + 1);
  std::copy(right.begin(), right.end(), bytes.begin() + 33);
  return hash_parts({bytes.data(), bytes.size()}, {});
}

std::string to_hex(const Hash& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : hash) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::optional<Hash> from_hex(std::string_view hex) {
  Hash hash{};
  if (hex.size() != 2 * hash.size()) return {};
  for (std::size_t i = 0; i < hash.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, hash[i], 16);
  }
  if (to_hex(hash) != hex) return {};  // One text for each hash.
  return hash;
}

void Tree::append(const Hash& leaf) {
  Hash hash = leaf;
  for (std::uint64_t n = size_; n % 2 == 1; n /= 2) {
    hash = node_hash(peaks_.back(), hash);
    peaks_.pop_back();
  }
  peaks_.push_back(hash);
  ++size_;
}

Hash Tree::root() const {
  if (peaks_.empty()) return sha256({});
  Hash root = peaks_.back();
  for (std::size_t i = peaks_.size() - 1; i > 0; --i) root = node_hash(peaks_[i - 1], root);
  return root;
}

bool check_inclusion(const Hash& leaf, std::uint64_t index, std::uint64_t size, const Hash& root,
                     const Proof& proof) {
  Hash unused = leaf;
  Hash whole = leaf;
  return index < size && climb(index, size - 1, proof, unused, whole) && whole == root;
}

bool check_consistency(std::uint64_t size, const Hash& root, std::uint64_t later_size,
                       const Hash& later_root, const Proof& proof) {
  if (size > later_size) return false;
  if (size == later_size) return proof.empty() && root == later_root;
  if (size == 0) return proof.empty() && root == sha256({});
  if (proof.empty()) return false;
  std::uint64_t place = size - 1;
  std::uint64_t last = later_size - 1;
  while (place % 2 == 1) {
    place /= 2;
    last /= 2;
  }
  std::span<const Hash> way = proof;
  const bool power_of_two = (size & (size - 1)) == 0;
  Hash left = power_of_two ? root : way.front();
  if (!power_of_two) way = way.subspan(1);
  Hash whole = left;
  return climb(place, last, way, left, whole) && left == root && whole == later_root;
}

}  // namespace falaj_verify
