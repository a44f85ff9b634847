// net/testing/certificate.h — a self-signed certificate for 127.0.0.1 and localhost, made anew.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "net/server.h"

namespace falaj::net::testing {

// Writes cert.pem and key.pem into `folder`.
inline TlsFiles make_certificate(const std::string& folder) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509* const x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, key.get());
  X509_NAME* name = X509_get_subject_name(x509);
  const auto* text = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  X509_add_ext(x509, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(x509, key.get(), EVP_sha256());

  const TlsFiles files{folder + "/cert.pem", folder + "/key.pem"};
  std::FILE* file = std::fopen(files.certificate.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, x509), 1);
  std::fclose(file);
  file = std::fopen(files.key.c_str(), "w");
  EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
  return files;
}

}  // namespace falaj::net::testing
