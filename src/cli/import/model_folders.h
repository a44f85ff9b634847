// cli/import/model_folders.h — what lies at a path: a model's file, a Triton model or a repository
// of them, or a model that MLflow saved.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/import/triton_config.h"

namespace falaj::cli {

// One model and its files, oldest first.
struct FoundModel {
  std::string name;  // "": nothing there tells.
  struct File {
    std::string path;
    std::int64_t theirs = 0;  // Its number there; 0: it has none.
  };
  std::vector<File> files;
  std::optional<TritonConfig> config;                      // Of a Triton model with a config.pbtxt.
  std::map<std::string, std::vector<std::string>> labels;  // By output.
};

// A file is a model by itself; its content is the server's to judge. A folder is, in this order:
//   with MLmodel                            what MLflow saved, of the flavors onnx, lightgbm,
//   xgboost with config.pbtxt, or folders 1, 2, …   a Triton model: the versions that its policy
//   serves otherwise                               a Triton repository: each folder in it is a
//   model
// kInvalidArgument says what is not supported, FJ-1015 what cannot be read. Files that a folder
// names must lie in it.
Result<std::vector<FoundModel>> find_models(const std::string& path);

// The model's file in a folder that MLflow saved: `text` is its MLmodel. kInvalidArgument names the
// flavors when none can be taken.
Result<std::string> mlflow_file(std::string_view text);

}  // namespace falaj::cli
