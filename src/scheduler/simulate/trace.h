// scheduler/simulate/trace.h — the jobs of the past (or invented ones) that a simulation replays.
//
// Two CSV forms, told apart by their header line:
//   submit,duration,gpus,tenant[,name]                  ours; times RFC 3339, durations in seconds
//   timestamp,duration,num_gpus,gpu_time,cluster        the published table of the Philly cluster
// Columns may stand in any order. A row that cannot be used is refused with its line and reason and
// the others go on: real histories have garbage in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace falaj::scheduler::simulate {

struct TraceJob {
  Timestamp submit{};
  Duration duration{};  // What it runs without interruption, on the GPUs it asks for.
  std::int32_t gpus = 1;
  std::uint32_t tenant = 0;  // Index into Trace::tenants.
  std::uint32_t name = 0;    // Index into Trace::names; 0: none was recorded.
  bool operator==(const TraceJob&) const = default;
};

struct RefusedRow {
  std::int64_t line = 0;  // 1 is the header.
  std::string reason;
  bool operator==(const RefusedRow&) const = default;
};

struct Trace {
  std::vector<TraceJob> jobs;  // Ascending by submission; equal times keep the file's order.
  std::vector<std::string> tenants;
  std::vector<std::string> names = {""};
  std::int64_t refused_rows = 0;
  std::vector<RefusedRow> refused;  // The first kRefusedRowsKept of them.
};

inline constexpr std::size_t kRefusedRowsKept = 100;

struct TraceLimits {
  std::size_t rows_max = 5'000'000;
  std::size_t row_bytes_max = 4'096;
  std::int32_t gpus_max = 1'000'000;
  Duration duration_max = Duration::days(3'650);
};

// FJ-3001 when the header is neither form; FJ-3003 when no row can be used; FJ-1009 past rows_max.
// Linear in the text, plus the sort.
Result<Trace> parse_trace(std::string_view csv, const TraceLimits& limits = {});

// Our own form; parse_trace reads it back to an equal trace.
std::string to_csv(const Trace& trace);

// The jobs submitted in [from, to), with the same tenants and names.
Trace between(const Trace& trace, Timestamp from, Timestamp to);

}  // namespace falaj::scheduler::simulate
