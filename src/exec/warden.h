// exec/warden.h — the process behind exec/wards.h: started by the server, it outlives it.
#pragma once

#include <string>

#include "base/time.h"

namespace falaj::exec {

struct WardenOptions {
  std::string folder;
  Duration idle_max = Duration::minutes(1);  // Without a client and a running ward; then it ends.
};

// The whole process: call it first thing in main(), before any thread. It takes the folder's lock
// (another warden has it: returns 0) and goes to the background; there it reads the journal, ends
// what a dead warden left behind and listens (the calling process returns 0 then), and serves until
// it is to end. SIGTERM stops all wards and then ends it. Returns an exit code; why it is not 0
// stands in <folder>/warden.log.
//
// One thread with an epoll loop, and some that start processes for it. Everything in the folder is
// for its owner only:
//   lock     held (flock) while it lives; its process number for people
//   token    what a client must say first: a confined ward can reach the socket, not this file
//   socket   see exec/internal/ward_message.h
//   journal  intents and ends, see exec/internal/ward_journal.h
int run_warden(const WardenOptions& options);

}  // namespace falaj::exec
