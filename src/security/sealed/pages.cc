#include "security/sealed/pages.h"

#include <array>
#include <cstring>
#include <utility>

#include "crypto/aead.h"
#include "crypto/kdf.h"

namespace falaj::security::sealed {
namespace {

using storage::PageCipher;
using storage::PagePlace;

constexpr std::size_t kHalf = PageCipher::kFrameHeader / 2;
static_assert(PageCipher::kOverhead == crypto::kSealOverhead);

void put_number(std::string& out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
}

std::string_view text_of(std::span<const unsigned char> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class XaesPageCipher final : public PageCipher {
 public:
  XaesPageCipher(const crypto::SecretBytes& key, const std::string& store, crypto::Random& random)
      : page_key_(crypto::hkdf_sha256(key.view(), "", "falaj/v1/page")),
        header_key_(crypto::hkdf_sha256(key.view(), "", "falaj/v1/frame-header")),
        label_(crypto::Tlv("falaj/v1/page").add(store).str()),
        random_(random) {}

  void seal_page(const PagePlace& place, std::span<const unsigned char> page,
                 std::span<unsigned char> out) const override {
    const std::size_t plain = page.size() - kOverhead;
    unsigned char* const nonce = out.data() + plain;
    random_.fill(nonce, crypto::kXaesNonceBytes);
    crypto::seal_in_place(page_key_, nonce, aad_of(place), text_of(page.first(plain)), out.data(),
                          nonce + crypto::kXaesNonceBytes);
  }

  Status open_page(const PagePlace& place, std::span<const unsigned char> sealed,
                   std::span<unsigned char> out) const override {
    const std::size_t plain = sealed.size() - kOverhead;
    const unsigned char* const nonce = sealed.data() + plain;
    std::memset(out.data() + plain, 0, kOverhead);
    return crypto::open_in_place(page_key_, nonce, aad_of(place), text_of(sealed.first(plain)),
                                 nonce + crypto::kXaesNonceBytes, out.data());
  }

  void hide_header(std::uint64_t offset,
                   std::span<unsigned char, kFrameHeader> header) const override {
    for (int round = 0; round < kRounds; ++round) turn(round, offset, header);
  }

  void show_header(std::uint64_t offset,
                   std::span<unsigned char, kFrameHeader> header) const override {
    for (int round = kRounds - 1; round >= 0; --round) turn(round, offset, header);
  }

 private:
  // A Feistel network over two halves with HMAC as its function: a keyed permutation of exactly
  // these bytes. Even rounds change the left half, odd ones the right.
  static constexpr int kRounds = 4;

  void turn(int round, std::uint64_t offset, std::span<unsigned char, kFrameHeader> header) const {
    unsigned char* const changed = header.data() + (round % 2 == 0 ? 0 : kHalf);
    const unsigned char* const other = header.data() + (round % 2 == 0 ? kHalf : 0);
    std::string message(1, static_cast<char>(round));
    put_number(message, offset);
    message.append(reinterpret_cast<const char*>(other), kHalf);
    const std::string mask = crypto::hmac_sha256(header_key_.view(), message);
    for (std::size_t i = 0; i < kHalf; ++i) changed[i] ^= static_cast<unsigned char>(mask[i]);
  }

  // The label has one length for a store and the rest is fixed: no two places give one text.
  std::string aad_of(const PagePlace& place) const {
    std::string aad;
    aad.reserve(label_.size() + 32);
    aad += label_;
    aad.push_back(static_cast<char>(place.file));
    put_number(aad, place.offset);
    put_number(aad, place.page);
    put_number(aad, place.log_run);
    return aad;
  }

  const crypto::SecretBytes page_key_;
  const crypto::SecretBytes header_key_;
  const std::string label_;
  crypto::Random& random_;
};

}  // namespace

std::shared_ptr<const PageCipher> make_page_cipher(const crypto::SecretBytes& key,
                                                   const std::string& store,
                                                   crypto::Random& random) {
  return std::make_shared<XaesPageCipher>(key, store, random);
}

}  // namespace falaj::security::sealed
