// net/internal/url.h — the parts of a server's address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace falaj::net {

struct Url {
  enum class Scheme : std::uint8_t { kHttp, kHttps };
  Scheme scheme = Scheme::kHttp;
  std::string host;  // Without brackets.
  std::uint16_t port = 0;
  std::string authority;  // As sent in the Host header.
  std::string prefix;     // "/base", or "": no slash at the end.
};

// kInvalidArgument naming the text and an example of what is wanted.
Result<Url> parse_url(std::string_view text);

}  // namespace falaj::net
