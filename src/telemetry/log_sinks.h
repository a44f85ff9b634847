// telemetry/log_sinks.h — where log lines go: one JSON object a line for machines, or a line of
// text for people.
#pragma once

#include <memory>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"

namespace falaj::telemetry {

enum class LogFormat : std::uint8_t { kText, kJson };

// Writes each event as one line, in one write call, to `fd` (2 for standard error). Lines of
// several threads never mix. A descriptor that cannot be written to loses lines, never blocks the
// caller for longer than the write itself. `clock` outlives the sink; `fd` is not closed.
//
//   kJson  {"time":"2026-11-16T08:30:00.123Z","level":"info","event":"model loaded","version":3}
//   kText  2026-11-16T08:30:00.123Z INFO  model loaded version=3 name="two words"
std::unique_ptr<log::Sink> make_log_sink(LogFormat format, int fd, const Clock& clock);

// "debug", "info", "warn", "error". kInvalidArgument otherwise.
Result<log::Level> parse_log_level(std::string_view text);

}  // namespace falaj::telemetry
