#include "crypto/stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "base/check.h"
#include "crypto/kdf.h"

namespace falaj::crypto {
namespace {

constexpr std::size_t kSaltBytes = 32;
constexpr std::size_t kPrefixBytes = 7;
constexpr std::uint64_t kSegmentsMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kNoSegment = std::numeric_limits<std::uint64_t>::max();
static_assert(kStreamHeaderBytes == 1 + kSaltBytes + kPrefixBytes);

void make_nonce(std::string_view prefix, std::uint64_t index, unsigned char last,
                unsigned char* nonce) {
  std::memcpy(nonce, prefix.data(), kPrefixBytes);
  for (int i = 0; i < 4; ++i) {
    nonce[kPrefixBytes + static_cast<std::size_t>(i)] =
        static_cast<unsigned char>(index >> (24 - 8 * i));
  }
  nonce[kGcmNonceBytes - 1] = last;
}

SecretBytes derive_file_key(const SecretBytes& key, std::string_view salt, std::string_view aad) {
  FALAJ_CHECK(key.size() == kKeyBytes);
  return hkdf_sha256(key.view(), salt, aad);
}

// Takes a segment as it was read: sealed, so nobody need clear or wipe it.
struct SealedBuffer {
  std::unique_ptr<unsigned char[]> bytes =
      std::make_unique_for_overwrite<unsigned char[]>(kSegmentBytes);
  std::span<unsigned char> span() const { return {bytes.get(), kSegmentBytes}; }
};

// How much plaintext a sealed stream of this size holds; kNoSegment if no stream has this size.
std::uint64_t plain_size(std::uint64_t sealed) {
  if (sealed < kStreamHeaderBytes + kTagBytes) return kNoSegment;
  const std::uint64_t segments = (sealed + kSegmentBytes - 1) / kSegmentBytes;
  const std::uint64_t tail = sealed - (segments - 1) * kSegmentBytes;
  if (segments > kSegmentsMax || tail < kTagBytes) return kNoSegment;
  // A last segment is empty only when it is the first: otherwise the one before was the last.
  if (segments > 1 && tail == kTagBytes) return kNoSegment;
  return sealed - kStreamHeaderBytes - segments * kTagBytes;
}

}  // namespace

std::uint64_t sealed_stream_size(std::uint64_t plain) {
  const std::uint64_t with_header = plain + kStreamHeaderBytes;
  const std::uint64_t segments = plain == 0 ? 1 : (with_header + kSegmentPlain - 1) / kSegmentPlain;
  return with_header + segments * kTagBytes;
}

StreamSealer::StreamSealer(const SecretBytes& key, std::string_view aad, Random& random)
    : buffer_(kSegmentPlain) {
  const std::string fresh = random.bytes(kSaltBytes + kPrefixBytes);
  header_ = static_cast<char>(kStreamHeaderBytes) + fresh;
  const SecretBytes file_key =
      derive_file_key(key, std::string_view(fresh).substr(0, kSaltBytes), aad);
  cipher_ = std::make_unique<Aes256Gcm>(file_key.view(), Aes256Gcm::Use::kSeal);
  make_nonce(std::string_view(fresh).substr(kSaltBytes), 0, 0, nonce_);
}

StreamSealer::~StreamSealer() = default;

void StreamSealer::seal_segment(unsigned char last, std::string& out) {
  unsigned char nonce[kGcmNonceBytes];
  make_nonce({reinterpret_cast<const char*>(nonce_), kPrefixBytes}, index_, last, nonce);
  out += header_;
  header_.clear();
  const std::size_t at = out.size();
  out.resize(at + buffered_ + kTagBytes);
  cipher_->seal(nonce, {}, buffer_.view().substr(0, buffered_),
                reinterpret_cast<unsigned char*>(out.data()) + at);
  ++index_;
  buffered_ = 0;
  capacity_ = kSegmentPlain;
}

// A full segment waits until it is known whether it is the last.
Status StreamSealer::append(std::string_view plaintext, std::string& out) {
  while (!plaintext.empty()) {
    if (buffered_ == capacity_) {
      if (index_ + 1 >= kSegmentsMax) {
        return Error{Code::kResourceExhausted, "a sealed stream holds at most 256 TiB"};
      }
      seal_segment(0, out);
    }
    const std::size_t part = std::min(capacity_ - buffered_, plaintext.size());
    std::memcpy(buffer_.data() + buffered_, plaintext.data(), part);
    buffered_ += part;
    plaintext.remove_prefix(part);
  }
  return {};
}

void StreamSealer::finish(std::string& out) {
  seal_segment(1, out);
  cipher_.reset();
}

struct StreamOpener::Slice {
  std::uint64_t segment;
  std::size_t within;  // Offset in the segment's plaintext.
};

StreamOpener::StreamOpener(SecretBytes file_key, std::string prefix, std::uint64_t sealed_size,
                           SealedReadAt read)
    : file_key_(std::move(file_key)),
      prefix_(std::move(prefix)),
      sealed_size_(sealed_size),
      segments_((sealed_size + kSegmentBytes - 1) / kSegmentBytes),
      size_(plain_size(sealed_size)),
      read_(std::move(read)) {}

StreamOpener::~StreamOpener() = default;

std::uint64_t StreamOpener::segment_begin(std::uint64_t index) const {
  return index == 0 ? kStreamHeaderBytes : index * kSegmentBytes;
}

std::uint64_t StreamOpener::segment_end(std::uint64_t index) const {
  return std::min((index + 1) * kSegmentBytes, sealed_size_);
}

Result<std::unique_ptr<StreamOpener>> StreamOpener::open(const SecretBytes& key,
                                                         std::string_view aad,
                                                         std::uint64_t sealed_size,
                                                         SealedReadAt read) {
  if (plain_size(sealed_size) == kNoSegment) return decrypt_failed();
  std::string header(kStreamHeaderBytes, '\0');
  FALAJ_TRY(read(0, {reinterpret_cast<unsigned char*>(header.data()), header.size()}));
  if (header[0] != static_cast<char>(kStreamHeaderBytes)) return decrypt_failed();
  SecretBytes file_key = derive_file_key(key, std::string_view(header).substr(1, kSaltBytes), aad);
  std::unique_ptr<StreamOpener> opener(new StreamOpener(
      std::move(file_key), header.substr(1 + kSaltBytes), sealed_size, std::move(read)));

  Aes256Gcm cipher(opener->file_key_.view(), Aes256Gcm::Use::kOpen);
  SecretBytes plain(kSegmentBytes);
  const std::uint64_t last = opener->segments_ - 1;
  FALAJ_TRY(opener->open_segment(cipher, last, SealedBuffer().span(), plain.data()));
  opener->keep(last, std::move(plain));
  return opener;
}

Status StreamOpener::open_segment(Aes256Gcm& cipher, std::uint64_t index,
                                  std::span<unsigned char> sealed, unsigned char* out) const {
  const std::uint64_t begin = segment_begin(index);
  sealed = sealed.first(static_cast<std::size_t>(segment_end(index) - begin));
  FALAJ_TRY(read_(begin, sealed));
  unsigned char nonce[kGcmNonceBytes];
  make_nonce(prefix_, index, index + 1 == segments_ ? 1 : 0, nonce);
  return cipher.open(nonce, {}, {reinterpret_cast<const char*>(sealed.data()), sealed.size()}, out);
}

StreamOpener::Slice StreamOpener::locate(std::uint64_t offset) const {
  if (offset < kFirstSegmentPlain) return {0, static_cast<std::size_t>(offset)};
  const std::uint64_t behind = offset - kFirstSegmentPlain;
  return {1 + behind / kSegmentPlain, static_cast<std::size_t>(behind % kSegmentPlain)};
}

Status StreamOpener::read_at(std::uint64_t offset, std::span<unsigned char> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Error{Code::kInvalidArgument, "read of " + std::to_string(out.size()) + " bytes at " +
                                             std::to_string(offset) + " in a stream of " +
                                             std::to_string(size_)};
  }
  if (out.empty()) return {};
  Status done = read_pieces(offset, out);
  if (!done.ok()) wipe(out.data(), out.size());
  return done;
}

// True if a kept segment had the piece.
bool StreamOpener::copy_kept(Slice at, std::span<unsigned char> piece) const {
  MutexLock lock(mutex_);
  for (Kept& each : kept_) {
    if (each.used == 0 || each.index != at.segment) continue;
    std::memcpy(piece.data(), each.plain.data() + at.within, piece.size());
    each.used = ++uses_;
    return true;
  }
  return false;
}

// The bytes of the place that was not used for longest, which is empty then; new ones if it never
// had any, or others replace theirs.
SecretBytes StreamOpener::take_oldest() const {
  SecretBytes bytes;
  {
    MutexLock lock(mutex_);
    Kept& oldest = *std::ranges::min_element(kept_, {}, &Kept::used);
    oldest.used = 0;
    bytes = std::move(oldest.plain);
  }
  return bytes.empty() ? SecretBytes(kSegmentBytes) : std::move(bytes);
}

void StreamOpener::keep(std::uint64_t index, SecretBytes plain) const {
  MutexLock lock(mutex_);
  Kept& place = *std::ranges::min_element(kept_, {}, &Kept::used);
  place.plain = std::move(plain);
  place.index = index;
  place.used = ++uses_;
}

Status StreamOpener::open_kept(Aes256Gcm& cipher, Slice at, std::span<unsigned char> sealed,
                               std::span<unsigned char> piece) const {
  SecretBytes plain = take_oldest();
  FALAJ_TRY(open_segment(cipher, at.segment, sealed, plain.data()));
  std::memcpy(piece.data(), plain.data() + at.within, piece.size());
  keep(at.segment, std::move(plain));
  return {};
}

Status StreamOpener::read_pieces(std::uint64_t offset, std::span<unsigned char> out) const {
  std::optional<Aes256Gcm> cipher;
  std::optional<SealedBuffer> sealed;
  while (!out.empty()) {
    const Slice at = locate(offset);
    const auto length =
        static_cast<std::size_t>(segment_end(at.segment) - segment_begin(at.segment) - kTagBytes);
    const std::span<unsigned char> piece = out.first(std::min(out.size(), length - at.within));
    if (!copy_kept(at, piece)) {
      if (!cipher) {
        cipher.emplace(file_key_.view(), Aes256Gcm::Use::kOpen);
        sealed.emplace();
      }
      FALAJ_TRY(piece.size() == length
                    ? open_segment(*cipher, at.segment, sealed->span(), piece.data())
                    : open_kept(*cipher, at, sealed->span(), piece));
    }
    out = out.subspan(piece.size());
    offset += piece.size();
  }
  return {};
}

std::string seal_stream(const SecretBytes& key, std::string_view plaintext, std::string_view aad,
                        Random& random) {
  std::string out;
  out.reserve(sealed_stream_size(plaintext.size()));
  StreamSealer sealer(key, aad, random);
  FALAJ_CHECK(sealer.append(plaintext, out).ok());
  sealer.finish(out);
  return out;
}

Result<std::string> open_stream(const SecretBytes& key, std::string_view sealed,
                                std::string_view aad) {
  const auto opener = FALAJ_TRY(StreamOpener::open(
      key, aad, sealed.size(), [&](std::uint64_t offset, std::span<unsigned char> out) -> Status {
        std::memcpy(out.data(), sealed.data() + offset, out.size());
        return {};
      }));
  std::string plain(opener->size(), '\0');
  FALAJ_TRY(opener->read_at(0, {reinterpret_cast<unsigned char*>(plain.data()), plain.size()}));
  return plain;
}

}  // namespace falaj::crypto
