#include "jobs/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/decode.h"
#include "base/hash.h"
#include "base/json.h"

namespace falaj::jobs::checkpoint {
namespace {

constexpr std::string_view kFormat = "falaj-checkpoint/1";
constexpr std::size_t kNameMax = 128;
constexpr std::size_t kDigits = 8;
constexpr std::int64_t kNumberMax = 999'999'999'999;

bool is_hex_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<FileEntry> decode_file(const Value& value) {
  Fields fields(value, "file");
  FileEntry file;
  file.path = FALAJ_TRY(fields.required_text("path"));
  file.bytes = FALAJ_TRY(fields.integer("bytes", -1, 0, INT64_MAX));
  file.sha256 = FALAJ_TRY(fields.required_text("sha256"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_path(file.path));
  if (!is_hex_hash(file.sha256)) return Error{Code::kInvalidArgument, "sha256 is no hash"};
  return file;
}

Result<Manifest> decode_body(const Value& body) {
  Fields fields(body, "checkpoint");
  Manifest manifest;
  manifest.number = FALAJ_TRY(fields.integer("number", 0, 1, kNumberMax));
  manifest.name = FALAJ_TRY(fields.required_text("name"));
  const std::string form = FALAJ_TRY(fields.choice("form", {"folder", "file"}));
  manifest.form = form == "file" ? Form::kFile : Form::kFolder;
  const std::string saved_at = FALAJ_TRY(fields.required_text("saved_at"));
  manifest.saved_at = FALAJ_TRY(parse_timestamp(saved_at));
  const Value& metric = fields.any("metric");
  if (metric.is_number()) manifest.metric = metric.as_double();
  const std::int64_t bytes = FALAJ_TRY(fields.integer("bytes", -1, 0, INT64_MAX));
  const Value::Array files = FALAJ_TRY(fields.list("files"));
  FALAJ_TRY(fields.finish());
  FALAJ_TRY(check_checkpoint_name(manifest.name));
  if (files.size() > kFilesMax) return Error{Code::kInvalidArgument, "too many files"};
  std::int64_t left = bytes;
  for (const Value& each : files) {
    manifest.files.push_back(FALAJ_TRY(decode_file(each)));
    if (manifest.files.back().bytes > left) return Error{Code::kInvalidArgument, "bytes"};
    left -= manifest.files.back().bytes;
  }
  if (left != 0) return Error{Code::kInvalidArgument, "bytes are not those of the files"};
  const auto before = [](const FileEntry& a, const FileEntry& b) { return a.path >= b.path; };
  if (std::adjacent_find(manifest.files.begin(), manifest.files.end(), before) !=
      manifest.files.end()) {
    return Error{Code::kInvalidArgument, "files are not in order"};
  }
  return manifest;
}

Error damaged(const std::string& why) {
  return {Code::kDataLoss, "the manifest is damaged: " + why};
}

}  // namespace

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const FileEntry& file : files) sum += file.bytes;
  return sum;
}

Value to_value(const Manifest& manifest) {
  Value value = Value::object();
  value["number"] = manifest.number;
  value["name"] = manifest.name;
  value["form"] = manifest.form == Form::kFile ? "file" : "folder";
  value["saved_at"] = to_rfc3339(manifest.saved_at);
  if (manifest.metric) value["metric"] = *manifest.metric;
  value["bytes"] = manifest.bytes();
  value["files"] = Value::array();
  for (const FileEntry& file : manifest.files) {
    Value each = Value::object();
    each["path"] = file.path;
    each["bytes"] = file.bytes;
    each["sha256"] = file.sha256;
    value["files"].push(std::move(each));
  }
  return value;
}

std::string encode_manifest(const Manifest& manifest) {
  Value value = Value::object();
  value["format"] = kFormat;
  value["checkpoint"] = to_value(manifest);
  value["sha256"] = sha256_hex(to_json(value["checkpoint"]));
  return to_json(value) + "\n";
}

Result<Manifest> decode_manifest(std::string_view text) {
  const Result<Value> value = parse_json(text, {.bytes_max = kManifestBytesMax, .depth_max = 8});
  if (!value.ok()) return damaged(value.error().message);
  if (value->text("format") != kFormat) return damaged("its format is not " + std::string(kFormat));
  const Value& body = (*value)["checkpoint"];
  if (value->text("sha256") != sha256_hex(to_json(body))) return damaged("its hash does not fit");
  const Result<Manifest> manifest = decode_body(body);
  if (!manifest.ok()) return damaged(manifest.error().message);
  return manifest;
}

Status check_checkpoint_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=+-";
  const bool good = !name.empty() && name.size() <= kNameMax && name.front() != '.' &&
                    !name.ends_with(".tmp") &&
                    name.find_first_not_of(kAllowed) == std::string_view::npos;
  if (good) return {};
  return Error{Code::kInvalidArgument,
               "a checkpoint's name is 1 to 128 letters, digits or ._=+- and begins with no dot"};
}

Status check_path(std::string_view path) {
  const Error refused{Code::kInvalidArgument,
                      "a checkpoint's file has a name that is not kept: over " +
                          std::to_string(kPathBytesMax) + " bytes, over " +
                          std::to_string(kDepthMax) + " folders deep, or no valid UTF-8"};
  if (path.empty() || path.size() > kPathBytesMax || !is_valid_utf8(path)) return refused;
  if (path.find('\0') != std::string_view::npos) return refused;
  std::size_t depth = 0;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || ++depth > kDepthMax) return refused;
    if (slash == std::string_view::npos) return {};
    path.remove_prefix(slash + 1);
  }
}

std::string folder_name(std::int64_t number, std::string_view name) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%08lld-", static_cast<long long>(number));
  return digits + std::string(name);
}

std::optional<std::int64_t> number_of(std::string_view folder) {
  const std::size_t dash = folder.find('-');
  if (dash == std::string_view::npos || dash < kDigits || dash > 12) return std::nullopt;
  std::int64_t number = 0;
  const auto read = std::from_chars(folder.data(), folder.data() + dash, number);
  if (read.ec != std::errc{} || read.ptr != folder.data() + dash || number < 1) return std::nullopt;
  if (dash + 1 == folder.size() || folder_name(number, folder.substr(dash + 1)) != folder) {
    return std::nullopt;
  }
  return number;
}

}  // namespace falaj::jobs::checkpoint
