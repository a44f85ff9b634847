// cli/feast_python.h — Feast's own answers, given by Feast in its own Python.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace falaj::cli {

struct FeastQuestion {
  std::string view;                   // Feast's name.
  std::vector<std::string> features;  // "view:feature"
  std::string spine;                  // Parquet file to read.
  std::string answers;                // Parquet file to write.
};

struct FeastOutcome {
  std::string version;
  std::string offline_store;
  std::map<std::string, std::string> failed;  // View → what Feast said.
};

// Starts `python` (a path, or a name to find in PATH) with a small script that asks Feast for the
// historical features of every question. `folder` is for files; `repository` holds
// feature_store.yaml. kNotFound when there is no such program; kFailedPrecondition with the end of
// what it printed when it fails as a whole.
Result<FeastOutcome> ask_feast(const std::string& python, const std::string& repository,
                               const std::string& folder,
                               const std::vector<FeastQuestion>& questions);

}  // namespace falaj::cli
