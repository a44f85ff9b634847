// cli/credentials.h — where `falaj login` keeps what it was given: one token a server.
//
// A JSON file under the user's configuration folder ($XDG_CONFIG_HOME/falaj or ~/.config/falaj),
// readable by its owner only; a file that others can read is not used.
#pragma once

#include <string>

#include "base/result.h"

namespace falaj::cli {

// The file's path; "" when neither XDG_CONFIG_HOME nor HOME is set.
std::string credentials_path();

struct StoredLogin {
  std::string token;      // "" when there is none for that server.
  std::string authority;  // The --ca it was given with.
};
// FJ-1001 when the file is broken; kPermissionDenied when others may read it.
Result<StoredLogin> find_login(const std::string& path, const std::string& server);
// Written anew beside it, then renamed. `login.token` == "" forgets the server.
Status keep_login(const std::string& path, const std::string& server, const StoredLogin& login);

}  // namespace falaj::cli
