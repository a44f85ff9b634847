#include "api/console/console.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "net/text.h"

namespace falaj::api {
namespace {

constexpr std::string_view kDocument = "/index.html";
constexpr std::string_view kPages[] = {"/", "/models", "/drift", "/audit", "/setup"};
constexpr std::string_view kHashedFolder = "/assets/";

// Nothing but this origin's files and calls; no inline script or style, no frame, no form target.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes the part before the next separator off the front of `rest`.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = trimmed(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

// "q=0", "q=0.0": refused. A malformed weight counts as accepted, as browsers never send one.
bool is_refused(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view parameter = next_part(parameters, ';');
    if (parameter.size() < 3 || net::ascii_lower(parameter[0]) != 'q' || parameter[1] != '=') {
      continue;
    }
    return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
  }
  return false;
}

std::string etag_of(const Asset& file, Encoding encoding) {
  std::string etag = "\"" + std::string(file.etag);
  if (encoding == Encoding::kBrotli) etag += "-br";
  if (encoding == Encoding::kGzip) etag += "-gz";
  return etag + "\"";
}

std::string_view bytes_of(const Asset& file, Encoding encoding) {
  switch (encoding) {
    case Encoding::kBrotli:
      return file.br;
    case Encoding::kGzip:
      return file.gzip;
    case Encoding::kIdentity:
      break;
  }
  return file.identity;
}

net::Response serve(const Asset& file, const net::Request& request) {
  const Encoding encoding = best_encoding(net::find_header(request.headers, "Accept-Encoding"));
  const std::string etag = etag_of(file, encoding);
  net::Response response;
  response.content_type = file.content_type;
  response.headers = {
      {"ETag", etag},
      {"Vary", "Accept-Encoding"},
      {"Cache-Control",
       file.path.starts_with(kHashedFolder) ? "public, max-age=31536000, immutable" : "no-cache"},
      {"Content-Security-Policy", std::string(kPolicy)},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  if (names_etag(net::find_header(request.headers, "If-None-Match"), etag)) {
    response.status = 304;
    return response;
  }
  if (encoding != Encoding::kIdentity) {
    response.headers.emplace_back("Content-Encoding",
                                  encoding == Encoding::kBrotli ? "br" : "gzip");
  }
  response.static_body = bytes_of(file, encoding);
  return response;
}

net::Route route_to(std::string_view path, const Asset& file, std::string_view summary) {
  net::Route route(net::Method::kGet, path, net::Permission::anyone(), net::Target::nothing(),
                   summary, [&file](const net::Request& request) { return serve(file, request); });
  route.runs_on = net::RunsOn::kLoop;
  route.dialect = "console";
  return route;
}

}  // namespace

Encoding best_encoding(std::string_view accept_encoding) {
  Encoding best = Encoding::kIdentity;
  while (!accept_encoding.empty()) {
    std::string_view item = next_part(accept_encoding, ',');
    const std::string_view name = next_part(item, ';');
    if (is_refused(item)) continue;
    if (net::equal_ignoring_case(name, "br")) best = Encoding::kBrotli;
    if (net::equal_ignoring_case(name, "gzip")) best = std::max(best, Encoding::kGzip);
  }
  return best;
}

bool names_etag(std::string_view if_none_match, std::string_view etag) {
  while (!if_none_match.empty()) {
    std::string_view candidate = next_part(if_none_match, ',');
    if (candidate.starts_with("W/")) candidate.remove_prefix(2);
    if (candidate == etag || candidate == "*") return true;
  }
  return false;
}

std::vector<net::Route> console_routes(std::span<const Asset> files) {
  std::vector<net::Route> routes;
  const auto document =
      std::find_if(files.begin(), files.end(), [](const Asset& f) { return f.path == kDocument; });
  FALAJ_CHECK(document != files.end());
  for (const std::string_view page : kPages) {
    routes.push_back(route_to(page, *document, "A page of the web console."));
  }
  for (const Asset& file : files) {
    if (file.path == kDocument) continue;
    routes.push_back(route_to(file.path, file, "A file of the web console."));
  }
  return routes;
}

std::vector<net::Route> console_routes() { return console_routes(assets()); }

}  // namespace falaj::api
