// net/path.h — from the bytes of a request line to a path that is safe to route on.
//
// Pure and thread-safe. Fuzzed by router_fuzz.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::net {

struct RequestTarget {         // RFC 9112: what stands behind the method.
  std::string path;            // Decoded; begins with '/'.
  std::string_view query;      // Raw, without '?'; points into the target.
  std::string_view authority;  // Of "http://host:port/path"; "" for the usual form.
};

// Reads an origin-form ("/a?b") or absolute-form ("http://h/a?b") target.
//
// Refused with kInvalidArgument, naming the reason: broken percent encoding, %00 and other control
// characters, an encoded slash or backslash (it would split or join segments behind the router's
// back), `.` and `..` segments however written, bytes that are not UTF-8, a fragment; broken
// encoding, NUL or bytes that are not UTF-8 in the query.
Result<RequestTarget> parse_target(std::string_view target);

// Percent-decodes with '+' as a blank. nullopt for broken encoding or a NUL.
std::optional<std::string> decode_query_text(std::string_view text);

}  // namespace falaj::net
