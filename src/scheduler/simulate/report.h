// scheduler/simulate/report.h — a comparison as one HTML file that needs nothing else: no script,
// no font, no picture from anywhere.
#pragma once

#include <string>
#include <vector>

#include "scheduler/simulate/metrics.h"

namespace falaj::scheduler::simulate {

struct ReportText {
  std::string title;
  std::string subtitle;  // Trace, fleet, costs: what the figures depend on.
};

// `summaries`, each a row of the table and a line of the plots; `highlight` is the policy that is
// drawn on top. Linear in what it prints.
std::string html_report(const ReportText& text, const std::vector<Summary>& summaries,
                        const std::string& highlight);

}  // namespace falaj::scheduler::simulate
