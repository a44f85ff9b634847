// app/peer.h — how this server speaks to another Falaj (its witness): by a certificate of theirs.
//
// The other's administrator has it issued: `falaj certificates issue NAME --out DATA/tls/peer.pem`.
// The next start seals that file under the key tree (tls/peer.sealed) and removes the plain one.
// From then on it is renewed by means of itself when two thirds of its life have passed.
#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/time.h"
#include "crypto/secret.h"
#include "net/client.h"

namespace falaj::app {

// Thread-safe. Calls block on files and the network.
class Peer {
 public:
  // `folder` is DATA/tls, made if missing. Without a certificate the peer is asked without one, and
  // believed by the system's authorities. FJ-7043 when what is sealed there does not open.
  static Result<std::unique_ptr<Peer>> open(std::string url, std::string folder,
                                            crypto::SecretBytes sealing_key);

  // One connection: shows the certificate and believes the authority that it came from, by its
  // fingerprint. Errors as net::Client.
  Result<std::unique_ptr<net::Client>> connect(Duration request_timeout) const;
  // Renews the certificate if it is time. An error leaves the present one in use.
  Status tick(Timestamp now);
  bool has_certificate() const;
  const std::string& url() const { return url_; }

 private:
  Peer(std::string url, std::string folder, crypto::SecretBytes sealing_key);
  Status take_over();
  Status load();
  Status keep(const crypto::SecretBytes& pem);
  std::string sealed_path() const { return folder_ + "/peer.sealed"; }
  std::string aad() const;

  const std::string url_;
  const std::string folder_;
  const crypto::SecretBytes sealing_key_;
  mutable Mutex mutex_;
  crypto::SecretBytes pem_ FALAJ_GUARDED_BY(mutex_);  // Key, certificate, their authority.
  std::string pin_ FALAJ_GUARDED_BY(mutex_);          // "sha256:…" of that authority.
  Timestamp due_ FALAJ_GUARDED_BY(mutex_) = Timestamp::max();
};

}  // namespace falaj::app
