#include "net/compression.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "net/text.h"

namespace falaj::net {
namespace {

constexpr std::size_t kRatioMax = 64;
constexpr int kWindowBits = 15;
constexpr int kGzipBits = 16;  // Added to the window: zlib's way to say gzip.
constexpr std::size_t kPart = 64 << 10;

int window_bits(Coding coding) { return kWindowBits + (coding == Coding::kGzip ? kGzipBits : 0); }

Error damaged(std::string_view what) {
  return Error(ErrorId::kInvalidArgument, "the compressed body " + std::string(what));
}

// zlib counts in 32 bits.
Status check_size(std::string_view bytes) {
  if (bytes.size() <= std::numeric_limits<uInt>::max()) return {};
  return Error(ErrorId::kBodyTooLarge, "a body over 4 GiB cannot be compressed");
}

void give(z_stream& stream, std::string_view bytes) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // Only read.
  stream.avail_in = static_cast<uInt>(bytes.size());
}

// Ends the stream whatever way its scope is left.
struct InflateEnd {
  z_stream& stream;
  ~InflateEnd() { ::inflateEnd(&stream); }
};

bool weighs_nothing(std::string_view parameters) {
  const std::size_t q = parameters.find("q=");
  if (q == std::string_view::npos) return false;
  return parameters.substr(q + 2).find_first_of("123456789") == std::string_view::npos;
}

}  // namespace

std::string_view coding_name(Coding coding) {
  switch (coding) {
    case Coding::kGzip:
      return "gzip";
    case Coding::kDeflate:
      return "deflate";
    case Coding::kIdentity:
      break;
  }
  return "identity";
}

std::optional<Coding> parse_coding(std::string_view text) {
  if (text.empty()) return Coding::kIdentity;
  for (const Coding coding : {Coding::kIdentity, Coding::kGzip, Coding::kDeflate}) {
    if (equal_ignoring_case(text, coding_name(coding))) return coding;
  }
  return std::nullopt;
}

Coding accepted_coding(std::string_view accept_encoding) {
  while (!accept_encoding.empty()) {
    const std::size_t comma = std::min(accept_encoding.find(','), accept_encoding.size());
    std::string_view one = accept_encoding.substr(0, comma);
    accept_encoding.remove_prefix(std::min(comma + 1, accept_encoding.size()));
    const std::size_t semicolon = std::min(one.find(';'), one.size());
    std::string_view name = one.substr(0, semicolon);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    const std::optional<Coding> coding = name.empty() ? std::nullopt : parse_coding(name);
    if (coding && *coding != Coding::kIdentity && !weighs_nothing(one.substr(semicolon))) {
      return *coding;
    }
  }
  return Coding::kIdentity;
}

std::size_t inflated_max(std::size_t compressed, std::size_t plain_max) {
  return std::min(plain_max, std::max(plain_max / 4, compressed * kRatioMax));
}

Result<std::string> inflate(std::string_view compressed, Coding coding, std::size_t bytes_max) {
  if (coding == Coding::kIdentity) return std::string(compressed);
  FALAJ_TRY(check_size(compressed));
  z_stream stream{};
  if (::inflateInit2(&stream, window_bits(coding)) != Z_OK) {
    return Error(Code::kInternal, "zlib could not begin");
  }
  const InflateEnd end{stream};
  give(stream, compressed);
  std::string plain;
  while (true) {
    const std::size_t before = plain.size();
    plain.resize(before + kPart);
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + before);
    stream.avail_out = static_cast<uInt>(kPart);
    const int outcome = ::inflate(&stream, Z_NO_FLUSH);
    plain.resize(before + kPart - stream.avail_out);
    if (plain.size() > bytes_max) {
      return Error(ErrorId::kBodyTooLarge, "the compressed body is over " +
                                               std::to_string(bytes_max) +
                                               " bytes when it is unpacked: send it in parts");
    }
    if (outcome == Z_STREAM_END) break;
    if (outcome != Z_OK) {
      return damaged(outcome == Z_BUF_ERROR ? "ends too early" : "is damaged: send it again");
    }
    if (stream.avail_in == 0 && stream.avail_out > 0) return damaged("ends too early");
  }
  if (stream.avail_in > 0) return damaged("is followed by other bytes");
  return plain;
}

Result<std::string> deflate(std::string_view plain, Coding coding) {
  if (coding == Coding::kIdentity) return std::string(plain);
  FALAJ_TRY(check_size(plain));
  z_stream stream{};
  constexpr int kMemoryLevel = 8;
  if (::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window_bits(coding), kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error(Code::kInternal, "zlib could not begin");
  }
  std::string compressed(::deflateBound(&stream, plain.size()), '\0');
  give(stream, plain);
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int outcome = ::deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (outcome != Z_STREAM_END) return Error(Code::kInternal, "zlib could not end");
  return compressed;
}

}  // namespace falaj::net
