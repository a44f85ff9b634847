// cli/client_options.h — how a target is called, for those who keep connections of their own.
#pragma once

#include "cli/connection.h"

namespace falaj::cli {

// FJ-1016 when a credential would go over plain http to another machine.
Result<net::ClientOptions> client_options(const Target& target);

// What a reply that is no success says. FJ-2001 as printed by the server, back to its id; the
// class's generic id when it is newer than us.
Error error_of_reply(const net::ClientReply& reply);

}  // namespace falaj::cli
