#include "telemetry/log_sinks.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/json.h"
#include "base/mutex.h"

namespace falaj::telemetry {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error"};
constexpr std::string_view kLevelColumns[] = {"DEBUG ", "INFO  ", "WARN  ", "ERROR "};
// A line longer than this is cut: a log is not a place for payloads.
constexpr std::size_t kFieldBytesMax = 8 * 1024;

std::string_view cut(std::string_view text) { return text.substr(0, kFieldBytesMax); }

void append_json_field(std::string& out, const log::Field& field) {
  out += ',';
  append_json_string(out, field.key);
  out += ':';
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    append_json_string(out, cut(*text));
  } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*integer);
  } else {
    append_json_number(out, std::get<double>(field.value));
  }
}

// A bare word stays bare; anything that would confuse a reader is quoted, so a value can never
// begin a line of its own.
void append_text_field(std::string& out, const log::Field& field) {
  out += ' ';
  out.append(field.key);
  out += '=';
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    bool bare = !text->empty();
    for (const char c : *text) bare = bare && c > ' ' && c < '\x7f' && c != '"' && c != '=';
    if (bare) {
      out.append(cut(*text));
    } else {
      append_json_string(out, cut(*text));
    }
  } else if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*integer);
  } else {
    append_json_number(out, std::get<double>(field.value));
  }
}

class LineSink final : public log::Sink {
 public:
  LineSink(LogFormat format, int fd, const Clock& clock)
      : format_(format), fd_(fd), clock_(clock) {}

  void write(log::Level level, std::string_view event,
             const std::vector<log::Field>& fields) override {
    const std::string line =
        format_ == LogFormat::kJson ? json(level, event, fields) : text(level, event, fields);
    MutexLock lock(mutex_);
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  std::string now() const {
    const Timestamp t = clock_.now();
    return to_rfc3339({t.nanos - t.nanos % 1'000'000});
  }

  std::string json(log::Level level, std::string_view event,
                   const std::vector<log::Field>& fields) const {
    std::string out = "{\"time\":\"" + now() + "\",\"level\":\"";
    out.append(kLevelNames[static_cast<std::size_t>(level)]);
    out += "\",\"event\":";
    append_json_string(out, event);
    for (const log::Field& field : fields) append_json_field(out, field);
    return out + "}\n";
  }

  std::string text(log::Level level, std::string_view event,
                   const std::vector<log::Field>& fields) const {
    std::string out = now() + ' ';
    out.append(kLevelColumns[static_cast<std::size_t>(level)]);
    out.append(event);
    for (const log::Field& field : fields) append_text_field(out, field);
    return out + '\n';
  }

  const LogFormat format_;
  const int fd_;
  const Clock& clock_;
  Mutex mutex_;
};

}  // namespace

std::unique_ptr<log::Sink> make_log_sink(LogFormat format, int fd, const Clock& clock) {
  return std::make_unique<LineSink>(format, fd, clock);
}

Result<log::Level> parse_log_level(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (kLevelNames[i] == text) return static_cast<log::Level>(i);
  }
  return Error(Code::kInvalidArgument, "'" + std::string(text.substr(0, 64)) +
                                           "' is not a log level: use debug, info, warn or error");
}

}  // namespace falaj::telemetry
