#include <fstream>
#include <iterator>

#include "app/wiring.h"

namespace falaj::app {
namespace {

constexpr std::streamsize kPemBytesMax = 1 << 20;

Result<std::string> read_pem(const std::string& path, std::string_view setting) {
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(kPemBytesMax), '\0');
  if (file) file.read(text.data(), kPemBytesMax);
  if (!file.is_open() || file.gcount() == 0 || file.gcount() == kPemBytesMax) {
    return Error{Code::kInvalidArgument, "cannot read '" + path + "', named by " +
                                             std::string(setting) + " (PEM, less than 1 MiB)"};
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

Result<net::TlsIdentity> read_identity(const TlsFiles& files) {
  net::TlsIdentity identity;
  identity.chain_pem = FALAJ_TRY(read_pem(files.chain, "server.tls_cert"));
  identity.key_pem = FALAJ_TRY(read_pem(files.key, "server.tls_key"));
  return identity;
}

}  // namespace falaj::app
