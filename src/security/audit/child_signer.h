// security/audit/child_signer.h — the signer as a process of its own, and the server's end of it.
//
// They speak one JSON object a line over a socket pair: {"id", "op", …} and {"id", …} or {"id",
// "code", "error"}. When the process dies it is started again by the next call; the call during
// which it died fails with FJ-7053, since nobody knows whether it signed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "crypto/secret.h"
#include "exec/child.h"
#include "security/audit/signer.h"

namespace falaj::security {

struct ChildSignerOptions {
  std::string program;  // argv[0]: this program.
  std::string folder;   // The signer's own; nothing else can be written by it.
  std::string origin;
  crypto::SecretBytes wrapper;  // Handed over when it starts.
  std::string log_path;         // Its standard error.
  Duration patience = Duration::seconds(10);
};

// Starts the process and asks it who it is.
Result<std::unique_ptr<Signer>> start_child_signer(ChildSignerOptions options);

// The process's side: answers requests from `fd` until it closes. Returns the exit code.
int run_signer(int fd, const std::string& folder);

}  // namespace falaj::security
