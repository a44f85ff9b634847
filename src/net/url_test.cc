#include "net/internal/url.h"

#include <gtest/gtest.h>

namespace falaj::net {
namespace {

TEST(ParseUrl, reads_its_parts) {
  const Url url = parse_url("http://127.0.0.1:7070/").value();
  EXPECT_EQ(url.scheme, Url::Scheme::kHttp);
  EXPECT_EQ(url.host, "127.0.0.1");
  EXPECT_EQ(url.port, 7070);
  EXPECT_EQ(url.authority, "127.0.0.1:7070");
  EXPECT_EQ(url.prefix, "");
  const Url six = parse_url("HTTPS://[::1]:8443/base/").value();
  EXPECT_EQ(six.scheme, Url::Scheme::kHttps);
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, 8443);
  EXPECT_EQ(six.prefix, "/base");
  EXPECT_EQ(parse_url("https://h").value().port, 443);
  EXPECT_EQ(parse_url("http://[::1]").value().port, 80);
}

TEST(ParseUrl, refuses_what_is_no_address) {
  for (const char* text :
       {"", "localhost:7070", "ftp://h", "http://", "http://:80", "http://h:0", "http://h:70000",
        "http://h:x", "http://u:p@h", "http://h/?q", "http://h\n", "http://a b", "http://[::1"}) {
    EXPECT_FALSE(parse_url(text).ok()) << text;
  }
}

}  // namespace
}  // namespace falaj::net
