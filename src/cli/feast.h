// cli/feast.h — a repository of Feast: its declarations as ours, and its answers beside ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "features/feast/translate.h"

namespace falaj::cli {

struct FeastFolder {
  std::string folder;    // With feature_store.yaml.
  std::string registry;  // "": the one that file names.
};

struct FeastRepository {
  std::string project;  // Feast's.
  features::feast::Translation translation;
};
// FJ-1015 when a file is missing; FJ-1002 or 1005 for a feature_store.yaml that cannot be read;
// FJ-3001 for a registry that is none. kFailedPrecondition for a registry that is no file.
Result<FeastRepository> open_feast(const FeastFolder& where);

struct FeastImport {
  FeastFolder where;
  std::string out;  // File to write; "": standard output.
  bool apply = false;
};
// Prints the declarations as YAML, with what is left out as comments and on standard error; with
// `apply` declares them and sends the rows of views that have none yet.
Status import_feast(const Session& session, const FeastImport& choice);

struct FeastVerify {
  FeastFolder where;
  std::vector<std::string> views;  // Empty: all whose rows are in files.
  std::string spine;               // File; "": sampled from the view's own rows.
  std::string time_column;         // Of that file; "": event_timestamp, or its only time.
  std::string python;              // Of the environment in which Feast is; or:
  std::string answers;             // A Parquet file of Feast's, for one view.
  std::string write_spine;         // Only writes the spine of one view to this Parquet file.
  std::int64_t rows = 1000;        // Of a sampled spine.
};
// Prints where Feast's historical features are not the exact ones; returns in how many rows. Needs
// no server. Runs Feast in `python`, as its own program, with files in a folder that is removed.
Result<std::uint64_t> verify_feast(OutputFormat format, const FeastVerify& choice);
// The same as a command: its exit code, which is kConflict when Feast is wrong somewhere.
int run_verify(OutputFormat format, const FeastVerify& choice);

}  // namespace falaj::cli
