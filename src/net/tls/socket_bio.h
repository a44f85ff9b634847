// net/tls/socket_bio.h — a socket as OpenSSL sees it: never a signal, and it remembers whether the
// kernel had more to give.
#pragma once

#include "base/result.h"

struct ssl_st;

namespace falaj::net {

// Lets `session` read and write `socket`, which the caller keeps open.
Status attach_socket(ssl_st& session, int socket);

// True when the last read took all that the socket had, and nothing of it waits undecrypted: the
// next read would find nothing. Saves the call that would say so.
bool is_drained(const ssl_st& session);

}  // namespace falaj::net
