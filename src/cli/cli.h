// cli/cli.h — the words of `falaj`: parsed here, done by cli/commands.h over HTTP, or by `app`
// through hooks for what must run in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "config/settings.h"

namespace falaj::cli {

enum class ServerMode : std::uint8_t { kDev, kProduction };

struct OptimizeWork;
struct OptimizeDone;

// A server in this process; stops when dropped.
class LocalServer {
 public:
  virtual ~LocalServer() = default;
  virtual std::string url() const = 0;
};

struct DoctorCheck {
  std::string what;
  std::string state;  // "ok", "warn", "fail"
  std::string detail;
};

// What this module cannot do by itself, being below `app`.
struct Hooks {
  // Serves until SIGTERM or SIGINT; prints the ready line.
  std::function<int(ServerMode mode, const config::Settings& settings)> serve;
  // Says whether it would, and ends.
  std::function<int(ServerMode mode, const config::Settings& settings)> check_start;
  std::function<Result<std::unique_ptr<LocalServer>>(const std::string& data_folder)> start_local;
  std::function<int()> train_engine;  // `falaj engine …`: started by the server only.
  std::function<int()> inspect_engine;
  std::function<int(const std::string& lanes)> model_engine;
  std::function<int(const std::string& folder)> sign_engine;
  std::function<int(const std::string& folder)> warden_engine;
  std::function<int(const std::string& layout, const std::string& digest,
                    const std::string& folder)>
      unpack_engine;
  std::function<int(const std::string& folder)> image_engine;
  // Cosigns the heads dropped in `folder` with the witness key kept in `state`: {"cosigned",
  // "key"}.
  std::function<Result<Value>(const std::string& folder, const std::string& state)> cosign_drops;
  std::function<std::vector<DoctorCheck>(const config::Settings& settings)> doctor;
  std::function<std::vector<DoctorCheck>()> doctor_libraries;
  // Verifies the audit of the settings' data folder without a server: {"head": …}.
  std::function<Result<Value>(const config::Settings& settings)> verify_offline;
  // Copies the data folder of a stopped server into `out`, which is in `zone`.
  std::function<Result<Value>(const config::Settings& settings, const std::string& out,
                              const std::string& zone)>
      back_up;
  // What `models optimize` does with a model and rows (cli/optimize.h).
  std::function<Result<OptimizeDone>(const OptimizeWork& work)> optimize;
  // A reference page as Markdown, from the declarations: routes, metrics, permissions.
  std::function<Result<std::string>(const std::string& page)> reference;
  std::string version;
  std::string build;
};

// Runs one command; returns the exit code (DESIGN: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied,
// 5 conflict, 6 timeout).
int run(int argc, char** argv, const Hooks& hooks);

// Every command with its options, as Markdown: docs/reference/cli.md.
std::string cli_reference(const Hooks& hooks);

}  // namespace falaj::cli
