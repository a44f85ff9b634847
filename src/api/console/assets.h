// api/console/assets.h — the console's files as the build embedded them (tools/embed_console.py).
#pragma once

#include <span>
#include <string_view>

namespace falaj::api {

// Every view lives as long as the program.
struct Asset {
  std::string_view path;          // "/index.html", "/assets/index-D3k2.js"
  std::string_view content_type;  // "text/javascript; charset=utf-8"
  std::string_view etag;          // Hash of the identity bytes, without quotes.
  std::string_view identity;
  std::string_view gzip;
  std::string_view br;
};

// In ascending order of path. The document "/index.html" is always among them.
std::span<const Asset> assets();

}  // namespace falaj::api
