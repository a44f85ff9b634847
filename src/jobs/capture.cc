#include "jobs/capture.h"

#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "base/decode.h"
#include "base/file_hash.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/units.h"

namespace falaj::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 1000;
constexpr std::size_t kPathMax = 1024;
constexpr std::size_t kDiffMax = 64 * 1024;
constexpr std::size_t kOutputNamesMax = 10'000;

Error wrong(const Fields& fields, const std::string& what) {
  return Error(ErrorId::kOutOfRange, fields.where() + ": " + what);
}

bool is_hex(std::string_view text) {
  return text.size() <= 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<std::string> hex_text(Fields& fields, std::string_view key) {
  std::string text = FALAJ_TRY(fields.text(key));
  if (!is_hex(text)) return wrong(fields, "'" + std::string(key) + "' is a hash in hexadecimal");
  return text;
}

Result<Value> decode_files(Fields& code) {
  const Value files = FALAJ_TRY(code.object("files"));
  if (!files.is_object()) return Value::object();
  if (files.as_object().size() > kFilesMax) return wrong(code, "'files' has at most 1000 entries");
  for (const auto& [path, hash] : files.as_object()) {
    const bool named = !path.empty() && path.size() <= kPathMax && is_valid_utf8(path);
    if (!named || !hash.is_string() || !is_hex(hash.as_string())) {
      return wrong(code, "'files' are paths with a hash in hexadecimal each");
    }
  }
  return files;
}

Result<Value> decode_code(const Value& value) {
  Fields fields(value, "capture code");
  Value out;
  out["commit"] = FALAJ_TRY(hex_text(fields, "commit"));
  out["files"] = FALAJ_TRY(decode_files(fields));
  out["diff_sha256"] = FALAJ_TRY(hex_text(fields, "diff_sha256"));
  const std::string diff = FALAJ_TRY(fields.text("diff"));
  if (diff.size() > kDiffMax) return wrong(fields, "'diff' has at most 64 KiB");
  out["diff"] = diff;
  FALAJ_TRY(fields.finish());
  return out;
}

Result<Value> decode_lock(const Value& value) {
  Fields fields(value, "capture lock");
  Value out;
  out["file"] = FALAJ_TRY(fields.required_text("file"));
  out["sha256"] = FALAJ_TRY(hex_text(fields, "sha256"));
  FALAJ_TRY(fields.finish());
  if (out.text("file").size() > kPathMax) return wrong(fields, "'file' is too long");
  return out;
}

Result<Value> decode_data(const Value& value) {
  Fields fields(value, "capture data");
  Value out;
  const std::string name = FALAJ_TRY(fields.required_text("training_set"));
  FALAJ_TRY(check_name("training_set", name));
  out["training_set"] = name;
  FALAJ_TRY(fields.finish());
  return out;
}

// The value of the first line of a kernel's file that begins so.
std::string cpu_fact(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    return line.size() > colon + 2 ? line.substr(colon + 2) : "";
  }
  return "";
}

// In an order of their own: kernels differ in theirs.
std::string cpu_flags() {
  std::string text = cpu_fact("flags");
  if (text.empty()) text = cpu_fact("Features");
  std::istringstream words(text);
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::string out;
  for (const std::string& flag : flags) out += (out.empty() ? "" : " ") + flag;
  return out;
}

std::string shown(const Value& value) {
  if (value.is_null()) return "nothing";
  std::string text = value.is_string() ? value.as_string() : to_json(value);
  constexpr std::size_t kShown = 64;
  if (text.size() > kShown) text = text.substr(0, kShown - 3) + "…";
  return text.empty() ? "nothing" : text;
}

struct Listed {
  std::set<fs::path> files;  // And links, and whatever else is no folder.
  std::int64_t bytes = 0;    // As they would be read.
  bool whole = true;         // Not more names than are looked at.
  bool readable = true;
};

Listed list_output(const std::string& folder) {
  Listed out;
  std::error_code error;
  std::size_t names = 0;
  // The command could put a link in its place.
  const bool own = fs::is_directory(fs::symlink_status(folder, error));
  for (fs::recursive_directory_iterator at(own ? folder : "", error), end; !error && at != end;
       at.increment(error)) {
    if (++names > kOutputNamesMax) {
      out.whole = false;
      break;
    }
    std::error_code ignored;
    const fs::file_status status = at->symlink_status(ignored);
    if (fs::is_directory(status)) continue;
    out.files.insert(at->path());
    if (!fs::is_regular_file(status)) continue;
    const std::uintmax_t size = fs::file_size(at->path(), ignored);
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    const bool adds = !ignored && size <= static_cast<std::uintmax_t>(kMost - out.bytes);
    if (!ignored) out.bytes = adds ? out.bytes + static_cast<std::int64_t>(size) : kMost;
  }
  out.readable = !own || !error;
  return out;
}

// Nothing when one of them cannot be read.
std::optional<std::string> hash_files(const std::string& folder, const std::set<fs::path>& files) {
  Sha256Hasher hasher;
  std::error_code error;
  for (const fs::path& path : files) {
    const fs::file_status status = fs::symlink_status(path, error);
    hasher.update(path.lexically_relative(folder).string() + '\n');
    if (fs::is_symlink(status)) {
      hasher.update(fs::read_symlink(path, error).string() + '\n');
      continue;
    }
    if (!fs::is_regular_file(status)) return std::nullopt;  // A pipe would be waited for.
    const auto hash = file_sha256(path.string());
    if (!hash) return std::nullopt;
    hasher.update(*hash + '\n');
  }
  return hasher.finish().hex();
}

// Two values by name, and the first member that differs.
std::optional<Difference> compare_members(const std::string& what, const Value& before,
                                          const Value& after) {
  std::set<std::string> names;
  for (const Value* each : {&before, &after}) {
    if (!each->is_object()) continue;
    for (const auto& [name, value] : each->as_object()) names.insert(name);
  }
  for (const std::string& name : names) {
    const Value& a = before[name];
    const Value& b = after[name];
    if (!(a == b)) return Difference{what + ": " + name, shown(a), shown(b)};
  }
  return std::nullopt;
}

std::optional<Difference> compare(const std::string& what, const Value& before,
                                  const Value& after) {
  if (before == after) return std::nullopt;
  return Difference{what, shown(before), shown(after)};
}

// A word of the command by itself reads better than the whole of it.
std::optional<Difference> compare_command(const Value& before, const Value& after) {
  if (!before.is_array() || !after.is_array() ||
      before.as_array().size() != after.as_array().size()) {
    return compare("command", before, after);
  }
  for (std::size_t i = 0; i < before.as_array().size(); ++i) {
    if (before.as_array()[i] == after.as_array()[i]) continue;
    return compare("command: word " + std::to_string(i + 1), before.as_array()[i],
                   after.as_array()[i]);
  }
  return std::nullopt;
}

std::optional<Difference> compare_code(const Value& before, const Value& after) {
  if (auto found = compare("code: commit", before["commit"], after["commit"])) return found;
  if (auto found = compare_members("code", before["files"], after["files"])) return found;
  return compare("code: diff", before["diff_sha256"], after["diff_sha256"]);
}

}  // namespace

Result<Value> decode_capture(const Value& capture) {
  if (capture.is_null()) return Value();
  Fields fields(capture, "capture");
  Value out = Value::object();
  const Value code = FALAJ_TRY(fields.object("code"));
  if (!fields.any("code").is_null()) out["code"] = FALAJ_TRY(decode_code(code));
  const Value lock = FALAJ_TRY(fields.object("lock"));
  if (!fields.any("lock").is_null()) out["lock"] = FALAJ_TRY(decode_lock(lock));
  const Value data = FALAJ_TRY(fields.object("data"));
  if (!fields.any("data").is_null()) out["data"] = FALAJ_TRY(decode_data(data));
  if (!fields.any("seed").is_null()) {
    // What Python takes for its own.
    out["seed"] = FALAJ_TRY(fields.integer("seed", 0, 0, 4'294'967'295));
  }
  FALAJ_TRY(fields.finish());
  return out;
}

const Value& machine_facts() {
  static const Value facts = [] {
    Value out;
    utsname names{};
    ::uname(&names);
    out["cpu"] = cpu_fact("model name");
    out["flags"] = cpu_flags();
    out["kernel"] = std::string(names.release) + " " + names.machine;
    return out;
  }();
  return facts;
}

Value output_of(const std::string& folder, std::string_view log, std::int64_t disk_bytes_max) {
  const Listed listed = list_output(folder);
  const std::int64_t bytes_max =
      disk_bytes_max > 0 ? std::min(disk_bytes_max, kOutputBytesMax) : kOutputBytesMax;
  const bool logged = listed.files.empty() && listed.whole && listed.readable;
  Value out;
  out["of"] = logged ? "log" : "files";
  out["files"] = listed.files.size();
  out["bytes"] = logged ? static_cast<std::int64_t>(log.size()) : listed.bytes;
  out["sha256"] = Value();
  if (!listed.whole) {
    out["not_hashed"] = "it has over " + std::to_string(kOutputNamesMax) + " names";
  } else if (listed.bytes > bytes_max) {
    out["not_hashed"] = "its files are " + format_bytes(listed.bytes) + " and at most " +
                        format_bytes(bytes_max) + " are hashed";
  } else if (logged) {
    out["sha256"] = sha256_hex(log);
  } else if (const auto hash = listed.readable ? hash_files(folder, listed.files) : std::nullopt) {
    out["sha256"] = *hash;
  } else {
    out["not_hashed"] = "not all of its files can be read";
  }
  return out;
}

std::optional<Difference> first_difference(const Value& before, const Value& after) {
  const Value& a = before["capture"];
  const Value& b = after["capture"];
  if (auto found = compare_command(before["command"], after["command"])) return found;
  if (auto found = compare_members("env", before["env"], after["env"])) return found;
  if (auto found = compare_members("array", before["array"], after["array"])) return found;
  if (auto found = compare_members("params", before["params"], after["params"])) return found;
  if (auto found = compare("workers", before["workers"], after["workers"])) return found;
  if (auto found = compare("groups", before["groups"], after["groups"])) return found;
  if (auto found = compare("seed", a["seed"], b["seed"])) return found;
  if (auto found = compare("runtime", before["runtime"]["digest"], after["runtime"]["digest"])) {
    return found;
  }
  if (auto found = compare_code(a["code"], b["code"])) return found;
  if (auto found = compare("lock", a["lock"]["sha256"], b["lock"]["sha256"])) return found;
  if (auto found = compare_members("data", a["data"], b["data"])) return found;
  if (a["machine"].is_null() || b["machine"].is_null()) return std::nullopt;  // Not captured.
  return compare_members("machine", a["machine"], b["machine"]);
}

}  // namespace falaj::jobs
