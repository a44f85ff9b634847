// cli/internal/words.h — what the command line's parser fills in.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace falaj::cli {

inline constexpr const char* kDefaultServer = "http://127.0.0.1:7070";
inline constexpr const char* kDefaultProject = "default";

// The environment is the default that a flag overrides. The parser's own binding is not used: many
// commands share one variable, and a command that was not called would put the environment's value
// over the flag of the one that was.
inline std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// What the parser fills in; one struct, so that every command's callback can see it.
struct Words {
  std::string server = from_environment("FALAJ_SERVER", kDefaultServer);
  std::string project = from_environment("FALAJ_PROJECT", kDefaultProject);
  std::string authority = from_environment("FALAJ_CA", "");
  std::string certificate = from_environment("FALAJ_CERTIFICATE", "");
  std::string token = from_environment("FALAJ_TOKEN", "");
  std::string output = "table";
  std::string data;
  std::string config_file = from_environment("FALAJ_CONFIG", "");
  std::string port;
  std::string grpc_port;
  std::vector<std::string> settings;
  std::vector<std::string> files;
  bool dry_run = false;
  bool check = false;
  bool no_wait = false;
  bool origin = false;
  bool libraries = false;
  bool log = false;
  bool follow = false;
  bool crowded = false;
  bool keep = false;
  bool all = false;
  bool node = false;
  std::int64_t attempt = 0;
  std::string group;
  bool platform = false;
  std::string kind;
  std::string name;
  std::string file;
  std::string format;
  std::string spine;
  std::string alias;
  std::string reason = from_environment("FALAJ_REASON", "");
  std::string who;
  std::string from;
  std::string to;
  std::string object;
  std::string action;
  std::string end;
  std::string zone;
  std::string ground;
  std::int64_t version = 0;
  std::int64_t sequence = 0;
  std::int64_t held = -1;  // Entries of a head that somebody holds.
  std::int64_t limit = 50;
  std::uint64_t seed = 20260101;
  std::vector<std::string> keys;
  LoginWords login;
  TokenWords tokens;
};

}  // namespace falaj::cli
