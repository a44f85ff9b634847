// crypto/stream.h — sealed bytes of any length that can be written in one pass and read anywhere.
//
// On disk: segments of 64 KiB, the last one shorter or full. The first begins with a header: its
// length (40), a 32-byte salt, a 7-byte nonce prefix. The key of the file is HKDF-SHA-256(data key,
// salt, aad); a segment is AES-256-GCM with the nonce prefix ‖ index (32 bits) ‖ last (1 byte). So
// a changed, missing, moved, doubled, foreign or added segment does not open, and neither does a
// file that was cut. Up to 2^32 segments (256 TiB).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"
#include "crypto/aead.h"

namespace falaj::crypto {

inline constexpr std::size_t kSegmentBytes = 65'536;  // On disk, with its tag.
inline constexpr std::size_t kStreamHeaderBytes = 40;
inline constexpr std::size_t kSegmentPlain = kSegmentBytes - kTagBytes;
inline constexpr std::size_t kFirstSegmentPlain = kSegmentPlain - kStreamHeaderBytes;

// How long the sealed form of `plain` bytes is.
std::uint64_t sealed_stream_size(std::uint64_t plain);

// Plaintext in, sealed bytes out, in one pass. Holds one segment of plaintext, wiped in the end.
// The data key may serve many streams (each has its own salt). Not thread-safe.
class StreamSealer {
 public:
  StreamSealer(const SecretBytes& key, std::string_view aad, Random& random = system_random());
  ~StreamSealer();
  StreamSealer(const StreamSealer&) = delete;
  StreamSealer& operator=(const StreamSealer&) = delete;

  // Adds what is ready to `out`: nothing, or whole segments. kResourceExhausted past 256 TiB.
  Status append(std::string_view plaintext, std::string& out);
  // Adds the last segment. The sealer may not be used afterwards.
  void finish(std::string& out);

 private:
  void seal_segment(unsigned char last, std::string& out);

  SecretBytes buffer_;
  std::size_t buffered_ = 0;
  std::size_t capacity_ = kFirstSegmentPlain;  // Of the segment that is being filled.
  std::string header_;                         // Until the first segment took it along.
  unsigned char nonce_[kGcmNonceBytes] = {};
  std::uint64_t index_ = 0;
  std::unique_ptr<Aes256Gcm> cipher_;
};

// Reads sealed bytes at an offset into all of `out`; an error passes through the opener.
using SealedReadAt = std::function<Status(std::uint64_t offset, std::span<unsigned char> out)>;

// Random access to a sealed stream. Nothing is handed out before the tag of its segment was
// checked. Thread-safe if `read` is. Each call opens the segments it touches (about 20 µs each);
// the last few (kKept) that were touched in part are kept, up to 256 KiB, so that small reads near
// each other, by one thread or two, open each of them once.
class StreamOpener {
 public:
  // Checks the header and the last segment, so that a cut or lengthened stream is refused here.
  // FJ-7043, or the error of `read`.
  static Result<std::unique_ptr<StreamOpener>> open(const SecretBytes& key, std::string_view aad,
                                                    std::uint64_t sealed_size, SealedReadAt read);
  ~StreamOpener();

  std::uint64_t size() const { return size_; }  // Of the plaintext.
  // Fills all of `out`; kInvalidArgument when offset + out.size() is past the end. On failure `out`
  // is wiped.
  Status read_at(std::uint64_t offset, std::span<unsigned char> out) const;

 private:
  struct Slice;
  StreamOpener(SecretBytes file_key, std::string prefix, std::uint64_t sealed_size,
               SealedReadAt read);
  Slice locate(std::uint64_t offset) const;
  Status open_segment(Aes256Gcm& cipher, std::uint64_t index, std::span<unsigned char> sealed,
                      unsigned char* out) const;
  bool copy_kept(Slice at, std::span<unsigned char> piece) const;
  Status open_kept(Aes256Gcm& cipher, Slice at, std::span<unsigned char> sealed,
                   std::span<unsigned char> piece) const;
  SecretBytes take_oldest() const;
  void keep(std::uint64_t index, SecretBytes plain) const;
  Status read_pieces(std::uint64_t offset, std::span<unsigned char> out) const;
  std::uint64_t segment_begin(std::uint64_t index) const;  // Sealed offset, behind the header.
  std::uint64_t segment_end(std::uint64_t index) const;

  SecretBytes file_key_;
  std::string prefix_;
  std::uint64_t sealed_size_;
  std::uint64_t segments_;
  std::uint64_t size_;
  SealedReadAt read_;
  static constexpr std::size_t kKept = 4;
  struct Kept {
    std::uint64_t index = 0;
    std::uint64_t used = 0;  // When, by uses_; 0: never, or its bytes are being replaced.
    SecretBytes plain;
  };
  mutable Mutex mutex_;
  mutable std::array<Kept, kKept> kept_ FALAJ_GUARDED_BY(mutex_);
  mutable std::uint64_t uses_ FALAJ_GUARDED_BY(mutex_) = 0;
};

// Whole values, for what fits in memory.
std::string seal_stream(const SecretBytes& key, std::string_view plaintext, std::string_view aad,
                        Random& random = system_random());
Result<std::string> open_stream(const SecretBytes& key, std::string_view sealed,
                                std::string_view aad);

}  // namespace falaj::crypto
