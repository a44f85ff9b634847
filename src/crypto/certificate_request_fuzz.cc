// Any bytes as a certificate request, in PEM or as the DER inside one: refused, or a certificate
// with the name that the authority chose and no other.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "crypto/base64.h"
#include "crypto/x509.h"

namespace {

using falaj::Duration;
using falaj::Timestamp;
using falaj::crypto::CertificateAuthority;

void ask(const CertificateAuthority& authority, Timestamp now, std::string_view request) {
  const auto chain = authority.sign_request(request, "/service/fuzz", now, Duration::minutes(5));
  if (!chain.ok()) {
    FALAJ_CHECK(chain.error().code == falaj::Code::kInvalidArgument);
    return;
  }
  const auto made = falaj::crypto::read_certificate(*chain);
  FALAJ_CHECK(made.ok() && !made->is_authority);
  FALAJ_CHECK(made->uris == std::vector<std::string>{"spiffe://falaj.local/service/fuzz"});
  FALAJ_CHECK(made->dns_names.empty() && made->addresses.empty());
  FALAJ_CHECK(made->not_after <= now + Duration::minutes(5));
}

// As PEM has it: mutations of a PEM text hardly ever get past its base64.
std::string in_pem(std::string_view der) {
  const std::string text = falaj::crypto::base64(der);
  std::string pem = "-----BEGIN CERTIFICATE REQUEST-----\n";
  for (std::size_t at = 0; at < text.size(); at += 64) pem += text.substr(at, 64) + "\n";
  return pem + "-----END CERTIFICATE REQUEST-----\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Timestamp now = Timestamp::from_seconds(1'800'000'000);
  static const CertificateAuthority authority =
      CertificateAuthority::create("falaj.local", now).value();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ask(authority, now, bytes);
  ask(authority, now, in_pem(bytes));
  return 0;
}
