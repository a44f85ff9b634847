// cli/launch_strangers.h — what nodes of a launch on other machines are known by.
#pragma once

#include "cli/commands.h"

namespace falaj::cli {

enum class Strangers : std::uint8_t { kShowCertificates, kKnowTheSecret };

// As launch_workers(). Beyond loopback, --listen and --join without certificates are refused before
// anything is made (usage), unless the secret is to be enough: then that is warned of.
int launch_workers(const LaunchChoice& choice, Strangers strangers);

}  // namespace falaj::cli
