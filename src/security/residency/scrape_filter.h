// security/residency/scrape_filter.h — the metric exit: which projects' series a scraper may have.
#pragma once

#include <functional>
#include <string>

#include "security/residency/exits.h"

namespace falaj::security::residency {

// For telemetry::Metrics::exposition: true of a project whose series may go where the scraper is.
// What is the whole server's ("") always may. Each project is asked about once. Not thread-safe;
// `exits` outlives it.
std::function<bool(const std::string& project)> scrape_filter(Exits& exits,
                                                              const Principal& scraper,
                                                              Caller caller);

}  // namespace falaj::security::residency
