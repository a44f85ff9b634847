// config/settings.h — every setting, declared once; and where each value came from.
//
// default < file (YAML) < environment (FALAJ_SERVER_PORT) < flag (--server.port). The declaration
// is also the reference page and `falaj config explain`. Only `app` and `cli` read settings; other
// modules get plain options.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/value.h"

namespace falaj::config {

enum class SettingType : std::uint8_t { kText, kInteger, kBytes, kDuration, kChoice };
enum class Secrecy : std::uint8_t { kPublic, kSecret };

struct Setting {
  std::string_view key;  // "server.port"
  SettingType type;
  std::string_view fallback;  // The default, written as a user would.
  std::string_view help;      // One sentence.
  std::int64_t min = 0;       // Bounds of integers, bytes, and nanoseconds.
  std::int64_t max = 0;
  std::vector<std::string_view> choices = {};
  Secrecy secrecy = Secrecy::kPublic;
};

// Every setting of Falaj, by key.
const std::vector<Setting>& declared();

// "FALAJ_SERVER_PORT" for "server.port".
std::string environment_name(std::string_view key);
// "a whole number from 0 to 65535", "one of text json": for help and messages.
std::string describe_type(const Setting& setting);

enum class Origin : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };

// What load() looks at. Nothing else is read: the caller brings the texts.
struct Sources {
  std::string file_name = {};                 // For messages and origins.
  std::optional<std::string> file_text = {};  // YAML: nested maps or dotted keys.
  std::vector<std::pair<std::string, std::string>> environment = {};  // Only FALAJ_… counts.
  std::vector<std::pair<std::string, std::string>> flags = {};        // Key and text.
};

// The FALAJ_… part of this process's environment.
std::vector<std::pair<std::string, std::string>> process_environment();

// Immutable once loaded; freely shared between threads.
class Settings {
 public:
  // FJ-1013 for a key nobody declared, with the nearest name (of environment variables, those under
  // a section's name or close to a setting's: others belong to other programs); FJ-1005/1006/1011
  // for a value that does not fit; FJ-1002 and the others of config/yaml.h for the file. Messages
  // name the origin.
  static Result<Settings> load(const Sources& sources,
                               const std::vector<Setting>& declarations = declared());

  // The value, read as its declared type. A key of another type, or not declared, stops the
  // process: it is a mistake in Falaj, not of its user.
  const std::string& text(std::string_view key) const;  // Text and choice.
  std::int64_t integer(std::string_view key) const;     // Integer and bytes.
  Duration duration(std::string_view key) const;

  Origin origin(std::string_view key) const;
  // "default", "file falaj.yaml", "environment FALAJ_SERVER_PORT", "flag --server.port".
  std::string origin_text(std::string_view key) const;
  // The value for people's eyes; *** for a secret that is set.
  std::string shown(std::string_view key) const;

  const std::vector<Setting>& declarations() const { return *declarations_; }
  // [{key, value, origin, help, type, default}] for `config show -o json`; secrets masked.
  Value to_value() const;
  // Help, type, bounds, default, environment name, present value and origin, as lines. FJ-1013
  // with the nearest name when there is no such setting.
  Result<std::string> explain(std::string_view key) const;

 private:
  struct Entry {
    const Setting* setting;
    std::string text;
    std::int64_t number = 0;  // Integer, bytes, nanoseconds.
    Origin origin = Origin::kDefault;
    std::string origin_text = "default";
  };
  const Entry& entry(std::string_view key) const;

  const std::vector<Setting>* declarations_ = nullptr;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace falaj::config
