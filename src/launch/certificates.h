// launch/certificates.h — the certificates by which the nodes of a launch know each other.
//
// Each node has one of `falaj certificates issue`: a key, a chain and a SPIFFE id as its only URI.
// Who shows none, one of another authority or of another trust domain, or one that has expired is
// no node, whatever secret it knows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "net/mutual_tls.h"

namespace falaj::launch {

// All empty: no certificates. Otherwise certificate and authority are needed.
struct CertificateFiles {
  std::string certificate;           // PEM: the chain, leaf first.
  std::string key;                   // PEM; "": it stands in `certificate` too.
  std::string authority;             // PEM: who vouches for every node.
  std::vector<std::string> peers{};  // SPIFFE ids that the other end may have; none: any of the
                                     // domain.
  std::string revoked{};  // As `falaj certificates list -o json` prints it: whoever was revoked
                          // there is refused here. "": nobody is known to be.

  bool any() const {
    return !certificate.empty() || !key.empty() || !authority.empty() || !peers.empty() ||
           !revoked.empty();
  }
};

// Reads them. FJ-1015 for a file that cannot be read, FJ-7018 when the certificate holds no SPIFFE
// id or a peer is none of its trust domain, kPermissionDenied when anybody but its owner may open
// the file of the key, kInvalidArgument when one that is needed is not named or `revoked` is no
// such list.
Result<net::MutualTls> read_certificates(const CertificateFiles& files);

// What the files say, made ready for connections: read again when one of them has changed, for
// certificates live an hour at most and are renewed in place. Thread-safe.
class KeptCertificates {
 public:
  explicit KeptCertificates(CertificateFiles files,
                            std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());

  // For the next connection. Errors of read_certificates() and MutualContext::make(): what was
  // read before counts no longer. Costs a look at each file while none has changed.
  Result<std::shared_ptr<const net::MutualContext>> take(net::TlsSide side);

 private:
  // By which a file that was changed or replaced is told from the one that was read.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    // Seconds and nanoseconds, as the system has them; changed also by chmod.
    std::array<std::int64_t, 2> written{};
    std::array<std::int64_t, 2> changed{};
    bool operator==(const Stamp&) const = default;
  };
  struct Made {
    std::shared_ptr<const net::MutualContext> context;
    std::vector<Stamp> stamps;  // None: they were so new that they are read again.
  };
  static Stamp stamp_of(const std::string& path);
  std::vector<Stamp> stamps() const;
  bool settled(const std::vector<Stamp>& stamps) const;

  const CertificateFiles files_;
  const std::shared_ptr<const Clock> clock_;
  Mutex mutex_;
  std::array<Made, 2> made_ FALAJ_GUARDED_BY(mutex_);  // By side; a launch uses one of them.
};

}  // namespace falaj::launch
