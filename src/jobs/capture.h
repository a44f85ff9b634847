// jobs/capture.h — what a command was made of, kept with it, so that it can be run again and the
// first thing that differs can be named.
//
// Who submits sends what is known where the code lies, as `capture` of the submission:
//   code     {commit, files{path: SHA-256}, diff, diff_sha256}: the commit, and what the folder has
//            that the commit has not
//   lock     {file, sha256}
//   seed     a number, which the command finds in FALAJ_SEED and PYTHONHASHSEED
//   data     {training_set}
// The server adds data.fingerprint and machine {cpu, flags, kernel, falaj}. It is kept in
// JobSpec::payload under `capture`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"

namespace falaj::jobs {

// Strict and bounded. FJ-1xxx with what is wrong. Null stays null. Pure.
Result<Value> decode_capture(const Value& capture);

// {cpu, flags, kernel}: of this machine, read once.
const Value& machine_facts();

// What is kept of a command's output: {sha256, files, bytes, of, not_hashed}. Of the files below
// `folder`, by name and content, links by where they lead; of what it printed when there are none.
// `of` is "files" or "log". `sha256` is null, and `not_hashed` says why, past 10 000 names, past
// kOutputBytesMax or `disk_bytes_max` (0: no limit) of all files together as they would be read
// (what was never written counts too), or when one cannot be read. Takes as long as that: seconds.
inline constexpr std::int64_t kOutputBytesMax = std::int64_t{1} << 30;
Value output_of(const std::string& folder, std::string_view log, std::int64_t disk_bytes_max);
// The folder's name in that of the command, and the variable that names its path.
inline constexpr std::string_view kOutputFolder = "output";
inline constexpr std::string_view kOutputVariable = "FALAJ_OUTPUT";

struct Difference {
  std::string input;  // "code: train.py", "seed", "machine: flags", …
  std::string before;
  std::string after;
};
// Between two payloads {command, env, array, params, workers, runtime, capture}: the first that
// differs, in the order in which a person would look. A machine that one of them does not name is
// not compared. Pure.
std::optional<Difference> first_difference(const Value& before, const Value& after);

}  // namespace falaj::jobs
