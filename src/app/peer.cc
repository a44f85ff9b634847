#include "app/peer.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "crypto/aead.h"
#include "crypto/x509.h"
#include "security/certificates/certificates.h"
#include "storage/small_file.h"

namespace falaj::app {
namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::size_t kReplyBytesMax = 256 << 10;

// Nothing when there is no such file.
Result<std::string> read_if_there(const std::string& path) {
  Result<storage::SmallFile> file = storage::read_small_file(path);
  if (file.ok()) return std::move(file->content);
  if (file.error().code == Code::kNotFound) return std::string();
  return file.error();
}

}  // namespace

Peer::Peer(std::string url, std::string folder, crypto::SecretBytes sealing_key)
    : url_(std::move(url)), folder_(std::move(folder)), sealing_key_(std::move(sealing_key)) {}

Result<std::unique_ptr<Peer>> Peer::open(std::string url, std::string folder,
                                         crypto::SecretBytes sealing_key) {
  ::mkdir(folder.c_str(), 0700);
  std::unique_ptr<Peer> peer(new Peer(std::move(url), std::move(folder), std::move(sealing_key)));
  FALAJ_TRY(peer->take_over());
  FALAJ_TRY(peer->load());
  return peer;
}

std::string Peer::aad() const { return crypto::Tlv("falaj/v1/peer-certificate").str(); }

// Sealed first, then removed: killed in between, the next start does it again.
Status Peer::take_over() {
  const std::string plain = folder_ + "/peer.pem";
  std::string text = FALAJ_TRY(read_if_there(plain));
  if (text.empty()) return {};
  const crypto::SecretBytes pem(text);
  crypto::wipe(text);
  FALAJ_TRY(keep(pem));
  ::unlink(plain.c_str());
  return {};
}

Status Peer::keep(const crypto::SecretBytes& pem) {
  return storage::write_small_file(sealed_path(), crypto::seal(sealing_key_, pem.view(), aad()));
}

Status Peer::load() {
  const std::string sealed = FALAJ_TRY(read_if_there(sealed_path()));
  if (sealed.empty()) return {};
  crypto::SecretBytes pem = FALAJ_TRY(crypto::open_secret(sealing_key_, sealed, aad()));
  const std::size_t last = pem.view().rfind(kBegin);
  if (last == std::string_view::npos) {
    return Error(Code::kInvalidArgument, "'" + sealed_path() + "' holds no certificate");
  }
  const crypto::CertificateInfo own = FALAJ_TRY(crypto::read_certificate(pem.view()));
  const crypto::CertificateInfo authority =
      FALAJ_TRY(crypto::read_certificate(pem.view().substr(last)));
  MutexLock lock(mutex_);
  pem_ = std::move(pem);
  pin_ = "sha256:" + authority.fingerprint;
  due_ = security::renewal_time(own.not_before, own.not_after - own.not_before);
  return {};
}

bool Peer::has_certificate() const {
  MutexLock lock(mutex_);
  return !pem_.empty();
}

Result<std::unique_ptr<net::Client>> Peer::connect(Duration request_timeout) const {
  net::ClientOptions options;
  options.base_url = url_;
  options.request_timeout = request_timeout;
  options.reply_bytes_max = kReplyBytesMax;
  {
    MutexLock lock(mutex_);
    options.tls.authority = pin_;
    options.tls.identity = {std::string(pem_.view()), std::string(pem_.view())};
  }
  Result<std::unique_ptr<net::Client>> client = net::Client::create(options);
  crypto::wipe(options.tls.identity.chain_pem);
  crypto::wipe(options.tls.identity.key_pem);
  return client;
}

Status Peer::tick(Timestamp now) {
  {
    MutexLock lock(mutex_);
    if (now < due_) return {};
  }
  const crypto::CertificateRequest request = FALAJ_TRY(crypto::make_certificate_request());
  Value body;
  body["request"] = request.request_pem;
  const auto client = FALAJ_TRY(connect(Duration::seconds(10)));
  const net::ClientReply reply =
      FALAJ_TRY(client->send(net::Method::kPost, "/api/v1/certificates:renew", to_json(body)));
  if (reply.status != 200) {
    return Error(ErrorId::kPeerRefused, url_ + " does not renew our certificate (" +
                                            std::to_string(reply.status) +
                                            "): have a new one issued into tls/peer.pem");
  }
  const Value made = FALAJ_TRY(parse_json(reply.body));
  std::string both(request.key_pem.view());
  both += made.text("chain");
  const crypto::SecretBytes pem(both);
  crypto::wipe(both);
  FALAJ_TRY(crypto::read_certificate(pem.view()));
  FALAJ_TRY(keep(pem));
  return load();
}

}  // namespace falaj::app
