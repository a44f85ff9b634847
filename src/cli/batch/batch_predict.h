// cli/batch/batch_predict.h — predict --batch: the rows of a file through a deployment, into
// another file.
//
// Over the routes that single requests take, so that permissions, residency, versions and runtimes
// are the same, and so are the answers: a request has as many rows as the server has proven to be
// answered with the bits that each has alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace falaj::cli::batch {

struct BatchChoice {
  std::string deployment;
  std::string in;                   // Parquet, CSV or Arrow, by its name.
  std::string out;                  // The same.
  std::vector<std::string> keys;    // Entity keys: the server looks the features up.
  std::vector<std::string> inputs;  // "NAME=COLUMN,COLUMN…" of an input.
  std::vector<std::string> keep;  // Columns of `in` to write; empty: what the model does not read.
  std::int64_t version = 0;       // 0: the one that serves.
  std::int64_t rows = 0;          // Of a request; 0: as many as are answered as alone.
  std::string patience = "2m";
};

// Memory: a piece of the file, its answers and one group of rows of `out`, whatever its length.
// FJ-5001 when another version began to serve meanwhile. On any failure there is no `out`, or the
// one that was there before.
Status predict_file(const Session& session, const BatchChoice& choice);

}  // namespace falaj::cli::batch
