// app/serve.h — `falaj dev` and `falaj serve`: from settings to a running server and back.
#pragma once

#include <memory>
#include <string>

#include "app/wiring.h"
#include "cli/cli.h"

namespace falaj::app {

// How the data folder's keys are opened; the settings keys.*.
KeyOptions key_options_of(const config::Settings& settings);

// Options from settings. FJ-7003 when production would listen beyond loopback unsafely.
Result<Options> options_of(cli::ServerMode mode, const config::Settings& settings);

// Whether a server would start with these settings, as far as can be told while another holds the
// data folder; says so on standard output (app/restart.h reads it).
int check_start(cli::ServerMode mode, const config::Settings& settings);

// Serves until SIGTERM or SIGINT. Prints `ready URL` on standard output when it serves. At SIGUSR2
// it becomes the program that now lies where its own lay (app/restart.h), and prints it again.
int serve(cli::ServerMode mode, const config::Settings& settings);

// A server inside this process on a free port, for `falaj demo`.
Result<std::unique_ptr<cli::LocalServer>> start_local(const std::string& data_folder);

}  // namespace falaj::app
