// net/testing/certificate.h — an authority and what it issues, made anew for each test.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "net/tls_options.h"

namespace falaj::net::testing {

// Signs whatever it is told to; `crypto` has the careful one, which `net` may not include.
class TestAuthority {
 public:
  TestAuthority() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), own_(X509_new(), X509_free) {
    fill(own_.get(), key_.get(), {.names = nullptr, .constraints = "critical,CA:TRUE"});
  }

  struct Leaf {
    const char* names = "DNS:localhost,IP:127.0.0.1";
    const char* constraints = "critical,CA:FALSE";
    long from = -3600;  // Seconds from now.
    long until = 3600;
  };
  TlsIdentity issue(const Leaf& leaf) {
    const KeyPtr key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const X509Ptr certificate(X509_new(), X509_free);
    fill(certificate.get(), key.get(), leaf);
    return {pem(certificate.get()) + pem(), pem(key.get())};
  }
  std::string pem() const { return pem(own_.get()); }
  // Of the authority: "sha256:…".
  std::string pin() const {
    unsigned char digest[32];
    X509_digest(own_.get(), EVP_sha256(), digest, nullptr);
    std::string text = "sha256:";
    for (const unsigned char byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }
  // Writes the authority's certificate to a file in `folder`; returns its path.
  std::string file_in(const std::string& folder) const {
    const std::string path = folder + "/ca.pem";
    std::ofstream(path) << pem();
    return path;
  }

 private:
  using KeyPtr = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
  using X509Ptr = std::unique_ptr<X509, void (*)(X509*)>;

  void fill(X509* x, EVP_PKEY* key, const Leaf& leaf) {
    X509_set_version(x, X509_VERSION_3);
    const int serial = ++serial_;
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
    X509_gmtime_adj(X509_getm_notBefore(x), leaf.from);
    X509_gmtime_adj(X509_getm_notAfter(x), leaf.until);
    X509_set_pubkey(x, key);
    const auto* text = reinterpret_cast<const unsigned char*>(serial == 1 ? "authority" : "leaf");
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, text, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(own_.get()));
    const std::pair<int, const char*> extensions[] = {{NID_subject_alt_name, leaf.names},
                                                      {NID_basic_constraints, leaf.constraints}};
    for (const auto& [nid, value] : extensions) {
      if (value == nullptr) continue;
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
      X509_add_ext(x, extension, -1);
      X509_EXTENSION_free(extension);
    }
    EXPECT_GT(X509_sign(x, key_.get(), EVP_sha256()), 0);
  }

  template <typename Write>
  static std::string written(const Write& write) {
    BIO* bio = BIO_new(BIO_s_mem());
    EXPECT_EQ(write(bio), 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
  }
  static std::string pem(X509* x) {
    return written([x](BIO* bio) { return PEM_write_bio_X509(bio, x); });
  }
  static std::string pem(EVP_PKEY* key) {
    return written([key](BIO* bio) {
      return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    });
  }

  KeyPtr key_;
  X509Ptr own_;
  std::atomic<int> serial_ = 0;  // tests of both ends issue from a thread each
};

}  // namespace falaj::net::testing
