// monitoring/internal/store.h — references, windows and alarms in the metadata store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitoring/internal/reference.h"
#include "monitoring/monitors.h"
#include "storage/sql.h"

namespace falaj::monitoring {

struct ModelKey {
  std::string project;
  std::string model;
  std::int64_t version = 0;
};

Result<std::optional<Reference>> find_reference(storage::SqlTransaction& tx, const ModelKey& key);
// The first one written stays: a reference is frozen.
Status insert_reference(storage::SqlTransaction& tx, const ModelKey& key,
                        const Reference& reference);

// Gives the window its id. Whether it was judged at all decides if it counts for an alarm.
enum class Verdict : std::uint8_t { kUnjudged, kSteady, kDrifted };
Status insert_window(storage::SqlTransaction& tx, const std::string& model, Verdict verdict,
                     Window& window);
// Keeps the monitor's newest windows and those that an alarm rests on; the others would grow with
// the traffic for ever.
inline constexpr std::int64_t kWindowsKept = 5000;
Status forget_windows(storage::SqlTransaction& tx, const Window& newest,
                      std::int64_t kept = kWindowsKept);
// How many of the last `seen` judged windows of the monitor on this version drifted.
Result<std::uint64_t> count_drifted(storage::SqlTransaction& tx, const Window& window,
                                    std::uint64_t seen);
Status mark_alarm(storage::SqlTransaction& tx, std::int64_t window);

// project "" and monitor "" match all; newest first.
struct WindowQuery {
  std::string project;
  std::string monitor;
  std::int64_t id = 0;  // 0: any.
  std::int64_t limit = 100;
};
struct StoredWindow {
  Window window;
  std::string model;
};
Result<std::vector<StoredWindow>> select_windows(storage::SqlTransaction& tx,
                                                 const WindowQuery& query);

Result<std::int64_t> insert_alarm(storage::SqlTransaction& tx, const Monitors::Alarm& alarm);
Status close_alarm(storage::SqlTransaction& tx, std::int64_t id, Timestamp at);
enum class AlarmFilter : std::uint8_t { kAll, kOpen };
// project "" matches all; newest first.
Result<std::vector<Monitors::Alarm>> select_alarms(storage::SqlTransaction& tx,
                                                   const std::string& project, AlarmFilter filter);

}  // namespace falaj::monitoring
