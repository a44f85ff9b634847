#include "jobs/runtime.h"

#include <algorithm>
#include <cctype>

#include "base/decode.h"
#include "base/json.h"
#include "jobs/oci/layout.h"

namespace falaj::jobs {
namespace {

constexpr std::size_t kLockBytesMax = 256 * 1024;
constexpr std::size_t kFoldersMax = 32;
constexpr std::size_t kHashDigits = 64;

Error wrong(const std::string& where, const std::string& what) {
  return Error(ErrorId::kOutOfRange, where + ": " + what);
}

bool is_plain_path(const std::string& path) {
  return path.size() > 1 && path.starts_with('/') && path.find('\0') == std::string::npos &&
         path.find('\n') == std::string::npos;
}

Result<std::string> absolute(Fields& fields, std::string_view key) {
  std::string path = FALAJ_TRY(fields.required_text(key));
  if (is_plain_path(path)) return path;
  return wrong(fields.where(),
               "'" + std::string(key) + "' is a whole path on the server's machine");
}

bool is_word(std::string_view text, std::string_view more) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           more.find(c) != std::string_view::npos;
  });
}

bool is_hash(std::string_view text) {
  constexpr std::string_view kBegin = "--hash=sha256:";
  if (!text.starts_with(kBegin)) return false;
  text.remove_prefix(kBegin.size());
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_pinned(std::string_view text) {
  const std::size_t equals = text.find("==");
  if (equals == std::string_view::npos) return false;
  std::string_view name = text.substr(0, equals);
  if (name.ends_with(']')) {  // Extras: the packages they stand for are listed too.
    const std::size_t bracket = name.find('[');
    if (bracket == std::string_view::npos) return false;
    if (!is_word(name.substr(bracket + 1, name.size() - bracket - 2), "-_.,")) return false;
    name = name.substr(0, bracket);
  }
  // A first letter or digit: pip takes what begins with a dash for an option.
  const auto begins_well = [](std::string_view word) {
    return !word.empty() && std::isalnum(static_cast<unsigned char>(word.front())) != 0;
  };
  const std::string_view version = text.substr(equals + 2);
  return begins_well(name) && is_word(name, "-_.") && begins_well(version) &&
         is_word(version, ".+!_-");
}

// Where pip would see the end of a line or begin to read the text in another way, and we would not.
// A comment is where that could go unseen.
bool is_plain_text(std::string_view lock) {
  if (!is_valid_utf8(lock)) return false;
  for (std::size_t i = 0; i < lock.size(); ++i) {
    const auto c = static_cast<unsigned char>(lock[i]);
    const bool line_end = c == '\n' || (c == '\r' && lock.substr(i + 1).starts_with('\n'));
    if ((c < 0x20 && c != '\t' && !line_end) || c == 0x7f) return false;
    const std::string_view rest = lock.substr(i);
    // U+0080 to U+009F, U+2028, U+2029 and the byte order mark.
    if (c == 0xC2 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) < 0xA0) return false;
    for (const std::string_view end : {"\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBB\xBF"}) {
      if (rest.starts_with(end)) return false;
    }
  }
  return true;
}

// https://host/…, and nothing that only some may know: it is shown to everybody who sees the job.
bool is_index(std::string_view address) {
  constexpr std::string_view kScheme = "https://";
  if (!address.starts_with(kScheme)) return false;
  const bool plain = std::all_of(address.begin(), address.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '\\';
  });
  const std::string_view host =
      address.substr(kScheme.size(), address.find('/', kScheme.size()) - kScheme.size());
  return plain && !host.empty() && host.find('@') == std::string_view::npos;
}

// The words of one requirement, without what only marks lines; false for a line of nothing.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

Status check_requirement(const std::string& where, const std::vector<std::string_view>& words) {
  if (!is_pinned(words.front())) {
    return wrong(where, "lock: '" + std::string(words.front()) +
                            "' is no pinned requirement: write name==version --hash=sha256:…");
  }
  if (words.size() < 2 || !std::all_of(words.begin() + 1, words.end(), is_hash)) {
    return wrong(where, "lock: '" + std::string(words.front()) +
                            "' needs its hashes and nothing else: --hash=sha256: and 64 digits "
                            "(pip hash and pip-compile --generate-hashes write them)");
  }
  return {};
}

Result<RuntimeSpec> decode_venv(const Value& value, RuntimeSpec out) {
  Fields fields(value, "Runtime " + out.name + " spec venv");
  out.form = RuntimeForm::kVenv;
  out.python = FALAJ_TRY(absolute(fields, "python"));
  out.lock = FALAJ_TRY(fields.required_text("lock"));
  FALAJ_TRY(read_lock(fields.where(), out.lock));
  out.wheels = FALAJ_TRY(fields.text("wheels"));
  out.index = FALAJ_TRY(fields.text("index"));
  if (out.wheels.empty() == out.index.empty()) {
    return wrong(fields.where(), "either 'wheels', a folder, or 'index', an address, is needed");
  }
  if (!out.wheels.empty() && !is_plain_path(out.wheels)) {
    return wrong(fields.where(), "'wheels' is a whole path on the server's machine");
  }
  if (!out.index.empty() && !is_index(out.index)) {
    return wrong(fields.where(),
                 "'index' is an address that begins with https:// and holds no user or password, "
                 "which everybody would see: give a folder of wheels instead");
  }
  FALAJ_TRY(fields.finish());
  return out;
}

Result<RuntimeSpec> decode_host(const Value& value, RuntimeSpec out) {
  Fields fields(value, "Runtime " + out.name + " spec host");
  out.form = RuntimeForm::kHost;
  out.python = FALAJ_TRY(absolute(fields, "python"));
  FALAJ_TRY(fields.finish());
  return out;
}

Result<RuntimeSpec> decode_image(const Value& value, RuntimeSpec out) {
  Fields fields(value, "Runtime " + out.name + " spec image");
  out.form = RuntimeForm::kImage;
  out.layout = FALAJ_TRY(absolute(fields, "layout"));
  const std::string digest = FALAJ_TRY(fields.required_text("digest"));
  out.image = FALAJ_TRY(oci::parse_digest(digest));
  FALAJ_TRY(fields.finish());
  return out;
}

std::vector<std::string> texts_of(const Value& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return out;
  for (const Value& each : value.as_array()) out.push_back(each.as_string());
  return out;
}

Value value_of(const std::vector<std::string>& texts) {
  Value out = Value::array();
  for (const std::string& text : texts) out.push(text);
  return out;
}

}  // namespace

std::string_view form_name(RuntimeForm form) {
  switch (form) {
    case RuntimeForm::kHost:
      return "host";
    case RuntimeForm::kVenv:
      return "venv";
    case RuntimeForm::kImage:
      return "image";
  }
  return "host";
}

Result<std::string> read_lock(const std::string& where, std::string_view lock) {
  if (lock.size() > kLockBytesMax) return wrong(where, "'lock' has at most 256 KiB");
  if (!is_plain_text(lock)) {
    return wrong(where, "'lock' is UTF-8 without control characters; its lines end with \\n");
  }
  std::string joined(lock);
  for (std::size_t at = 0; (at = joined.find("\\\n", at)) != std::string::npos;) {
    const std::size_t line = joined.rfind('\n', at) + 1;
    // Where a comment goes on, pip begins a new line.
    if (joined.find('#', line) < at) return wrong(where, "lock: a comment ends with a backslash");
    joined.replace(at, 2, "  ");
  }
  std::string out;
  for (std::string_view rest = joined; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::vector<std::string_view> words = words_of(rest.substr(0, end));
    if (!words.empty()) FALAJ_TRY(check_requirement(where, words));
    for (const std::string_view word : words) out.append(word).append(" ");
    if (!words.empty()) out.back() = '\n';
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  if (out.empty()) return wrong(where, "'lock' names no package; for none of them use 'host'");
  return out;
}

Result<RuntimeSpec> decode_runtime(const storage::Object& object) {
  Fields fields(object.spec, "Runtime " + object.name + " spec");
  RuntimeSpec out;
  out.name = object.name;
  out.readable = FALAJ_TRY(fields.texts("readable"));
  if (out.readable.size() > kFoldersMax ||
      !std::all_of(out.readable.begin(), out.readable.end(), is_plain_path)) {
    return wrong(fields.where(), "'readable' lists at most 32 whole paths, and not '/'");
  }
  const bool host = !fields.any("host").is_null();
  const bool venv = !fields.any("venv").is_null();
  const bool image = !fields.any("image").is_null();
  if (int{host} + int{venv} + int{image} != 1) {
    return wrong(fields.where(), "needs one of 'host', 'venv' and 'image'");
  }
  const Value form = FALAJ_TRY(fields.object(host ? "host" : venv ? "venv" : "image"));
  FALAJ_TRY(fields.finish());
  if (image) return decode_image(form, std::move(out));
  return host ? decode_host(form, std::move(out)) : decode_venv(form, std::move(out));
}

storage::KindInfo runtime_kind() {
  storage::KindInfo info;
  info.kind = "Runtime";
  info.summary =
      "What commands find when they begin: an interpreter, a virtual environment or an image.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    FALAJ_TRY(decode_runtime(object));
    return std::vector<storage::Reference>{};
  };
  return info;
}

Value to_value(const RuntimeUse& use) {
  Value out;
  out["name"] = use.name;
  out["form"] = std::string(form_name(use.form));
  out["digest"] = use.digest;
  out["folder"] = use.folder;
  out["path"] = use.path;
  out["readable"] = value_of(use.readable);
  if (use.form == RuntimeForm::kImage) out["env"] = value_of(use.env);
  return out;
}

RuntimeUse runtime_of(const Value& payload) {
  RuntimeUse out;
  if (!payload.is_object()) return out;
  const Value& value = payload["runtime"];
  if (value.is_string()) out.name = value.as_string();
  if (!value.is_object()) return out;
  out.name = value.text("name");
  for (const RuntimeForm form : {RuntimeForm::kVenv, RuntimeForm::kImage}) {
    if (value.text("form") == form_name(form)) out.form = form;
  }
  out.digest = value.text("digest");
  out.folder = value.text("folder");
  out.path = value.text("path");
  out.readable = texts_of(value["readable"]);
  out.env = texts_of(value["env"]);
  return out;
}

}  // namespace falaj::jobs
