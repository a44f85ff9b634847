#include "cli/code_capture.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/file_hash.h"
#include "base/hash.h"
#include "base/json.h"
#include "exec/child.h"

namespace falaj::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 1000;
constexpr std::uintmax_t kBytesMax = std::uintmax_t{1} << 30;
constexpr std::size_t kDiffKept = 64 * 1024;
constexpr const char* kLocks[] = {"uv.lock",          "poetry.lock",    "pdm.lock",
                                  "Pipfile.lock",     "conda-lock.yml", "requirements.lock",
                                  "requirements.txt", "environment.yml"};

// What git prints; nothing when it is not there or says no.
std::optional<std::string> git(const std::string& folder, std::vector<std::string> words) {
  exec::ChildSpec spec;
  spec.argv = {"/usr/bin/git", "--no-optional-locks", "-C", folder};
  spec.argv.insert(spec.argv.end(), words.begin(), words.end());
  for (const char* name : {"HOME", "PATH", "USER", "XDG_CONFIG_HOME"}) {
    if (const char* value = std::getenv(name)) spec.env.emplace_back(name, value);
  }
  spec.env.emplace_back("LANG", "C.UTF-8");
  spec.work_dir = "/";
  spec.channel_fd = -1;
  std::string printed;
  spec.on_output = [&printed](std::string_view bytes) { printed.append(bytes); };
  auto child = exec::Child::start(std::move(spec));
  if (!child.ok()) return std::nullopt;
  const exec::ChildExit end = (*child)->wait();
  if (end.reason != exec::ExitReason::kExited || end.code != 0) return std::nullopt;
  return printed;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// "" for what cannot be read, and for a link: where it leads may be no part of the code.
std::string hash_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(path, error))) return "";
  return file_sha256(path.string()).value_or("");
}

Value code_of_git(const std::string& folder, const std::string& commit) {
  Value code;
  code["commit"] = commit;
  code["files"] = Value::object();
  const std::string root = first_line(git(folder, {"rev-parse", "--show-toplevel"}).value_or(""));
  // "XY path" and a zero byte each.
  const std::string changed = git(folder, {"status", "--porcelain=v1", "-z", "--no-renames",
                                           "--untracked-files=all", "--", "."})
                                  .value_or("");
  for (std::size_t at = 0; at + 3 < changed.size();) {
    const std::size_t end = std::min(changed.find('\0', at), changed.size());
    const std::string path = changed.substr(at + 3, end - at - 3);
    at = end + 1;
    if (code["files"].as_object().size() >= kFilesMax || !is_valid_utf8(path)) continue;
    code["files"][path] = hash_of(fs::path(root) / path);
  }
  const std::string diff =
      git(folder, {"diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--", "."})
          .value_or("");
  code["diff_sha256"] = diff.empty() ? "" : sha256_hex(diff);
  code["diff"] = diff.size() <= kDiffKept && is_valid_utf8(diff) ? diff : "";
  return code;
}

Value code_of_files(const std::string& folder) {
  Value code;
  code["commit"] = "";
  code["files"] = Value::object();
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    // What git keeps for itself changes with every fetch, and is no part of the code.
    if (at->path().filename() == ".git") {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file(ignored) || at->is_symlink(ignored)) continue;
    const std::string path = at->path().lexically_relative(folder).string();
    bytes += at->file_size(ignored);
    if (code["files"].as_object().size() >= kFilesMax || bytes > kBytesMax) break;
    if (is_valid_utf8(path)) code["files"][path] = hash_of(at->path());
  }
  return code;
}

}  // namespace

Value capture_folder(const std::string& named, OutsideGit outside) {
  // Git is run from the root folder, where "." would be another one than here.
  std::error_code unknown;
  const std::string folder = fs::absolute(named, unknown).lexically_normal().string();
  Value out;
  if (unknown) return out;
  const auto commit = git(folder, {"rev-parse", "--verify", "HEAD"});
  if (commit) {
    out["code"] = code_of_git(folder, first_line(*commit));
  } else if (outside == OutsideGit::kFiles) {
    out["code"] = code_of_files(folder);
  } else {
    return out;
  }
  for (const char* name : kLocks) {
    const std::string hash = hash_of(fs::path(folder) / name);
    if (hash.empty()) continue;
    out["lock"]["file"] = name;
    out["lock"]["sha256"] = hash;
    break;
  }
  return out;
}

Value capture_of(const CaptureChoice& choice) {
  Value capture;
  if (!choice.no_capture) {
    capture = choice.code.empty() ? capture_folder(".", OutsideGit::kNothing)
                                  : capture_folder(choice.code, OutsideGit::kFiles);
  }
  if (choice.seed) capture["seed"] = *choice.seed;
  if (!choice.data.empty()) capture["data"]["training_set"] = choice.data;
  return capture;
}

}  // namespace falaj::cli
