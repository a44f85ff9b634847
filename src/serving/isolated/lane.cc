#include "serving/isolated/lane.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/time.h"
#include "serving/isolated/model_message.h"

namespace falaj::serving::isolated {
namespace {

constexpr std::int64_t kNanosPerMilli = 1'000'000;
// Room is made as the bytes come: a head that only claims many costs nothing.
constexpr std::size_t kPieceBytes = 1 << 20;

Error gone() { return Error(Code::kUnavailable, "the other side has gone"); }

// Until the socket may be ready.
Status await(int socket, short events, std::int64_t until) {
  pollfd waited{socket, events, 0};
  int milliseconds = -1;
  if (until != kNoLimit) {
    const std::int64_t left = until - monotonic_nanos();
    if (left <= 0) return Error(Code::kDeadlineExceeded, "no answer in time");
    milliseconds = static_cast<int>(std::min<std::int64_t>(left / kNanosPerMilli + 1, 60'000));
  }
  if (::poll(&waited, 1, milliseconds) < 0 && errno != EINTR) return gone();
  return {};
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Appends exactly `count` bytes.
Status receive(int socket, std::size_t count, std::int64_t until, std::string& bytes) {
  while (count > 0) {
    const std::size_t before = bytes.size();
    bytes.resize(before + std::min(count, kPieceBytes));
    const ssize_t got = ::recv(socket, bytes.data() + before, bytes.size() - before, MSG_DONTWAIT);
    const bool waits = got < 0 && would_wait();
    bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0 || (got < 0 && !waits)) return gone();
    if (waits) FALAJ_TRY(await(socket, POLLIN, until));
    count -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return {};
}

}  // namespace

Status send_frame(int socket, std::string_view frame, std::int64_t until) {
  while (!frame.empty()) {
    const ssize_t sent = ::send(socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      frame.remove_prefix(static_cast<std::size_t>(sent));
    } else if (would_wait()) {
      FALAJ_TRY(await(socket, POLLOUT, until));
    } else {
      return gone();
    }
  }
  return {};
}

Result<std::string> receive_frame(int socket, std::int64_t until) {
  std::string head;
  FALAJ_TRY(receive(socket, kFrameHeadBytes, until, head));
  const std::size_t length = FALAJ_TRY(body_bytes(head));
  std::string body;
  FALAJ_TRY(receive(socket, length, until, body));
  return body;
}

}  // namespace falaj::serving::isolated
