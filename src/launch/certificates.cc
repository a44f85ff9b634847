#include "launch/certificates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/descriptor.h"
#include "base/json.h"
#include "crypto/x509.h"

namespace falaj::launch {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;
// The clock of files ticks in milliseconds: one that was changed this recently may be changed
// again without showing it.
constexpr std::int64_t kSettlingSeconds = 2;

enum class Holds : std::uint8_t { kPublic, kKey };

Error unreadable(const std::string& path) {
  return Error(ErrorId::kFileUnreadable,
               "read the certificates of this launch: '" + path +
                   "' cannot be read, is no file, is empty or is larger than 1 MiB");
}

std::string octal(mode_t mode) {
  std::string text = "0";
  for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + ((mode >> shift) & 7u));
  return text;
}

Result<std::string> text_of(const std::string& path, Holds holds) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return unreadable(path);
  }
  if (holds == Holds::kKey && (info.st_mode & 077) != 0) {
    return Error(Code::kPermissionDenied,
                 "'" + path + "' holds this node's key, and others than its owner may open it (" +
                     octal(info.st_mode) + "): run chmod 600 '" + path +
                     "', and have a new one issued if somebody may have read it");
  }
  std::string text(kFileBytesMax + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size == 0 || size > kFileBytesMax) return unreadable(path);
  text.resize(size);
  return text;
}

// Who this node is.
Result<crypto::SpiffeId> own_id(const std::string& chain_pem, const std::string& path) {
  const crypto::CertificateInfo info = FALAJ_TRY(crypto::read_certificate(chain_pem));
  if (info.uris.size() == 1) return crypto::parse_spiffe_id(info.uris.front());
  return Error(ErrorId::kPeerRefused, "'" + path +
                                          "' holds no certificate with a SPIFFE id: have one made "
                                          "by 'falaj certificates issue'");
}

// The ids that the other end may have. One of another domain would never come.
Status check_peers(const std::vector<std::string>& peers, const std::string& domain) {
  for (const std::string& each : peers) {
    if (FALAJ_TRY(crypto::parse_spiffe_id(each)).trust_domain == domain) continue;
    return Error(ErrorId::kPeerRefused, "the peer '" + each +
                                            "' is of another trust domain than this node's "
                                            "certificate, '" +
                                            domain + "'");
  }
  return {};
}

// The SPIFFE ids of the processes that the server refuses. A list that cannot be understood is none
// of nobody.
Result<std::set<std::string>> revoked_in(const std::string& path) {
  std::set<std::string> out;
  if (path.empty()) return out;
  const auto list = parse_json(FALAJ_TRY(text_of(path, Holds::kPublic)), {kFileBytesMax, 8});
  const Error unclear(Code::kInvalidArgument,
                      "'" + path +
                          "' is no list of processes: write it by 'falaj certificates "
                          "list -o json'");
  if (!list.ok() || !list->is_object() || !(*list)["processes"].is_array()) return unclear;
  for (const Value& each : (*list)["processes"].as_array()) {
    if (!each.is_object() || each.text("id").empty() || !each.as_object().contains("revoked")) {
      return unclear;
    };
    if (!each["revoked"].is_null()) out.insert(each.text("id"));
  }
  return out;
}

std::array<std::int64_t, 2> time_of(const timespec& at) { return {at.tv_sec, at.tv_nsec}; }

}  // namespace

Result<net::MutualTls> read_certificates(const CertificateFiles& files) {
  if (files.certificate.empty() || files.authority.empty()) {
    return Error(Code::kInvalidArgument,
                 "nodes that know each other by certificates need both: a certificate of their own "
                 "and the authority's");
  }
  net::MutualTls out;
  const bool together = files.key.empty();
  out.identity.chain_pem =
      FALAJ_TRY(text_of(files.certificate, together ? Holds::kKey : Holds::kPublic));
  out.identity.key_pem =
      together ? out.identity.chain_pem : FALAJ_TRY(text_of(files.key, Holds::kKey));
  out.authority_pem = FALAJ_TRY(text_of(files.authority, Holds::kPublic));
  const crypto::SpiffeId own = FALAJ_TRY(own_id(out.identity.chain_pem, files.certificate));
  FALAJ_TRY(check_peers(files.peers, own.trust_domain));
  out.peer_name = [domain = own.trust_domain, peers = files.peers,
                   revoked = FALAJ_TRY(revoked_in(files.revoked))](
                      std::string_view certificate) -> Result<std::string> {
    std::string id = FALAJ_TRY(crypto::peer_spiffe_id(certificate, domain)).text();
    if (revoked.contains(id)) return Error(ErrorId::kPeerRefused, "it is " + id + ", revoked");
    if (peers.empty() || std::find(peers.begin(), peers.end(), id) != peers.end()) return id;
    return Error(ErrorId::kPeerRefused, "it is " + id + ", which no --peer names");
  };
  return out;
}

KeptCertificates::KeptCertificates(CertificateFiles files, std::shared_ptr<const Clock> clock)
    : files_(std::move(files)), clock_(std::move(clock)) {}

Result<std::shared_ptr<const net::MutualContext>> KeptCertificates::take(net::TlsSide side) {
  MutexLock lock(mutex_);
  Made& made = made_.at(side == net::TlsSide::kAccepts ? 0 : 1);
  // Before they are read: what changes meanwhile is read again by the next.
  std::vector<Stamp> now = stamps();
  if (made.context != nullptr && made.stamps == now) return made.context;
  made = {};
  const net::MutualTls tls = FALAJ_TRY(read_certificates(files_));
  made.context = FALAJ_TRY(net::MutualContext::make(tls, side));
  if (settled(now)) made.stamps = std::move(now);
  return made.context;
}

KeptCertificates::Stamp KeptCertificates::stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, time_of(info.st_mtim), time_of(info.st_ctim)};
}

std::vector<KeptCertificates::Stamp> KeptCertificates::stamps() const {
  std::vector<Stamp> out;
  for (const std::string* path :
       {&files_.certificate, &files_.key, &files_.authority, &files_.revoked}) {
    if (!path->empty()) out.push_back(stamp_of(*path));
  }
  return out;
}

bool KeptCertificates::settled(const std::vector<Stamp>& stamps) const {
  const std::int64_t latest = clock_->now().nanos / 1'000'000'000 - kSettlingSeconds;
  return std::all_of(stamps.begin(), stamps.end(), [&](const Stamp& each) {
    return each.written[0] < latest && each.changed[0] < latest;
  });
}

}  // namespace falaj::launch
