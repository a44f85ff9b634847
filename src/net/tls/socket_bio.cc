#include "net/tls/socket_bio.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>

#include "net/tls/tls.h"

namespace falaj::net {
namespace {

struct SocketState {
  int socket = -1;
  bool drained = false;
  bool ended = false;
};

SocketState& state_of(BIO* bio) { return *static_cast<SocketState*>(BIO_get_data(bio)); }

int read_socket(BIO* bio, char* into, int size) {
  SocketState& state = state_of(bio);
  BIO_clear_retry_flags(bio);
  ssize_t count = 0;
  do {
    count = ::recv(state.socket, into, static_cast<std::size_t>(size), 0);
  } while (count < 0 && errno == EINTR);
  state.drained = count < size;
  state.ended = count == 0;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_read(bio);
  return static_cast<int>(count);
}

int write_socket(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t count = 0;
  do {
    // A peer that has gone must not end the process by SIGPIPE.
    count = ::send(state_of(bio).socket, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

long control_socket(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return state_of(bio).ended ? 1 : 0;
    default:
      return 0;
  }
}

int create_socket(BIO* bio) {
  BIO_set_data(bio, new SocketState);
  BIO_set_init(bio, 1);
  return 1;
}

int destroy_socket(BIO* bio) {
  delete &state_of(bio);
  BIO_set_data(bio, nullptr);
  return 1;
}

const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const kMethod = []() -> const BIO_METHOD* {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "falaj socket");
    if (made == nullptr || BIO_meth_set_read(made, read_socket) != 1 ||
        BIO_meth_set_write(made, write_socket) != 1 ||
        BIO_meth_set_ctrl(made, control_socket) != 1 ||
        BIO_meth_set_create(made, create_socket) != 1 ||
        BIO_meth_set_destroy(made, destroy_socket) != 1) {
      return nullptr;
    }
    return made;
  }();
  return kMethod;
}

}  // namespace

Status attach_socket(ssl_st& session, int socket) {
  BIO* bio = socket_method() == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) {
    return Error(Code::kInternal, "cannot begin a TLS session: " + last_tls_error());
  }
  state_of(bio).socket = socket;
  SSL_set_bio(&session, bio, bio);
  return {};
}

bool is_drained(const ssl_st& session) {
  return SSL_has_pending(&session) == 0 && state_of(SSL_get_rbio(&session)).drained;
}

}  // namespace falaj::net
