#include "net/mutual_tls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/mutex.h"
#include "base/time.h"
#include "net/tls/transport.h"

namespace falaj::net {
namespace {

constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

Error broken(const std::string& why) {
  return Error(Code::kUnavailable, "the connection broke: " + why);
}

class SocketStream final : public MutualStream {
 public:
  explicit SocketStream(Descriptor socket)
      : socket_(std::move(socket)), transport_(socket_.get()) {}

  Status shake_hands(ssl_ctx_st& context, TlsSide side, std::int64_t deadline) {
    const int flags = ::fcntl(socket_.get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      return broken("the socket cannot be used");
    }
    MutexLock lock(using_);
    // The session holds the context by itself.
    transport_ = Transport(socket_.get(), FALAJ_TRY(mutual_session(context, socket_.get(), side)));
    while (true) {
      const IoResult result = transport_.handshake();
      if (result.outcome == IoOutcome::kDone) break;
      if (result.outcome == IoOutcome::kClosed) return ended();
      if (result.outcome == IoOutcome::kFailed) return refused();
      FALAJ_TRY(wait_for(result.outcome, deadline));  // Nobody else has this stream yet.
    }
    peer_ = transport_.peer().name;
    if (!peer_.empty()) return {};
    return Error(ErrorId::kPeerRefused, "the other side showed no certificate");
  }

  Result<std::size_t> read(std::span<char> into, std::int64_t deadline) override {
    while (true) {
      IoResult result;
      {
        MutexLock lock(using_);
        result = transport_.read(into);
        if (result.outcome == IoOutcome::kFailed) return broken(transport_.error_text());
        if (result.outcome == IoOutcome::kClosed && !transport_.error_text().empty()) {
          return ended();
        }
      }
      if (result.outcome == IoOutcome::kDone) return result.bytes;
      if (result.outcome == IoOutcome::kClosed) return std::size_t{0};
      FALAJ_TRY(wait_for(result.outcome, deadline));
    }
  }

  Status write(std::string_view bytes) override {
    while (!bytes.empty()) {
      IoResult result;
      {
        MutexLock lock(using_);
        result = transport_.write(bytes);
        if (result.outcome == IoOutcome::kFailed) return broken(transport_.error_text());
      }
      if (result.outcome == IoOutcome::kClosed) return broken("the other side has ended it");
      if (result.outcome != IoOutcome::kDone) {
        FALAJ_TRY(wait_for(result.outcome, kForEver));
        continue;
      }
      bytes.remove_prefix(std::min(result.bytes, bytes.size()));
    }
    return {};
  }

  void close() override { ::shutdown(socket_.get(), SHUT_RDWR); }
  int socket() const override { return socket_.get(); }
  const std::string& peer() const override { return peer_; }

 private:
  // This side does not believe the other, or what it speaks is something else.
  Error refused() const FALAJ_REQUIRES(using_) {
    const std::string& text = transport_.error_text();
    return Error(ErrorId::kPeerRefused, (transport_.certificate_refused()
                                             ? "the other side is not believed: "
                                             : "no TLS 1.3 with a certificate on each side: ") +
                                            text);
  }
  // The other side has ended it, and may have said why.
  Error ended() const FALAJ_REQUIRES(using_) {
    const std::string& text = transport_.error_text();
    if (text.empty()) return broken("the other side has ended it");
    return Error(ErrorId::kPeerRefused, "the other side refuses this one: " + text);
  }

  Status wait_for(IoOutcome outcome, std::int64_t deadline) const {
    const short events = outcome == IoOutcome::kWantWrite ? POLLOUT : POLLIN;
    while (true) {
      int millis = -1;
      if (deadline != kForEver) {
        const std::int64_t left = (deadline - monotonic_nanos() + 999'999) / 1'000'000;
        if (left <= 0) return Error(Code::kDeadlineExceeded, "the other side is silent");
        millis = static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
      }
      pollfd waited{socket_.get(), events, 0};
      const int ready = ::poll(&waited, 1, millis);
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return broken("the socket cannot be waited for");
    }
  }

  const Descriptor socket_;
  Mutex using_;  // OpenSSL's session is for one thread at a time; nobody waits while holding it.
  Transport transport_ FALAJ_GUARDED_BY(using_);
  std::string peer_;
};

class KeptContext final : public MutualContext {
 public:
  KeptContext(TlsContext context, TlsSide side) : context_(std::move(context)), side_(side) {}

  Result<std::unique_ptr<MutualStream>> open(Descriptor socket,
                                             std::int64_t deadline) const override {
    auto stream = std::make_unique<SocketStream>(std::move(socket));
    FALAJ_TRY(stream->shake_hands(*context_, side_, deadline));
    return std::unique_ptr<MutualStream>(std::move(stream));
  }

 private:
  const TlsContext context_;
  const TlsSide side_;
};

}  // namespace

Result<std::shared_ptr<const MutualContext>> MutualContext::make(const MutualTls& options,
                                                                 TlsSide side) {
  TlsContext context = FALAJ_TRY(make_mutual_tls(options, side));
  return std::shared_ptr<const MutualContext>(
      std::make_shared<KeptContext>(std::move(context), side));
}

}  // namespace falaj::net
