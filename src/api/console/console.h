// api/console/console.h — the web console, served from inside the binary.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/console/assets.h"
#include "net/router.h"

namespace falaj::api {

// GET "/" and the pages' own addresses answer the document; each embedded file answers under its
// path. Replies carry the best encoding that the client takes (br, gzip, identity), an ETag per
// encoding, and a content security policy that allows this origin only. Files under /assets/ have
// their hash in their name and never expire; the document is asked for again each time and usually
// answered by 304. Handlers run on the event loop: they copy no body and never block.
std::vector<net::Route> console_routes();

// The same for given files, which must outlive the routes.
std::vector<net::Route> console_routes(std::span<const Asset> files);

enum class Encoding : std::uint8_t { kIdentity, kGzip, kBrotli };

// The smallest encoding that an Accept-Encoding header allows. An absent header allows identity.
Encoding best_encoding(std::string_view accept_encoding);

// True when an If-None-Match header names `etag` (with its quotes) or is "*".
bool names_etag(std::string_view if_none_match, std::string_view etag);

}  // namespace falaj::api
