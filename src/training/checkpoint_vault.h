// training/checkpoint_vault.h — whose key the checkpoints of a run are sealed with.
//
// Each run's archive has a data key of its own under the key of its TrainJob ("TrainJob/NAME"), so
// that shredding the TrainJob, or its project, ends all its checkpoints. The archive says which in
// key.json (jobs/checkpoint/sealing.h); the key itself goes to the keeper through memory.
#pragma once

#include <string>

#include "base/result.h"
#include "storage/owner.h"

namespace falaj::security::keys {
class KeyTree;
}
namespace falaj::security::residency {
class Exits;
}

namespace falaj::training {

// Both outlive the jobs. Without keys archives lie in clear (tests of what runs around them).
struct CheckpointVault {
  security::keys::KeyTree* keys = nullptr;
  security::residency::Exits* exits = nullptr;
};

storage::Owner checkpoint_owner(const std::string& project, const Zone& zone,
                                const std::string& train_job);

// Before an attempt: passes the write exit (FJ-7030, 7031, 7032), makes the archive's key or opens
// it, and leaves it in the memory folder, which is there, for the keeper to take. An archive whose
// key was shredded is deleted first: nobody could read it.
Status hand_over_key(const CheckpointVault& vault, const storage::Owner& owner,
                     const std::string& archive, const std::string& memory);
// After the last attempt: what is kept counts at the write exit.
void count_kept(const CheckpointVault& vault, const storage::Owner& owner,
                const std::string& archive);

}  // namespace falaj::training
