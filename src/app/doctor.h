// app/doctor.h — `falaj doctor`: is this machine fit, and is the data folder sound?
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "cli/cli.h"

namespace falaj::app {

std::vector<cli::DoctorCheck> doctor(const config::Settings& settings);
std::vector<cli::DoctorCheck> doctor_libraries();

// The audit of the settings' data folder, which no server holds; its keys are opened as the
// settings say (machine key, passphrase, PKCS#11). {"head": {sequence, hash}, "ok": true}; FJ-7001
// for a log that does not hold, FJ-7051 for one that is shorter than the last head its signer
// signed.
Result<Value> verify_offline(const config::Settings& settings);

// Cosigns the heads that a Falaj dropped in `folder`, with the witness key kept in `state` (made if
// missing): {"cosigned": n, "key": …}. For whoever watches a log without running a server.
Result<Value> cosign_drops(const std::string& folder, const std::string& state);

}  // namespace falaj::app
