#include "config/settings.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/check.h"
#include "base/decode.h"
#include "base/units.h"
#include "config/yaml.h"

extern char** environ;

namespace falaj::config {
namespace {

const Setting* find(const std::vector<Setting>& declarations, std::string_view key) {
  const auto found = std::find_if(declarations.begin(), declarations.end(),
                                  [key](const Setting& s) { return s.key == key; });
  return found == declarations.end() ? nullptr : &*found;
}

Error unknown(const std::vector<Setting>& declarations, std::string_view key,
              std::string_view where) {
  std::vector<std::string> names;
  for (const Setting& setting : declarations) names.emplace_back(setting.key);
  const std::string nearest = nearest_name(key, names);
  std::string message(where);
  message += ": there is no setting '" + std::string(key.substr(0, 128)) + "'";
  message += nearest.empty() ? ": 'falaj config show' lists them all"
                             : ": did you mean '" + nearest + "'?";
  return Error(ErrorId::kUnknownSetting, std::move(message));
}

// The setting of an environment variable; null for one that is none of ours. Programs around Falaj
// have FALAJ_… variables of their own (FALAJ_SERVER of the clients), so an unknown one is refused
// only where it must be meant for us: under a section's name, or one slip away from a setting.
Result<const Setting*> find_variable(const std::vector<Setting>& declarations,
                                     const std::string& name) {
  std::vector<std::string> names;
  bool ours = false;
  for (const Setting& setting : declarations) {
    names.push_back(environment_name(setting.key));
    if (names.back() == name) return &setting;
    const std::string_view section = setting.key.substr(0, setting.key.find('.'));
    ours = ours || name.starts_with(environment_name(section) + "_");
  }
  const std::string nearest = name.starts_with("FALAJ_") ? nearest_name(name, names) : "";
  if (!ours && nearest.empty()) return nullptr;
  return Error(ErrorId::kUnknownSetting,
               "environment: there is no setting for '" + name + "'" +
                   (nearest.empty() ? ": unset it" : ": did you mean '" + nearest + "'?"));
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorId::kWrongType,
                 "'" + std::string(text.substr(0, 64)) + "' is not a whole number");
  }
  return value;
}

Result<std::int64_t> parse_number(const Setting& setting, std::string_view text) {
  switch (setting.type) {
    case SettingType::kInteger:
      return parse_integer(text);
    case SettingType::kBytes:
      return parse_bytes(text);
    case SettingType::kDuration:
      return FALAJ_TRY(parse_duration(text)).nanos;
    case SettingType::kText:
    case SettingType::kChoice:
      return std::int64_t{0};
  }
  return std::int64_t{0};
}

Result<std::int64_t> checked_number(const Setting& setting, std::string_view text) {
  const std::int64_t number = FALAJ_TRY(parse_number(setting, text));
  const bool bounded = setting.type != SettingType::kText && setting.type != SettingType::kChoice;
  const bool fits = bounded ? number >= setting.min && number <= setting.max
                            : setting.type == SettingType::kText ||
                                  std::find(setting.choices.begin(), setting.choices.end(), text) !=
                                      setting.choices.end();
  if (fits) return number;
  // A secret's text never stands in a message.
  const std::string value = setting.secrecy == Secrecy::kSecret
                                ? "the value"
                                : "'" + std::string(text.substr(0, 64)) + "'";
  return Error(ErrorId::kOutOfRange, value + " is not " + describe_type(setting));
}

// {server: {port: 1}} and {server.port: 1} both give "server.port".
Status flatten(const Value& value, const std::string& prefix, const std::string& where,
               std::map<std::string, Value>& out) {
  for (const auto& [key, member] : value.as_object()) {
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (member.is_object()) {
      FALAJ_TRY(flatten(member, path, where, out));
    } else if (!out.emplace(path, member).second) {
      return Error(ErrorId::kDuplicateField,
                   where + ": '" + path + "' stands twice, nested and dotted: keep one");
    }
  }
  return {};
}

Result<std::map<std::string, Value>> read_file(const std::string& text, const std::string& where) {
  auto documents = parse_yaml(text);
  if (!documents.ok()) return documents.error().within(where);
  std::map<std::string, Value> out;
  if (documents->empty()) return out;
  if (documents->size() > 1 || !documents->front().is_object()) {
    return Error(ErrorId::kWrongType, where +
                                          ": settings are one YAML map, like 'server: {port: "
                                          "7070}'");
  }
  FALAJ_TRY(flatten(documents->front(), "", where, out));
  return out;
}

Result<std::string> scalar_text(const std::string& key, const Value& value,
                                const std::string& where) {
  if (value.is_string()) return value.as_string();
  if (value.is_int()) return std::to_string(value.as_int());
  return Error(ErrorId::kWrongType, where + ": '" + key +
                                        "' must be a text or a whole number, but "
                                        "it is " +
                                        std::string(value.type_name()));
}

std::string number_text(const Setting& setting, std::int64_t number) {
  if (setting.type == SettingType::kDuration) return falaj::to_string(Duration{number});
  if (setting.type == SettingType::kBytes) return format_bytes(number);
  return std::to_string(number);
}

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
  }
  return "";
}

}  // namespace

std::string environment_name(std::string_view key) {
  std::string name = "FALAJ_";
  for (const char c : key) {
    name += c == '.' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
  }
  return name;
}

std::string describe_type(const Setting& setting) {
  const std::string range =
      " from " + number_text(setting, setting.min) + " to " + number_text(setting, setting.max);
  switch (setting.type) {
    case SettingType::kText:
      return "a text";
    case SettingType::kInteger:
      return "a whole number" + range;
    case SettingType::kBytes:
      return "a size" + range;
    case SettingType::kDuration:
      return "a duration" + range;
    case SettingType::kChoice: {
      std::string text = "one of";
      for (const std::string_view choice : setting.choices) text += " " + std::string(choice);
      return text;
    }
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with("FALAJ_") && equals != std::string_view::npos) {
      out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return out;
}

Result<Settings> Settings::load(const Sources& sources, const std::vector<Setting>& declarations) {
  Settings settings;
  settings.declarations_ = &declarations;
  const auto put = [&settings](const Setting& setting, std::string text, Origin origin,
                               const std::string& where) -> Status {
    Result<std::int64_t> number = checked_number(setting, text);
    if (!number.ok()) return number.error().within(where + ": " + std::string(setting.key));
    settings.entries_[std::string(setting.key)] = {&setting, std::move(text), *number, origin,
                                                   where};
    return {};
  };
  for (const Setting& setting : declarations) {
    FALAJ_TRY(put(setting, std::string(setting.fallback), Origin::kDefault, "default"));
  }
  if (sources.file_text) {
    const std::string where = "file " + sources.file_name;
    for (const auto& [key, value] : FALAJ_TRY(read_file(*sources.file_text, where))) {
      const Setting* setting = find(declarations, key);
      if (setting == nullptr) return unknown(declarations, key, where);
      FALAJ_TRY(put(*setting, FALAJ_TRY(scalar_text(key, value, where)), Origin::kFile, where));
    }
  }
  for (const auto& [name, text] : sources.environment) {
    const Setting* setting = FALAJ_TRY(find_variable(declarations, name));
    if (setting == nullptr) continue;
    FALAJ_TRY(put(*setting, text, Origin::kEnvironment, "environment " + name));
  }
  for (const auto& [key, text] : sources.flags) {
    const std::string where = "--set " + key + "=…";
    const Setting* setting = find(declarations, key);
    if (setting == nullptr) return unknown(declarations, key, where);
    FALAJ_TRY(put(*setting, text, Origin::kFlag, where));
  }
  return settings;
}

const Settings::Entry& Settings::entry(std::string_view key) const {
  const auto found = entries_.find(key);
  FALAJ_CHECK(found != entries_.end() && "the setting is declared");
  return found->second;
}

const std::string& Settings::text(std::string_view key) const {
  const Entry& e = entry(key);
  FALAJ_CHECK(e.setting->type == SettingType::kText || e.setting->type == SettingType::kChoice);
  return e.text;
}

std::int64_t Settings::integer(std::string_view key) const {
  const Entry& e = entry(key);
  FALAJ_CHECK(e.setting->type == SettingType::kInteger || e.setting->type == SettingType::kBytes);
  return e.number;
}

Duration Settings::duration(std::string_view key) const {
  const Entry& e = entry(key);
  FALAJ_CHECK(e.setting->type == SettingType::kDuration);
  return Duration{e.number};
}

Origin Settings::origin(std::string_view key) const { return entry(key).origin; }

std::string Settings::origin_text(std::string_view key) const { return entry(key).origin_text; }

std::string Settings::shown(std::string_view key) const {
  const Entry& e = entry(key);
  return e.setting->secrecy == Secrecy::kSecret && !e.text.empty() ? "***" : e.text;
}

Value Settings::to_value() const {
  Value out = Value::array();
  for (const Setting& setting : *declarations_) {
    Value row = Value::object();
    row["key"] = setting.key;
    row["value"] = shown(setting.key);
    row["origin"] = origin_text(setting.key);
    row["source"] = origin_name(origin(setting.key));
    row["default"] = setting.fallback;
    row["type"] = describe_type(setting);
    row["help"] = setting.help;
    out.push(std::move(row));
  }
  return out;
}

Result<std::string> Settings::explain(std::string_view key) const {
  const Setting* setting = find(*declarations_, key);
  if (setting == nullptr) return unknown(*declarations_, key, "config explain");
  const std::string fallback =
      setting->fallback.empty() ? "(none)" : std::string(setting->fallback);
  const std::string now = shown(key).empty() ? "(none)" : shown(key);
  return std::string(setting->key) + "\n  " + std::string(setting->help) +
         "\n  type:        " + describe_type(*setting) + "\n  default:     " + fallback +
         "\n  environment: " + environment_name(key) + "\n  flag:        --set " +
         std::string(key) + "=…" + "\n  now:         " + now + " (" + origin_text(key) + ")\n";
}

}  // namespace falaj::config
