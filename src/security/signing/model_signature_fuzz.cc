// Any bytes as a signature bundle: refused, unless somebody has our key.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "security/signing/model_signature.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace falaj;
  static const auto key = crypto::PrivateKey::generate(crypto::KeyType::kP256).value();
  static const std::vector<crypto::PublicKey> signers{key.public_key()};
  const std::string_view bundle(reinterpret_cast<const char*>(data), size);
  FALAJ_CHECK(!security::verify_model(bundle, signers).ok());
  return 0;
}
