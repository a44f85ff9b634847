// base/log.h — the log front: one constant event name plus typed fields.
//
//   log::info("model loaded", {{"model", name}, {"version", version}});
//
// Never a feature value, never a secret. Where lines go is decided by telemetry (a sink set once
// at start); before that, and in tests, they are dropped. Thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace falaj::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };

struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <class N>
    requires std::is_integral_v<N>
  Field(std::string_view k, N v) : key(k), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view k, double v) : key(k), value(v) {}

  std::string_view key;
  std::variant<std::string, std::int64_t, double> value;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(Level level, std::string_view event, const std::vector<Field>& fields) = 0;
};

// Not owned; nullptr drops everything. Set once before threads start.
void set_sink(Sink* sink, Level least);
// Whether a line of that level goes anywhere: asked before fields are made on a hot path. Two
// atomic loads.
bool enabled(Level level);

void debug(std::string_view event, std::initializer_list<Field> fields = {});
void info(std::string_view event, std::initializer_list<Field> fields = {});
void warn(std::string_view event, std::initializer_list<Field> fields = {});
void error(std::string_view event, std::initializer_list<Field> fields = {});

}  // namespace falaj::log
