// launch/testing/node_certificates.h — an authority and the files that it gives to nodes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/time.h"
#include "crypto/x509.h"
#include "launch/certificates.h"

namespace falaj::launch {

class NodeCertificates {
 public:
  explicit NodeCertificates(std::string folder, const std::string& domain = "falaj.local")
      : folder_(std::move(folder)),
        domain_(domain),
        authority_(crypto::CertificateAuthority::create(domain, SystemClock().now()).value()) {}

  // As `falaj certificates issue` writes it: the key and the chain in one file. `ago`: how long
  // since it was issued, of an hour's life.
  CertificateFiles node(const std::string& name, Duration ago = {}) const {
    const auto made =
        authority_.issue_process("/service/" + name, SystemClock().now() - ago, Duration::hours(1));
    EXPECT_TRUE(made.ok());
    return {keep(name + ".pem", std::string(made->key_pem.view()) + made->chain_pem),
            "",
            keep("authority.pem", authority_.certificate_pem()),
            {}};
  }
  // Writes a file of its own name, which its owner alone may read; its path.
  std::string keep(const std::string& name, const std::string& text) const {
    std::string path =
        folder_ + "/" + domain_ + "-" + authority_.fingerprint().substr(0, 8) + "-" + name;
    std::ofstream(path) << text;
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  }

 private:
  std::string folder_;
  std::string domain_;
  crypto::CertificateAuthority authority_;
};

}  // namespace falaj::launch
