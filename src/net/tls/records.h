// net/tls/records.h — TLS 1.3 records under TLS_AES_256_GCM_SHA384 (RFC 8446, 5 and 7), after the
// handshake.
//
// OpenSSL shakes hands, proves who is who and does the arithmetic of the cipher; what is here is
// the frame around each message: its number, its nonce, its kind, and the change of keys. Why it is
// ours: docs/adr/0021-own-tls-records.md. Nothing here touches a socket (record_stream.h does).
// Fuzzed by records_fuzz.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

// OpenSSL's own name, so that its headers stay out of this one.
struct evp_cipher_ctx_st;

namespace falaj::net {

inline constexpr std::size_t kRecordHeadBytes = 5;
inline constexpr std::size_t kRecordTagBytes = 16;
inline constexpr std::size_t kRecordContentMax = 16'384;
// Of a whole record: its content, the kind behind it, padding, tag and head.
inline constexpr std::size_t kRecordBytesMax = kRecordHeadBytes + kRecordContentMax + 256;
// What sealing adds to a content.
inline constexpr std::size_t kRecordOverhead = kRecordHeadBytes + 1 + kRecordTagBytes;

// The secret of one direction, from which its keys are made. Wiped in the end.
struct TrafficSecret {
  std::array<unsigned char, 48> bytes{};
  TrafficSecret() = default;
  TrafficSecret(const TrafficSecret&) = default;
  TrafficSecret& operator=(const TrafficSecret&) = default;
  ~TrafficSecret();
};

// RFC 8446, 6.
enum class Alert : std::uint8_t {
  kCloseNotify = 0,
  kUnexpectedMessage = 10,
  kBadRecordMac = 20,
  kRecordOverflow = 22,
  kIllegalParameter = 47,
  kDecodeError = 50,
};

// One direction's key, its record number, and the secret of the keys to come.
class RecordKey {
 public:
  enum class Use : std::uint8_t { kSeal, kOpen };
  RecordKey(const TrafficSecret& secret, Use use);
  ~RecordKey();
  RecordKey(const RecordKey&) = delete;
  RecordKey& operator=(const RecordKey&) = delete;

  // How many records were sealed or opened under this key.
  std::uint64_t records() const { return records_; }
  // The key that a KeyUpdate announces; counts from nought again.
  void next();

  // `head` is what both sides see of the record. Writes `content` and `kind`, sealed, and the tag:
  // content.size() + 1 + 16 bytes.
  void seal(const unsigned char* head, std::string_view content, unsigned char kind,
            unsigned char* out);
  // Writes sealed.size() - 16 bytes. False when this is not the next record, byte for byte; then
  // they are wiped.
  bool open(const unsigned char* head, std::span<const unsigned char> sealed, unsigned char* out);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Nonce = std::array<unsigned char, 12>;
  void make_keys();
  Nonce take_nonce();

  const Use use_;
  TrafficSecret secret_;
  std::unique_ptr<evp_cipher_ctx_st, Free> cipher_;
  Nonce iv_{};
  std::uint64_t records_ = 0;
};

// What the peer sends. One thread at a time.
class RecordReader {
 public:
  explicit RecordReader(const TrafficSecret& secret) : key_(secret, RecordKey::Use::kOpen) {}

  enum class Kind : std::uint8_t {
    kPartial,         // More bytes are needed; nothing was used.
    kNoRoom,          // `out` is too small: needed() bytes would do. Nothing was used.
    kData,            // `bytes` are in `out`; there may be none.
    kKeyUpdate,       // The peer has changed its key, and so has this side's reader.
    kKeyUpdateAsked,  // The same, and it asks for ours.
    kAlert,           // `alert` is what the peer says; it sends nothing after it.
    kBroken,          // `alert` is what to tell it. No more records can be opened.
  };
  struct Opened {
    Kind kind = Kind::kPartial;
    std::size_t used = 0;   // Of the sealed bytes.
    std::size_t bytes = 0;  // In `out`.
    Alert alert{};
  };
  // The first record of `sealed`. Only what was proven is told of: after kBroken `out` holds
  // nothing of it.
  Opened open(std::span<const unsigned char> sealed, std::span<unsigned char> out);

  // Whether the first record is here in full (or begins so wrongly that no more is needed).
  static bool is_whole(std::span<const unsigned char> sealed);
  // How much room the first record needs; its head must be there.
  static std::size_t needed(std::span<const unsigned char> sealed);

 private:
  Opened opened(std::size_t used, std::span<const unsigned char> inner);
  Opened key_update(Opened found, std::span<const unsigned char> content);
  static Opened broken(Alert alert);
  RecordKey key_;
};

// What this side sends. One thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(const TrafficSecret& secret) : key_(secret, RecordKey::Use::kSeal) {}

  // Each writes one record and returns its size: the content's and kRecordOverhead. At most
  // kRecordContentMax at once.
  std::size_t data(std::string_view content, unsigned char* out);
  std::size_t alert(Alert alert, unsigned char* out);
  // Tells the peer of a new key, which every later record is sealed under. Asks for none.
  std::size_t key_update(unsigned char* out);

  // True when the key has sealed so many records that it must be changed before the next.
  bool is_worn() const { return key_.records() >= kRecordsOfKeyMax; }
  // AES-GCM stays safe for 2^24.5 full records (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsOfKeyMax = std::uint64_t{1} << 20;

 private:
  std::size_t record(unsigned char kind, std::string_view content, unsigned char* out);
  RecordKey key_;
};

}  // namespace falaj::net
