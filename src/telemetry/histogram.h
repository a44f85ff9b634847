// telemetry/histogram.h — a histogram of one's own, for counts that are no metric of the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "telemetry/metrics.h"

namespace falaj::telemetry {

// As those of Metrics, but in no registry and in no scrape.
std::unique_ptr<Histogram> make_histogram();

// The last nanosecond that falls into a bucket of HistogramSnapshot::buckets; the last bucket also
// takes everything longer.
std::int64_t bucket_last_nanos(std::size_t bucket);

}  // namespace falaj::telemetry
