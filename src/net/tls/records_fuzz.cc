// TLS records under libFuzzer: bytes of the network never open, and bytes that a peer with the keys
// seals are either data, given back as they were, or an end.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "net/tls/records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj::net;
  using Kind = RecordReader::Kind;
  static const TrafficSecret kSecret;
  std::vector<unsigned char> out(kRecordBytesMax);
  RecordReader stranger(kSecret);
  const auto guessed = stranger.open({data, size}, out);
  // Nobody guesses sixteen bytes of a tag.
  if (guessed.kind != Kind::kPartial && guessed.kind != Kind::kBroken) std::abort();

  // The same bytes as a peer's content and kind, padding and all.
  if (size == 0 || size > kRecordContentMax + 200) return 0;
  const std::size_t length = size + kRecordTagBytes;
  std::vector<unsigned char> record(kRecordHeadBytes + length);
  const unsigned char head[] = {23, 3, 3, static_cast<unsigned char>(length >> 8),
                                static_cast<unsigned char>(length)};
  std::memcpy(record.data(), head, sizeof head);
  RecordKey peer(kSecret, RecordKey::Use::kSeal);
  const std::string_view content(reinterpret_cast<const char*>(data), size - 1);
  peer.seal(head, content, data[size - 1], record.data() + kRecordHeadBytes);
  RecordReader reader(kSecret);
  const auto opened = reader.open(record, out);
  if (opened.kind == Kind::kPartial || opened.kind == Kind::kNoRoom) std::abort();
  if (opened.kind == Kind::kBroken) return 0;
  if (opened.used != record.size() || opened.bytes >= size) std::abort();
  if (opened.kind == Kind::kData && std::memcmp(out.data(), data, opened.bytes) != 0) std::abort();
  return 0;
}
