#include "launch/channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>

#include "base/json.h"
#include "base/mutex.h"
#include "crypto/aead.h"
#include "crypto/kdf.h"
#include "net/mutual_tls.h"

namespace falaj::launch {
namespace {

constexpr std::string_view kGreeting = "FALAJLN1";
constexpr std::size_t kNonceBytes = 32;
constexpr std::string_view kBeat;  // An empty message is a sign of life and nothing else.

Error closed() { return Error(Code::kUnavailable, "the other node has closed the connection"); }

Error silent() { return Error(Code::kDeadlineExceeded, "the other node is silent"); }

std::string length_bytes(std::size_t size) {
  const std::uint32_t number = htonl(static_cast<std::uint32_t>(size));
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

std::string address_text(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

// What the sealed frames go over. One thread reads while another writes.
class Line {
 public:
  virtual ~Line() = default;
  virtual Status write(std::string_view bytes) = 0;
  // At least one byte; kUnavailable at the end of the line, kDeadlineExceeded past `until`.
  virtual Result<std::size_t> read(std::span<char> into, std::int64_t until) = 0;
  virtual int socket() const = 0;
  virtual std::string peer_id() const = 0;
};

class PlainLine final : public Line {
 public:
  explicit PlainLine(Descriptor socket) : socket_(std::move(socket)) {}

  Status write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return closed();
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
  }
  Result<std::size_t> read(std::span<char> into, std::int64_t until) override {
    while (true) {
      const std::int64_t left = (until - monotonic_nanos()) / 1'000'000;
      pollfd waited{socket_.get(), POLLIN, 0};
      const int ready =
          ::poll(&waited, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0 && left <= 0) return silent();
      if (ready <= 0) continue;
      const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return closed();
      return static_cast<std::size_t>(got);
    }
  }
  int socket() const override { return socket_.get(); }
  std::string peer_id() const override { return ""; }

 private:
  const Descriptor socket_;
};

class CertifiedLine final : public Line {
 public:
  explicit CertifiedLine(std::unique_ptr<net::MutualStream> stream) : stream_(std::move(stream)) {}

  Status write(std::string_view bytes) override { return stream_->write(bytes); }
  Result<std::size_t> read(std::span<char> into, std::int64_t until) override {
    Result<std::size_t> got = stream_->read(into, until);
    if (!got.ok() && got.error().code == Code::kDeadlineExceeded) return silent();
    if (got.ok() && *got == 0) return closed();
    return got;
  }
  int socket() const override { return stream_->socket(); }
  std::string peer_id() const override { return stream_->peer(); }

 private:
  const std::unique_ptr<net::MutualStream> stream_;
};

Result<std::unique_ptr<Line>> line_over(Descriptor socket, Side side, const ChannelOptions& options,
                                        std::int64_t until) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (options.certificates == nullptr) {
    return std::unique_ptr<Line>(std::make_unique<PlainLine>(std::move(socket)));
  }
  const auto context = FALAJ_TRY(options.certificates->take(
      side == Side::kListener ? net::TlsSide::kAccepts : net::TlsSide::kConnects));
  auto stream = context->open(std::move(socket), until);
  if (!stream.ok()) return stream.error().within("the other node");
  return std::unique_ptr<Line>(std::make_unique<CertifiedLine>(*std::move(stream)));
}

class SealedChannel final : public Channel {
 public:
  SealedChannel(std::unique_ptr<Line> line, Side side, const ChannelOptions& options)
      : options_(options), side_(side), line_(std::move(line)) {}

  ~SealedChannel() override {
    close();
    {
      MutexLock lock(beating_);
      over_ = true;
    }
    stop_beating_.notify_all();
    if (beats_.joinable()) beats_.join();
  }

  Status shake_hands(std::int64_t until) {
    const std::string own = crypto::system_random().bytes(kNonceBytes);
    const Status greeted = line_->write(std::string(kGreeting) + own);
    // Also if that failed: who refuses this end's certificate says so before it closes.
    const auto heard = read_exactly(kGreeting.size() + kNonceBytes, until);
    if (!heard.ok()) return unheard(heard.error());
    FALAJ_TRY(greeted);
    const std::string& greeting = *heard;
    if (!greeting.starts_with(kGreeting)) {
      return Error(Code::kUnavailable, "what answers there is no node of falaj launch");
    }
    const std::string theirs = greeting.substr(kGreeting.size());
    const bool listener = side_ == Side::kListener;
    const std::string salt = listener ? own + theirs : theirs + own;
    const auto key = [&](bool from_listener) {
      return crypto::hkdf_sha256(options_.secret, salt,
                                 from_listener ? "falaj launch listener" : "falaj launch joiner");
    };
    send_key_ = key(listener);
    receive_key_ = key(!listener);
    // The first frame of each proves the secret. It is empty: no more is read from a stranger.
    FALAJ_TRY(send_frame(kBeat));
    const std::string proof = FALAJ_TRY(receive_frame(until, crypto::kSealOverhead));
    beats_ = std::thread([this] { keep_beating(); });
    return {};
  }

  Status send(const Value& message) override { return send_frame(to_json(message)); }

  Result<Value> receive() override {
    while (true) {
      Result<std::string> frame = receive_frame(monotonic_nanos() + options_.silence_max.nanos);
      if (!frame.ok()) {
        close();
        return std::move(frame).error();
      }
      if (frame->empty()) continue;
      auto message = parse_json(*frame, {kFrameBytesMax, 16});
      if (!message.ok()) close();
      return message;
    }
  }

  void close() override { ::shutdown(line_->socket(), SHUT_RDWR); }

  std::string own_address() const override {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(line_->socket(), reinterpret_cast<sockaddr*>(&address), &size);
    return address_text(address);
  }
  std::string peer_address() const override { return address_of_peer(line_->socket()); }
  std::string peer_id() const override { return line_->peer_id(); }

 private:
  static std::string bound_to(std::uint64_t number) {
    return crypto::Tlv("falaj/launch/frame").add(number).str();
  }

  Status send_frame(std::string_view text) {
    if (text.size() > kFrameBytesMax - crypto::kSealOverhead) {
      return Error(Code::kResourceExhausted, "a message between nodes is over 16 MiB");
    }
    MutexLock lock(sending_);
    const std::string sealed = crypto::seal(send_key_, text, bound_to(sent_++));
    return line_->write(length_bytes(sealed.size()) + sealed);
  }

  Result<std::string> receive_frame(std::int64_t until, std::size_t bytes_max = kFrameBytesMax) {
    const std::string head = FALAJ_TRY(read_exactly(sizeof(std::uint32_t), until));
    std::uint32_t size = 0;
    std::memcpy(&size, head.data(), sizeof size);
    size = ntohl(size);
    if (size < crypto::kSealOverhead || size > bytes_max) return not_ours();
    const std::string sealed = FALAJ_TRY(read_exactly(size, until));
    auto opened = crypto::open(receive_key_, sealed, bound_to(received_++));
    if (!opened.ok()) return not_ours();
    return opened;
  }

  // A refusal may be lost on the way when the line is cut behind it.
  Error unheard(Error error) const {
    if (options_.certificates != nullptr && error.code == Code::kUnavailable) {
      error.message += "; if it refuses this one's certificate, its own words say why";
    }
    return error;
  }

  static Error not_ours() {
    return Error(Code::kFailedPrecondition,
                 "the other node does not know the secret of this launch; give both the same "
                 "--secret file");
  }

  Result<std::string> read_exactly(std::size_t size, std::int64_t until) {
    std::string bytes;
    while (bytes.size() < size) {
      // In pieces, so that a length which nobody sends costs nothing.
      char piece[64 * 1024];
      const std::size_t most = std::min(sizeof piece, size - bytes.size());
      bytes.append(piece, FALAJ_TRY(line_->read(std::span(piece, most), until)));
    }
    return bytes;
  }

  void keep_beating() {
    MutexLock lock(beating_);
    while (!stop_beating_.wait_for(beating_, std::chrono::nanoseconds(options_.beat.nanos),
                                   [this]() FALAJ_REQUIRES(beating_) { return over_; })) {
      if (!send_frame(kBeat).ok()) return;
    }
  }

  const ChannelOptions options_;
  const Side side_;
  const std::unique_ptr<Line> line_;
  crypto::SecretBytes send_key_;
  crypto::SecretBytes receive_key_;
  std::uint64_t received_ = 0;
  Mutex sending_;
  std::uint64_t sent_ FALAJ_GUARDED_BY(sending_) = 0;
  Mutex beating_;
  CondVar stop_beating_;
  bool over_ FALAJ_GUARDED_BY(beating_) = false;
  std::thread beats_;
};

Result<sockaddr_in> socket_address(const Endpoint& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  if (::inet_pton(AF_INET, endpoint.host.c_str(), &address.sin_addr) != 1) {
    return Error(Code::kInvalidArgument, "'" + endpoint.host + "' is no IPv4 address");
  }
  return address;
}

std::string text(const Endpoint& endpoint) {
  return endpoint.host + ":" + std::to_string(endpoint.port);
}

}  // namespace

Result<std::unique_ptr<Channel>> Channel::open(Descriptor socket, Side side,
                                               const ChannelOptions& options) {
  if (options.secret.size() < kSecretBytesMin) {
    return Error(Code::kInvalidArgument, "the secret of a launch has at least 16 characters");
  }
  const std::int64_t until = monotonic_nanos() + options.handshake_max.nanos;
  std::unique_ptr<Line> line = FALAJ_TRY(line_over(std::move(socket), side, options, until));
  auto channel = std::make_unique<SealedChannel>(std::move(line), side, options);
  Status shaken = channel->shake_hands(until);
  if (shaken.ok()) return std::unique_ptr<Channel>(std::move(channel));
  const std::string peer = channel->peer_id();
  return peer.empty() ? std::move(shaken).error() : std::move(shaken).error().within(peer);
}

Result<Endpoint> parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    endpoint.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    const bool number = read.ec == std::errc{} && read.ptr == end;
    if (number && socket_address(endpoint).ok()) return endpoint;
  }
  return Error(Code::kInvalidArgument, "'" + text + "' is not ADDRESS:PORT, as 10.0.0.1:7075");
}

Result<Listening> listen_at(const Endpoint& endpoint) {
  sockaddr_in address = FALAJ_TRY(socket_address(endpoint));
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() || ::bind(socket.get(), any, size) != 0 || ::listen(socket.get(), 128) != 0 ||
      ::getsockname(socket.get(), any, &size) != 0) {
    const std::string what = "listen on " + text(endpoint) + ": " + std::strerror(errno);
    if (errno == EADDRINUSE) return Error(ErrorId::kPortInUse, what);
    return Error(Code::kInvalidArgument, what);
  }
  return Listening{std::move(socket), ntohs(address.sin_port)};
}

std::string address_of_peer(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_text(address);
}

Result<Descriptor> connect_to(const Endpoint& endpoint, Duration patience) {
  const sockaddr_in address = FALAJ_TRY(socket_address(endpoint));
  const std::int64_t until = monotonic_nanos() + patience.nanos;
  while (true) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{5, 0};  // Also of connect().
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const timeval none{0, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
      return socket;
    }
    if (monotonic_nanos() >= until) {
      return Error(Code::kUnavailable,
                   "nobody answers at " + text(endpoint) + ": " + std::strerror(errno));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace falaj::launch
