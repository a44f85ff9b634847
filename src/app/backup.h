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

// Copies everything but work in progress (uploads, jobs) as it lies on disk: sealed; as signer/
// also the signer's memory that lies elsewhere (audit.signer_dir). The server must be stopped
// (FJ-8001 otherwise). Whatever the folder holds passes the backup exit first: each owner that has
// a key, and each project and zone that a row of the metadata is labelled with (runs and jobs have
// rows before they have keys). If one may not go there nothing is copied (FJ-7030, 7031, 7032),
// and the refusal is in the audit log. The folder appears whole or not at all, with BACKUP.json:
// zone, time, and SHA-256 and size of every file. The ledger counts all of it for each project and
// zone, for databases are shared. Gives {"files", "bytes", "zone", "out"}.
Result<Value> back_up(const BackupOptions& options, const Clock& clock);

// The steps, for who copies by other means. The exit: one refusal refuses the whole. `bytes` are
// counted once for each project and zone, when all may pass.
Status pass_backup(security::residency::Exits& exits, const std::vector<storage::Owner>& owners,
                   const std::string& zone, std::int64_t bytes = 0);
// Whose sealed data there is: those with living keys.
Result<std::vector<storage::Owner>> owners_in(security::keys::KeyTree& keys);
// Tables of the metadata whose rows are data of a project: each has its project and zone.
const std::vector<std::string>& labelled_tables();
// Whose rows there are: project and zone, each pair once, the first table as the object.
Result<std::vector<storage::Owner>> owners_in(storage::SqlStore& metadata);
// Every file of `from` but work in progress, durably, under `to`: {relative: {bytes, sha256}}.
Result<Value> copy_folder(const std::string& from, const std::string& to);

}  // namespace falaj::app
