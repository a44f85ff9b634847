// cli/import/models_import.h — models import: what was made elsewhere becomes versions here.
#pragma once

#include <string>

#include "cli/commands.h"
#include "cli/import/model_folders.h"

namespace falaj::cli {

// As typed.
struct ImportChoice {
  std::string path;
  std::string model;      // "": as the folder says.
  std::string signature;  // File with an OpenSSF bundle; "": none.
  bool deploy = false;
};

// The Deployment that serves what was found as Triton did. Pure.
Value deployment_of(const FoundModel& found, const std::string& project);

// Registers every version that is found and prints their numbers. With `deploy` the newest is given
// the alias champion and a Deployment of the model's name, with its labels. FJ-1016 when the words
// do not fit what lies there.
Status import_models(const Session& session, const ImportChoice& choice);

}  // namespace falaj::cli
