// app/doctor.h — `falaj doctor`: is this machine fit, and is the data folder sound?
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "cli/cli.h"

namespace falaj::app {

std::vector<cli::DoctorCheck> doctor(const config::Settings& settings);
std::vector<cli::DoctorCheck> doctor_libraries();

// The audit of a folder that no server holds: {"head": {sequence, hash}, "ok": true}, or FJ-7001.
Result<Value> verify_offline(const std::string& data_folder);

// Cosigns the heads that a Falaj dropped in `folder`, with the witness key kept in `state` (made if
// missing): {"cosigned": n, "key": …}. For whoever watches a log without running a server.
Result<Value> cosign_drops(const std::string& folder, const std::string& state);

}  // namespace falaj::app
