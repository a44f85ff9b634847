// base/units.h — the one place where typed texts such as "30d", "4Gi" and "0.1%" are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace falaj {

// "250ms", "20s", "15m", "2h", "30d", "4w", "1y" (365 days); also ns, us and "0". Other bare
// numbers are refused. FJ-1011 otherwise, as for the other parsers here.
Result<Duration> parse_duration(std::string_view text);
// The largest unit up to days that divides it: "36h", "250ms", "7d", "0s".
std::string to_string(Duration d);

// Bytes: "512", "4Ki", "64Mi", "4Gi", "1Ti" and decimal "10k", "10M", "10G".
Result<std::int64_t> parse_bytes(std::string_view text);
std::string format_bytes(std::int64_t bytes);  // "4.0 GiB"

// A share: "0.1%" or "0.001", within [0, 1].
Result<double> parse_share(std::string_view text);

}  // namespace falaj
