// security/sealed/openings.h — what opens the audit log's commitments, at rest.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "security/audit.h"
#include "security/keys/key_tree.h"

namespace falaj::security::sealed {

// Texts about a project are sealed under that project's own key, so that shredding the project
// (KeyTree::shred without an object) makes them unreadable with the rest of it; those of the
// platform, and of a project without a zone, under a key of the machine. `zone_of` gives a
// project's zone, unlabelled when there is none; it must not block. `keys` must outlive the vault.
Result<std::unique_ptr<OpeningVault>> seal_openings(
    keys::KeyTree& keys, std::function<Zone(const std::string& project)> zone_of);

}  // namespace falaj::security::sealed
