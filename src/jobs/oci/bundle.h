// jobs/oci/bundle.h — a command inside an image, run by an installed OCI runtime (runc, crun).
//
// The image's files are shared and never written: each attempt sees them through an overlay whose
// upper part is its own, and even that read-only. Control groups are the warden's: the runtime is
// kept from making its own (they are read-only to it), so limits, usage and the end of the whole
// tree hold as for any other command.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "jobs/executor.h"

namespace falaj::jobs::oci {

// Where an attempt's bundle is: beside its work folder, and swept like it.
std::string bundle_folder(const std::string& work_dir);

struct BundleSpec {
  std::string rootfs;            // Of the unpacked image.
  std::string runtime;           // The OCI runtime's program.
  std::vector<std::string> env;  // The image's own; what the command has goes first.
};

// The runtime's configuration for that work: its argv, env, folders and devices. No capabilities,
// no network but its own loopback, no user but the server's, the system calls refused that are
// refused to any command. Pure.
Value bundle_config(const Work& work, const BundleSpec& spec);

// Writes the bundle and turns the work into one that runs it by `program engine image FOLDER`.
Status prepare_bundle(const std::string& program, const BundleSpec& spec, Work& work);

// The process behind that: mounts in a namespace of its own, then becomes the runtime. Returns only
// with an exit code other than 0, after it has said on standard error why.
int run_bundle(const std::string& folder);

// Removes a bundle (or any other folder) with all that is in it, also what overlayfs left there
// that not even its owner may open. What cannot be removed stays, for the next sweep.
void remove_bundle(const std::string& folder);

// The runtime to use: `named`, or what is installed. "" when there is none.
std::string find_oci_runtime(const std::string& named);

}  // namespace falaj::jobs::oci
