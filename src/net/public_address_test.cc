#include "net/address.h"

#include <gtest/gtest.h>

namespace falaj::net {
namespace {

TEST(Address, only_what_everybody_routes_is_public) {
  for (const char* text :
       {"8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"}) {
    EXPECT_TRUE(is_public_address(text)) << text;
  }
  for (const char* text : {"127.0.0.1",
                           "10.1.2.3",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1",
                           "169.254.169.254",
                           "100.64.0.1",
                           "0.0.0.0",
                           "224.0.0.1",
                           "255.255.255.255",
                           "198.18.0.1",
                           "192.0.2.1",
                           "::",
                           "::1",
                           "fe80::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "64:ff9b::a9fe:a9fe",
                           "2002:7f00:1::",
                           "2001:0:1::",
                           "2001:db8::1",
                           "2130706433",
                           "localhost",
                           "",
                           "8.8.8.8:443"}) {
    EXPECT_FALSE(is_public_address(text)) << text;
  }
}

}  // namespace
}  // namespace falaj::net
