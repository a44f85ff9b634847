// jobs/runtime.h — what a command finds when it begins, as an administrator declares it.
//
//   kind: Runtime
//   metadata: {name: torch-cpu, project: payments}
//   spec:
//     venv: {python: /usr/bin/python3, wheels: /srv/wheels, lock: "numpy==1.26.4 --hash=sha256:…"}
//
// or `host: {python: /opt/python3.12/bin/python3}`, or `image: {layout: /srv/images/torch, digest:
// "sha256:…"}`, an OCI image in a folder, run by an installed OCI runtime. `readable` lists folders
// that its programs need besides the system's own. A virtual environment is known by the hash of
// what it is built from and is built once (jobs/runtimes.h), from wheels alone, each of which has
// its hash in the lock.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "storage/objects.h"

namespace falaj::jobs {

enum class RuntimeForm : std::uint8_t { kHost, kVenv, kImage };
std::string_view form_name(RuntimeForm form);

struct RuntimeSpec {
  std::string name;
  RuntimeForm form = RuntimeForm::kHost;
  std::string python;                 // Absolute.
  std::string lock;                   // Of a venv: requirements, pinned, with hashes.
  std::string wheels;                 // Of a venv: a folder on the server's machine, or …
  std::string index;                  // … an index that it may be downloaded from.
  std::string layout;                 // Of an image: its folder, absolute, …
  std::string image;                  // … and the 64 digits of its manifest's SHA-256.
  std::vector<std::string> readable;  // Absolute folders.
};
// Strict. FJ-1xxx with what is wrong. Pure.
Result<RuntimeSpec> decode_runtime(const storage::Object& object);

// The lock as pip is given it: a line each, without comments, so that it reads nothing that was not
// looked at. Every requirement is `name==version` with at least one `--hash=sha256:…`, nothing else
// stands there: no other options, files or addresses. `where` begins the message. Pure.
Result<std::string> read_lock(const std::string& where, std::string_view lock);

// The kind `Runtime`, for the catalog.
storage::KindInfo runtime_kind();

// What a job keeps of its runtime, in JobSpec::payload under `runtime`: {name, form, digest,
// folder, path, readable[], env[]}.
struct RuntimeUse {
  std::string name;
  RuntimeForm form = RuntimeForm::kHost;
  std::string digest;                 // SHA-256 of what it is made from.
  std::string folder;                 // Of a venv or an image: absolute, once it was built.
  std::string path;                   // Comes first in PATH.
  std::vector<std::string> readable;  // Absolute.
  std::vector<std::string> env;       // Of an image: "NAME=value".
};
Value to_value(const RuntimeUse& use);
// One without a name for a payload without a runtime, one without a digest when it was not
// resolved.
RuntimeUse runtime_of(const Value& payload);

}  // namespace falaj::jobs
