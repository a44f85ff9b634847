// cli/bench/report.h — a load's figures for people, for programs and as one HTML file. Pure.
#pragma once

#include <string>

#include "base/value.h"
#include "cli/bench/load.h"

namespace falaj::cli::bench {

struct Ran {
  std::string url;
  LoadOptions options;
  LoadResult result;
};

// {"url", "loop", "clients", "rate", "seconds", "answered", "requests_per_second", "errors":
// {"503":
//  3}, "late", "unsent", "latency_ms": {"mean", "p50", "p90", "p99", "p99_9", "max"}, "histogram":
//  [{"from_ms", "to_ms", "count"}]}
Value to_value(const Ran& ran);
// The same with a histogram of bars.
std::string to_text(const Ran& ran);
// With a plot of the latency by share of requests.
std::string to_html(const Ran& ran);

}  // namespace falaj::cli::bench
