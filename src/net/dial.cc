#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "net/address.h"
#include "net/internal/address.h"
#include "net/internal/dial.h"

namespace falaj::net {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

bool is_public(const addrinfo& found) {
  sockaddr_storage address{};
  if (found.ai_addrlen > sizeof address) return false;
  std::memcpy(&address, found.ai_addr, found.ai_addrlen);
  return is_public_address(address_text(address));
}

// 0 when connected, else the error's number.
int finish_connect(int socket) {
  int code = 0;
  socklen_t size = sizeof code;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

}  // namespace

Error Dialled::unreachable(std::string_view reason) const {
  return Error(ErrorId::kServerUnreachable,
               "no server answers at " + url_.authority + ": " + std::string(reason));
}

Result<std::unique_ptr<Dialled>> Dialled::open(const Url& url, ssl_ctx_st* tls, Duration limit,
                                               Reach reach) {
  const std::int64_t deadline = monotonic_nanos() + limit.nanos;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int looked =
      ::getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  const std::unique_ptr<Dialled> none(new Dialled(url, -1));
  if (looked != 0) return none->unreachable(gai_strerror(looked));
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  std::string reason;
  std::size_t refused = 0;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (reach == Reach::kPublicOnly && !is_public(*each)) {
      ++refused;
      reason = "its address is not a public one";
      continue;
    }
    const int socket = ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) return none->unreachable(std::strerror(errno));
    std::unique_ptr<Dialled> dialled(new Dialled(url, socket));
    int code = ::connect(socket, each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      FALAJ_TRY(dialled->wait(POLLOUT, deadline));
      code = finish_connect(socket);
    }
    if (code != 0) {
      reason = std::strerror(code);
      continue;
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls != nullptr) FALAJ_TRY(dialled->shake_hands(*tls, deadline));
    return dialled;
  }
  if (refused > 0) return Error(Code::kPermissionDenied, url.authority + ": " + reason);
  return none->unreachable(reason);
}

Dialled::~Dialled() {
  if (socket_ >= 0) ::close(socket_);
}

Status Dialled::shake_hands(ssl_ctx_st& tls, std::int64_t deadline) {
  transport_ = Transport(socket_, FALAJ_TRY(connect_session(tls, socket_, url_.host)));
  while (true) {
    const IoResult result = transport_.handshake();
    if (result.outcome == IoOutcome::kDone) return {};
    if (result.outcome == IoOutcome::kFailed || result.outcome == IoOutcome::kClosed) {
      if (!transport_.certificate_refused()) return unreachable("TLS: " + transport_.error_text());
      return Error(ErrorId::kPeerRefused,
                   url_.authority + " is not believed: " + transport_.error_text());
    }
    FALAJ_TRY(wait_for(result.outcome, deadline));
  }
}

Status Dialled::wait(short events, std::int64_t deadline) const {
  while (true) {
    int millis = -1;
    if (deadline != 0) {
      const std::int64_t left = (deadline - monotonic_nanos() + 999'999) / 1'000'000;
      if (left <= 0) {
        return Error(Code::kDeadlineExceeded, "no answer from " + url_.authority + " in time");
      }
      millis = static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
    }
    pollfd waiting{socket_, events, 0};
    const int ready = ::poll(&waiting, 1, millis);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Error(Code::kInternal, std::strerror(errno));
  }
}

Status Dialled::wait_for(IoOutcome outcome, std::int64_t deadline) const {
  return wait(outcome == IoOutcome::kWantWrite ? POLLOUT : POLLIN, deadline);
}

Status Dialled::write(std::string_view first, std::string_view second, std::int64_t deadline) {
  while (!first.empty() || !second.empty()) {
    const IoResult result = transport_.write(first, second);
    if (result.outcome == IoOutcome::kFailed || result.outcome == IoOutcome::kClosed) {
      return unreachable(transport_.error_text());
    }
    if (result.outcome != IoOutcome::kDone) {
      FALAJ_TRY(wait_for(result.outcome, deadline));
      continue;
    }
    const std::size_t of_first = std::min(result.bytes, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(result.bytes - of_first);
  }
  return {};
}

Result<std::size_t> Dialled::read(std::span<char> into, std::int64_t deadline) {
  while (true) {
    const IoResult result = transport_.read(into);
    if (result.outcome == IoOutcome::kDone) return result.bytes;
    if (result.outcome == IoOutcome::kClosed) return std::size_t{0};
    if (result.outcome == IoOutcome::kFailed) return unreachable(transport_.error_text());
    FALAJ_TRY(wait_for(result.outcome, deadline));
  }
}

bool Dialled::is_stale() const {
  pollfd waiting{socket_, POLLIN, 0};
  if (::poll(&waiting, 1, 0) == 0) return false;
  // After TLS 1.3's handshake the server may send session tickets: bytes alone are no end.
  if (!transport_.is_tls()) return true;
  char byte = 0;
  return ::recv(socket_, &byte, 1, MSG_PEEK) <= 0;
}

}  // namespace falaj::net
