#include "exec/internal/ward_door.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace falaj::exec::internal {
namespace {

constexpr std::size_t kClientsMax = 32;
constexpr std::size_t kWaitingMax = 8u << 20;

Error failed(const std::string& what) {
  return Error(Code::kUnavailable, what + ": " + std::strerror(errno));
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

// In a time that tells nothing about where they differ.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return differ == 0;
}

void watch_for(int watch, int operation, int file, std::uint64_t mark, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  ::epoll_ctl(watch, operation, file, &event);
}

}  // namespace

SocketAddress::SocketAddress(int folder, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%.*s", folder,
                static_cast<int>(name.size()), name.data());
  static_assert(sizeof address <= sizeof bytes);
  std::memcpy(bytes, &address, sizeof address);
  size = sizeof address;
}

Result<WardDoor> WardDoor::open(const std::string& folder, std::string token, int watch,
                                std::uint64_t first_mark) {
  const Descriptor place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.valid()) return failed("open " + folder);
  WardDoor door;
  door.listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::unlinkat(place.get(), "socket", 0);
  const SocketAddress address(place.get(), "socket");
  // The caller's umask keeps it from others; the listen comes last, so nobody meets it half made.
  if (!door.listener_.valid() ||
      ::bind(door.listener_.get(), reinterpret_cast<const sockaddr*>(address.bytes),
             address.size) != 0 ||
      ::fchmodat(place.get(), "socket", 0600, 0) != 0 || ::listen(door.listener_.get(), 16) != 0) {
    return failed("listen at " + folder + "/socket");
  }
  door.token_ = std::move(token);
  door.watch_ = watch;
  door.first_mark_ = first_mark;
  watch_for(watch, EPOLL_CTL_ADD, door.listener_.get(), first_mark, EPOLLIN);
  return door;
}

void WardDoor::serve(std::uint64_t mark,
                     const std::function<void(Client, WardRequest)>& on_request) {
  if (mark == first_mark_) return admit();
  take(mark - first_mark_, on_request);
}

void WardDoor::admit() {
  while (true) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (!is_same_user(socket.get()) || !make_place()) continue;
    const Client client = next_client_++;
    watch_for(watch_, EPOLL_CTL_ADD, socket.get(), first_mark_ + client, EPOLLIN);
    clients_[client].socket = std::move(socket);
  }
}

// One who has not said the token goes for one who may: a ward that connects without end keeps
// nobody out for long.
bool WardDoor::make_place() {
  if (clients_.size() < kClientsMax) return true;
  const auto stranger = std::find_if(clients_.begin(), clients_.end(),
                                     [](const auto& each) { return !each.second.greeted; });
  if (stranger == clients_.end()) return false;
  clients_.erase(stranger);
  return true;
}

void WardDoor::take(Client client, const std::function<void(Client, WardRequest)>& on_request) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) return;
  Connection& connection = at->second;
  char bytes[64 * 1024];
  const ssize_t got = ::recv(connection.socket.get(), bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  connection.gone = got <= 0;
  connection.in.feed({bytes, got > 0 ? static_cast<std::size_t>(got) : 0});
  while (!connection.gone) {
    auto body = connection.in.next();
    if (!body.ok()) connection.gone = true;
    if (!body.ok() || !*body) break;
    auto request = parse_request(**body);
    if (!request.ok()) {
      // Whose number is not known: a client that speaks nonsense is better off without us.
      connection.gone = true;
    } else if (!connection.greeted) {
      greet(connection, *request);
    } else {
      on_request(client, std::move(*request));
    }
  }
}

void WardDoor::greet(Connection& connection, const WardRequest& request) const {
  if (request.op != WardOp::kGreet || !same_secret(request.token, token_)) {
    connection.gone = true;
    return;
  }
  connection.greeted = true;
  WardReply answer;
  answer.number = request.number;
  answer.version = kWardVersion;
  queue(connection, frame_of(to_text(answer)));
}

void WardDoor::queue(Connection& connection, std::string_view frame) const {
  if (connection.out.size() + frame.size() > kWaitingMax) connection.gone = true;
  if (!connection.gone) connection.out.append(frame);
}

void WardDoor::reply(Client client, const WardReply& reply) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) return;
  std::string text = to_text(reply);
  if (text.size() > kFrameBytesMax) {
    // The client would hang up, and ask again for ever.
    WardReply refusal;
    refusal.number = reply.number;
    refusal.error = Error(Code::kResourceExhausted, "the warden's reply is over 1 MiB");
    text = to_text(refusal);
  }
  queue(at->second, frame_of(text));
}

void WardDoor::tell_all(const WardReply& reply) {
  if (clients_.empty()) return;
  const std::string frame = frame_of(to_text(reply));
  for (auto& [client, connection] : clients_) {
    if (connection.greeted) queue(connection, frame);
  }
}

void WardDoor::send(Client client, Connection& connection) const {
  std::size_t done = 0;
  while (done < connection.out.size()) {
    const ssize_t sent = ::send(connection.socket.get(), connection.out.data() + done,
                                connection.out.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) connection.gone = true;
    if (sent <= 0) break;
    done += static_cast<std::size_t>(sent);
  }
  connection.out.erase(0, done);
  const bool waits = !connection.out.empty();
  if (waits == connection.waits_to_write) return;
  connection.waits_to_write = waits;
  watch_for(watch_, EPOLL_CTL_MOD, connection.socket.get(), first_mark_ + client,
            EPOLLIN | (waits ? static_cast<std::uint32_t>(EPOLLOUT) : 0u));
}

void WardDoor::flush() {
  for (auto& [client, connection] : clients_) {
    if (!connection.gone && (!connection.out.empty() || connection.waits_to_write)) {
      send(client, connection);
    }
  }
  drop_the_gone();
}

void WardDoor::drop_the_gone() {
  std::erase_if(clients_, [](const auto& each) { return each.second.gone; });
}

}  // namespace falaj::exec::internal
