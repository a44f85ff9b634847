// net/compression.h — bodies in gzip and deflate (zlib, hidden), bounded in both directions.
//
// Pure functions over outside bytes. Fuzzed by compression_fuzz.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::net {

// kDeflate is zlib's format, as HTTP defines it.
enum class Coding : std::uint8_t { kIdentity, kGzip, kDeflate };
std::string_view coding_name(Coding coding);  // "gzip"

// A Content-Encoding: one coding, any case; "" is the identity. nullopt: not known here.
std::optional<Coding> parse_coding(std::string_view text);
// The first of "gzip" and "deflate" that an Accept-Encoding lists and does not weigh with 0.
Coding accepted_coding(std::string_view accept_encoding);

// The most that `compressed` bytes may become where a plain body may have `plain_max`: 64 times as
// many or a quarter of `plain_max`, whichever is more, and never over it. What a small bomb can
// fill is bounded by this.
std::size_t inflated_max(std::size_t compressed, std::size_t plain_max);

// FJ-1009 past `bytes_max`; kInvalidArgument when it is damaged, cut short or followed by more.
Result<std::string> inflate(std::string_view compressed, Coding coding, std::size_t bytes_max);
// At the quickest level.
Result<std::string> deflate(std::string_view plain, Coding coding);

}  // namespace falaj::net
