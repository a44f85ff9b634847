// launch/channel.h — messages between the nodes of a launch: JSON values, sealed, with heartbeats.
//
// Whoever commands a node runs programs on it, so both ends must know one secret. Each says a nonce
// in clear; the keys of the two directions follow from both nonces and the secret, and every frame
// is sealed under its direction and number. Nobody without the secret can read, change, repeat,
// reorder or start anything. The end of the line is noticed at once, silence after a while.
//
// With certificates all of this runs inside TLS 1.3, both ends having proven who they are: then the
// secret says which launch is meant, and what it sealed stays sealed when it becomes known later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/time.h"
#include "base/value.h"
#include "launch/certificates.h"

namespace falaj::launch {

struct ChannelOptions {
  std::string secret;                                   // At least 16 bytes.
  Duration beat = Duration::milliseconds(300);          // How often a sign of life is sent.
  Duration silence_max = Duration::milliseconds(1200);  // After this long without one, it is lost.
  Duration handshake_max = Duration::seconds(5);
  // Null: the secret alone is what the ends know each other by.
  std::shared_ptr<KeptCertificates> certificates{};
};

enum class Side : std::uint8_t { kListener, kJoiner };

class Channel {
 public:
  static constexpr std::size_t kFrameBytesMax = 16u << 20;
  static constexpr std::size_t kSecretBytesMin = 16;

  // Takes a connected socket and shakes hands. kFailedPrecondition when the other end does not know
  // the secret, kUnavailable when it says nothing in time or is no node of ours; with certificates
  // FJ-7018 when it shows none that is believed, or does not believe ours.
  static Result<std::unique_ptr<Channel>> open(Descriptor socket, Side side,
                                               const ChannelOptions& options);
  virtual ~Channel() = default;  // Closes.

  // Thread-safe, whole messages. Waits while the other end does not read. kUnavailable once closed.
  virtual Status send(const Value& message) = 0;
  // The next message. kUnavailable when the other end has closed, kDeadlineExceeded when it was
  // silent for too long, kFailedPrecondition when a frame was tampered with; the channel is closed
  // then. The time between two calls does not count as silence. One thread.
  virtual Result<Value> receive() = 0;
  // Thread-safe: receive() and send() return.
  virtual void close() = 0;
  // Addresses of the two ends, without ports.
  virtual std::string own_address() const = 0;
  virtual std::string peer_address() const = 0;
  // The SPIFFE id of the other end; "" without certificates.
  virtual std::string peer_id() const = 0;
};

// "10.0.0.1:7075" into its parts; kInvalidArgument otherwise. IPv4 only.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};
Result<Endpoint> parse_endpoint(const std::string& text);

// A listening socket; the port is found when it is 0. FJ-8007 when it is taken.
struct Listening {
  Descriptor socket;
  std::uint16_t port = 0;
};
Result<Listening> listen_at(const Endpoint& endpoint);
// Of the other end of a connected socket, without its port.
std::string address_of_peer(int socket);
// A connected socket; tried again until `patience` is over, because the other end may start later.
Result<Descriptor> connect_to(const Endpoint& endpoint, Duration patience);

}  // namespace falaj::launch
