#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "app/wiring.h"
#include "base/log.h"
#include "net/address.h"

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

// Both, or an identity that is empty when no file is named.
Result<net::TlsIdentity> read_identity(const TlsFiles& files) {
  net::TlsIdentity identity;
  if (files.chain.empty() && files.key.empty()) return identity;
  identity.chain_pem = FALAJ_TRY(read_pem(files.chain, "server.tls_cert"));
  identity.key_pem = FALAJ_TRY(read_pem(files.key, "server.tls_key"));
  return identity;
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || net::is_loopback_address(host);
}

// A host name that a certificate may hold, or "" (a container's name may be anything).
std::string machine_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string_view text = name.data();
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.';
  });
  return plain && !text.starts_with('.') && !text.ends_with('.') ? std::string(text) : "";
}

// Every name and address by which clients may reach this server.
Result<crypto::CertificateAuthority::ServerNames> server_names(const Options& options) {
  std::vector<std::string> all{"localhost", "127.0.0.1", "::1", machine_name()};
  if (net::is_wildcard_address(options.http.host)) {
    for (std::string& address : net::local_addresses()) all.push_back(std::move(address));
  } else {
    all.push_back(options.http.host);
  }
  if (!options.listen.public_url.empty()) {
    all.push_back(FALAJ_TRY(net::host_of_url(options.listen.public_url)));
  }
  crypto::CertificateAuthority::ServerNames names;
  for (const std::string& each : all) {
    auto& list = net::is_address(each) ? names.addresses : names.dns_names;
    if (!each.empty() && std::find(list.begin(), list.end(), each) == list.end()) {
      list.push_back(each);
    }
  }
  return names;
}

net::TlsIdentity identity_of(const crypto::Credential& credential) {
  return {credential.chain_pem, std::string(credential.key_pem.view())};
}

}  // namespace

Result<Tls> wire_tls(const Options& options, Storage& storage, const Clock& clock) {
  Tls tls;
  tls.files = options.listen.files;
  tls.from_files = FALAJ_TRY(read_identity(tls.files));
  if (options.listen.mode == ListenOptions::Mode::kLoopback) return tls;
  security::CertificatesOptions made;
  made.folder = options.data_folder + "/tls";
  made.trust_domain = options.listen.trust_domain;
  made.names = FALAJ_TRY(server_names(options));
  const crypto::SecretBytes key = FALAJ_TRY(storage.keys.tree->store_key("authority"));
  tls.certificates =
      FALAJ_TRY(security::Certificates::open(made, key, *storage.sql, *storage.audit, clock));
  return tls;
}

net::ServerTls Tls::server() const {
  net::ServerTls server;
  server.identity = from_files;
  if (certificates == nullptr) return server;
  if (from_files.chain_pem.empty()) server.identity = identity_of(certificates->server());
  server.client_authorities_pem = certificates->authority_pem();
  server.peer_name =
      [domain = certificates->trust_domain()](std::string_view certificate) -> Result<std::string> {
    return FALAJ_TRY(crypto::peer_spiffe_id(certificate, domain)).text();
  };
  return server;
}

Status Tls::tick(net::Server& server, net::GrpcServer* grpc) {
  const auto renew = [&](const net::TlsIdentity& identity) -> Status {
    FALAJ_TRY(server.renew(identity));
    return grpc == nullptr ? Status() : grpc->renew(identity);
  };
  if (from_files.chain_pem.empty()) {
    if (certificates == nullptr) return {};
    const auto done = FALAJ_TRY(certificates->tick());
    if (done == security::Certificates::Tick::kNothing) return {};
    FALAJ_TRY(renew(identity_of(certificates->server())));
  } else {
    net::TlsIdentity now = FALAJ_TRY(read_identity(files));
    if (now.chain_pem == from_files.chain_pem && now.key_pem == from_files.key_pem) return {};
    FALAJ_TRY(renew(now));
    from_files = std::move(now);
  }
  log::info("certificate renewed", {});
  return {};
}

Status check_listening(const Options& options, Administrators administrators) {
  if (is_loopback_host(options.http.host)) return {};
  if (options.listen.mode == ListenOptions::Mode::kLoopback) {
    return Error{ErrorId::kUnsafeListen,
                 "falaj dev will not listen on " + options.http.host +
                     ": it knows one user and speaks plain HTTP; use falaj serve"};
  }
  if (options.keys.vault == KeyOptions::Vault::kFile && options.keys.passphrase_file.empty()) {
    return Error{ErrorId::kVaultSealed,
                 "falaj serve will not listen on " + options.http.host +
                     " with a machine key beside the data: set keys.passphrase_file, or keys.vault "
                     "to pkcs11"};
  }
  if (administrators == Administrators::kSome) return {};
  return Error{ErrorId::kUnsafeListen,
               "falaj serve will not listen on " + options.http.host +
                   " before there is an administrator: start it with server.host=127.0.0.1, open "
                   "the setup link that it prints, then start it again"};
}

}  // namespace falaj::app
