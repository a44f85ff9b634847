// app/backup.h — `falaj backup`: a consistent copy of a data folder, into a declared zone.
#pragma once

#include <string>

#include "app/wiring.h"
#include "base/value.h"

namespace falaj::app {

struct BackupOptions {
  Options server;    // Which folder, and how its keys are opened.
  std::string out;   // Must not exist yet.
  std::string zone;  // Where `out` is.
};

// Copies everything but work in progress (uploads, jobs) as it lies on disk: sealed. The server
// must be stopped (FJ-8001 otherwise). Whatever the folder holds (a key
// for each owner says what that is) passes the backup exit first; if one may not
// go there nothing is copied (FJ-7030, 7031, 7032), and the refusal is in the audit log. The folder
// appears whole or not at all, with BACKUP.json: zone, time, and SHA-256 and size of every file.
// Gives {"files", "bytes", "zone", "out"}.
Result<Value> back_up(const BackupOptions& options, const Clock& clock);

// The steps, for who copies by other means. The exit: one refusal refuses the whole.
Status pass_backup(security::residency::Exits& exits, const std::vector<storage::Owner>& owners,
                   const std::string& zone);
// Nothing is stored without a key of its owner, so the living keys say whose data there is.
Result<std::vector<storage::Owner>> owners_in(security::keys::KeyTree& keys);
// Every file of `from` but work in progress, durably, under `to`: {relative: {bytes, sha256}}.
Result<Value> copy_folder(const std::string& from, const std::string& to);

}  // namespace falaj::app
