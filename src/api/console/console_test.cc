#include "api/console/console.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace falaj::api {
namespace {

constexpr Asset kFiles[] = {
    {"/assets/app-1a2b.js", "text/javascript; charset=utf-8", "aaaa", "plain script",
     "zipped script", "br script"},
    {"/index.html", "text/html; charset=utf-8", "bbbb", "plain page", "zipped page", "br page"},
};

net::Response ask(std::string_view path, net::Headers headers) {
  net::Router router;
  for (net::Route& route : console_routes(kFiles)) router.add(std::move(route));
  net::Request request;
  request.path = path;
  request.headers = std::move(headers);
  const net::Match match = router.match(request);
  if (match.route == nullptr) {
    net::Response missing;
    missing.status = 404;
    return missing;
  }
  return match.route->sync_handler(request);
}

std::string_view header(const net::Response& response, std::string_view name) {
  return net::find_header(response.headers, name);
}

TEST(Console, answers_every_page_with_the_document) {
  for (const std::string_view page : {"/", "/models", "/drift", "/audit", "/setup"}) {
    const net::Response response = ask(page, {});
    EXPECT_EQ(response.status, 200) << page;
    EXPECT_EQ(response.static_body, "plain page") << page;
    EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
    EXPECT_EQ(header(response, "Cache-Control"), "no-cache");
  }
  EXPECT_EQ(ask("/secrets", {}).status, 404);
  EXPECT_EQ(ask("/assets/app-0000.js", {}).status, 404);
}

TEST(Console, forbids_other_origins_and_inline_code) {
  const std::string policy(header(ask("/", {}), "Content-Security-Policy"));
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe-inline"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
}

TEST(Console, keeps_hashed_files_for_ever) {
  const net::Response response = ask("/assets/app-1a2b.js", {});
  EXPECT_EQ(response.static_body, "plain script");
  EXPECT_EQ(header(response, "Cache-Control"), "public, max-age=31536000, immutable");
}

TEST(Console, sends_the_smallest_encoding_that_is_taken) {
  const net::Response best = ask("/", {{"accept-encoding", "gzip, deflate, br"}});
  EXPECT_EQ(best.static_body, "br page");
  EXPECT_EQ(header(best, "Content-Encoding"), "br");
  EXPECT_EQ(header(best, "Vary"), "Accept-Encoding");
  EXPECT_EQ(ask("/", {{"Accept-Encoding", "gzip"}}).static_body, "zipped page");
  EXPECT_EQ(ask("/", {{"Accept-Encoding", "br;q=0, gzip;q=0.5"}}).static_body, "zipped page");
  EXPECT_EQ(ask("/", {{"Accept-Encoding", "BR; q=0.000,identity"}}).static_body, "plain page");
  EXPECT_EQ(header(ask("/", {}), "Content-Encoding"), "");
}

TEST(Console, answers_304_to_the_etag_of_the_same_encoding_only) {
  const std::string br(header(ask("/", {{"Accept-Encoding", "br"}}), "ETag"));
  EXPECT_EQ(br, "\"bbbb-br\"");
  const net::Response same = ask("/", {{"Accept-Encoding", "br"}, {"If-None-Match", br}});
  EXPECT_EQ(same.status, 304);
  EXPECT_TRUE(same.static_body.empty());
  EXPECT_EQ(header(same, "ETag"), br);
  const net::Response other = ask("/", {{"Accept-Encoding", "gzip"}, {"If-None-Match", br}});
  EXPECT_EQ(other.status, 200);
}

TEST(Console, reads_lists_of_etags) {
  EXPECT_TRUE(names_etag("\"x\", W/\"y\" ", "\"y\""));
  EXPECT_TRUE(names_etag("*", "\"y\""));
  EXPECT_FALSE(names_etag("\"yy\"", "\"y\""));
  EXPECT_FALSE(names_etag("", "\"y\""));
}

TEST(Console, carries_the_built_files_in_every_encoding) {
  const auto files = assets();
  EXPECT_TRUE(std::is_sorted(files.begin(), files.end(),
                             [](const Asset& a, const Asset& b) { return a.path < b.path; }));
  for (const Asset& file : files) {
    EXPECT_FALSE(file.identity.empty()) << file.path;
    EXPECT_TRUE(file.gzip.starts_with("\x1f\x8b")) << file.path;
    EXPECT_FALSE(file.br.empty()) << file.path;
    EXPECT_EQ(file.etag.size(), 32u) << file.path;
  }
  net::Router router;
  for (net::Route& route : console_routes()) router.add(std::move(route));
  EXPECT_GE(router.routes().size(), files.size());
}

}  // namespace
}  // namespace falaj::api
