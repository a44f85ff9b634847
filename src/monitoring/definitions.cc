// How a Monitor is declared, and how windows and alarms are shown.
#include <charconv>

#include "base/decode.h"
#include "base/units.h"
#include "monitoring/monitors.h"

namespace falaj::monitoring {
namespace {

constexpr std::uint64_t kWindowRowsMin = 50;
constexpr std::uint64_t kWindowRowsMax = 10'000'000;
constexpr std::uint64_t kWindowsSeenMax = 1000;

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

// "2000 rows" or "1h".
Status read_window(const std::string& text, const std::string& where, Monitor& monitor) {
  constexpr std::string_view kSuffix = " rows";
  if (!text.ends_with(kSuffix)) {
    monitor.window_time = FALAJ_TRY(parse_duration(text));
    if (monitor.window_time < Duration::seconds(1)) {
      return Error(ErrorId::kOutOfRange, where + ": window '" + text + "' is under 1s");
    }
    return {};
  }
  const auto rows = parse_count(std::string_view(text).substr(0, text.size() - kSuffix.size()));
  if (!rows.has_value() || *rows < kWindowRowsMin || *rows > kWindowRowsMax) {
    return Error(ErrorId::kOutOfRange,
                 where + ": window '" + text + "' must be " + std::to_string(kWindowRowsMin) +
                     " to " + std::to_string(kWindowRowsMax) + " rows, or a time such as 1h");
  }
  monitor.window_rows = *rows;
  return {};
}

// "2 in 3".
Status read_of(const std::string& text, const std::string& where, Monitor& monitor) {
  constexpr std::string_view kIn = " in ";
  const std::size_t middle = text.find(kIn);
  const auto bad = parse_count(std::string_view(text).substr(0, middle));
  const auto seen = middle == std::string::npos
                        ? std::nullopt
                        : parse_count(std::string_view(text).substr(middle + kIn.size()));
  if (!bad || !seen || *bad < 1 || *bad > *seen || *seen > kWindowsSeenMax) {
    return Error(ErrorId::kOutOfRange,
                 where + ": of '" + text + "' must be like '2 in 3': k windows of the last n");
  }
  monitor.windows_bad = *bad;
  monitor.windows_seen = *seen;
  return {};
}

}  // namespace

Result<Monitor> decode_monitor(const storage::Object& object) {
  Fields fields(object.spec, "Monitor " + object.name + " spec");
  Monitor monitor;
  monitor.name = object.name;
  monitor.deployment = FALAJ_TRY(fields.required_text("deployment"));
  FALAJ_TRY(check_name("deployment", monitor.deployment));
  FALAJ_TRY(read_window(FALAJ_TRY(fields.required_text("window")), fields.where(), monitor));
  const Value drift_value = FALAJ_TRY(fields.object("drift"));
  FALAJ_TRY(fields.finish());

  Fields drift(drift_value, fields.where() + ".drift");
  monitor.method = FALAJ_TRY(parse_method(FALAJ_TRY(drift.choice("method", {"psi", "js"}))));
  monitor.threshold = FALAJ_TRY(drift.number("threshold", 0.2));
  if (!(monitor.threshold > 0 && monitor.threshold <= 100)) {
    return Error(ErrorId::kOutOfRange,
                 drift.where() + ": threshold must be over 0 and at most 100");
  }
  FALAJ_TRY(read_of(FALAJ_TRY(drift.text("of", "1 in 1")), drift.where(), monitor));
  FALAJ_TRY(drift.finish());
  return monitor;
}

std::vector<storage::KindInfo> kinds() {
  storage::KindInfo info;
  info.kind = "Monitor";
  info.summary = "Watches the inputs of a deployment and raises an alarm when they drift.";
  info.check = [](const storage::Object& object) -> Result<std::vector<storage::Reference>> {
    const Monitor monitor = FALAJ_TRY(decode_monitor(object));
    return std::vector<storage::Reference>{{"Deployment", object.project, monitor.deployment}};
  };
  return {info};
}

Value to_value(const Window& window) {
  Value value;
  value["id"] = window.id;
  value["project"] = window.project;
  value["monitor"] = window.monitor;
  value["zone"] = window.zone.name();
  value["version"] = window.version;
  value["from"] = to_rfc3339(window.from);
  value["to"] = to_rfc3339(window.to);
  value["rows"] = window.profile.rows;
  value["drift"] = to_value(window.drift);
  value["alarm"] = window.alarm;
  return value;
}

Value to_value(const Monitors::Alarm& alarm) {
  Value value;
  value["kind"] = "drift";
  value["id"] = alarm.id;
  value["project"] = alarm.project;
  value["monitor"] = alarm.monitor;
  value["zone"] = alarm.zone.name();
  value["deployment"] = alarm.deployment;
  value["version"] = alarm.version;
  value["window"] = alarm.window;
  value["drift"] = to_value(alarm.drift);
  value["at"] = to_rfc3339(alarm.at);
  value["open"] = alarm.open;
  return value;
}

Value to_value(const Monitors::Histograms& histograms) {
  Value value;
  value["window"] = to_value(histograms.window);
  value["reference_rows"] = histograms.reference.rows;
  value["current_rows"] = histograms.current.rows;
  value["features"] = Value::array();
  for (std::size_t i = 0; i < histograms.bins.size(); ++i) {
    Value row = to_value(histograms.bins[i]);
    row["reference"] = Value::array();
    row["current"] = Value::array();
    for (const std::uint64_t count : histograms.reference.counts[i]) row["reference"].push(count);
    for (const std::uint64_t count : histograms.current.counts[i]) row["current"].push(count);
    value["features"].push(std::move(row));
  }
  return value;
}

}  // namespace falaj::monitoring
