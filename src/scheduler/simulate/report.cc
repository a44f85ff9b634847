#include "scheduler/simulate/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include "base/html_report.h"

namespace falaj::scheduler::simulate {
namespace {

constexpr std::array<const char*, 8> kColours = {"#0f766e", "#b45309", "#4338ca", "#be123c",
                                                 "#15803d", "#0369a1", "#7e22ce", "#475569"};

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string human_seconds(double seconds) {
  if (seconds < 120) return format("%.0f s", seconds);
  if (seconds < 7200) return format("%.0f min", seconds / 60);
  if (seconds < 172'800) return format("%.1f h", seconds / 3600);
  return format("%.1f d", seconds / 86'400);
}

const char* colour(std::size_t index) { return kColours[index % kColours.size()]; }

std::string legend(const std::vector<Summary>& summaries) {
  std::string out = "<p class=\"legend\">";
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    out += format("<span><i style=\"background:%s\"></i>", colour(i)) +
           html_escaped(summaries[i].policy) + "</span>";
  }
  return out + "</p>";
}

// Positions, the highlighted last: it is drawn on top.
std::vector<std::size_t> drawing_order(const std::vector<Summary>& summaries,
                                       const std::string& highlight) {
  std::vector<std::size_t> order(summaries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return summaries[i].policy != highlight; });
  return order;
}

double line_width(const Summary& summary, const std::string& highlight) {
  return summary.policy == highlight ? 3.0 : 1.4;
}

std::string completion_plot(const std::vector<Summary>& summaries, const std::string& highlight) {
  constexpr double kLow = 10;
  constexpr double kHigh = 1e7;
  HtmlPlot plot("Share of jobs that completed within a time");
  constexpr std::array<double, 6> kTicks = {60, 3600, 21'600, 86'400, 604'800, 4'320'000};
  for (const double tick : kTicks) plot.tick_x(log_share(tick, kLow, kHigh), human_seconds(tick));
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    plot.tick_y(share, format("%.0f %%", share * 100));
  }
  for (const std::size_t i : drawing_order(summaries, highlight)) {
    std::vector<std::pair<double, double>> points;
    const std::vector<double>& quantiles = summaries[i].jct_quantiles;
    for (std::size_t q = 0; q < quantiles.size(); ++q) {
      const double share = static_cast<double>(q) / static_cast<double>(quantiles.size() - 1);
      points.emplace_back(log_share(quantiles[q], kLow, kHigh), share);
    }
    plot.line(points, colour(i), line_width(summaries[i], highlight));
  }
  return plot.done();
}

std::string queue_plot(const std::vector<Summary>& summaries, const std::string& highlight) {
  constexpr double kLow = 1;
  double high = 10;
  double days = 1;
  for (const Summary& summary : summaries) {
    for (const Stretch& stretch : summary.timeline) {
      high = std::max(high, stretch.pending_jobs);
      const double at = (stretch.from - summary.timeline.front().from).as_seconds() / 86'400;
      days = std::max(days, at);
    }
  }
  HtmlPlot plot("Waiting jobs over time");
  for (int part = 0; part <= 6; ++part) {
    plot.tick_x(part / 6.0, format("day %.0f", days * part / 6.0));
  }
  for (double tick = kLow; tick <= high; tick *= 10) {
    plot.tick_y(log_share(tick, kLow, high), format("%.0f", tick));
  }
  for (const std::size_t i : drawing_order(summaries, highlight)) {
    std::vector<std::pair<double, double>> points;
    for (const Stretch& stretch : summaries[i].timeline) {
      const double at = (stretch.from - summaries[i].timeline.front().from).as_seconds() / 86'400;
      points.emplace_back(at / days, log_share(std::max(1.0, stretch.pending_jobs), kLow, high));
    }
    plot.line(points, colour(i), line_width(summaries[i], highlight));
  }
  return plot.done();
}

std::string bars(const std::vector<Summary>& summaries, const std::string& highlight) {
  double most = 1;
  for (const Summary& summary : summaries) most = std::max(most, summary.jct.mean);
  std::string out = "<div class=\"bars\">";
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const Summary& summary = summaries[i];
    const double share = log_share(summary.jct.mean, 100, most);
    out += "<span" + std::string(summary.policy == highlight ? " class=\"ours\"" : "") + ">" +
           html_escaped(summary.policy) + "</span>";
    out += format("<b style=\"width:%.1f%%;background:%s\"></b>", std::max(1.0, 100 * share),
                  colour(i));
    out += "<em>" + human_seconds(summary.jct.mean) + "</em>";
  }
  return out + "</div>";
}

std::string row(const Summary& s, const std::string& highlight) {
  std::string out = s.policy == highlight ? "<tr class=\"ours\">" : "<tr>";
  out += "<th scope=\"row\">" + html_escaped(s.policy) + "</th>";
  for (const double seconds : {s.jct.mean, s.jct.p50, s.jct.p99, s.wait.mean}) {
    out += "<td>" + human_seconds(seconds) + "</td>";
  }
  out +=
      format("<td>%.1f</td><td>%.1f</td><td>%.2f</td><td>%.1f %%</td><td>%.1f %%</td>",
             s.slowdown.mean, s.large_slowdown, s.jain, 100 * s.utilisation, 100 * s.fragmentation);
  out += format("<td>%.2f</td><td>%.0f</td><td>%.0f</td><td>%.0f</td></tr>\n",
                s.preemptions_per_job, s.lost_gpu_hours, s.energy_kwh, s.cost);
  return out;
}

std::string table(const std::vector<Summary>& summaries, const std::string& highlight) {
  std::string out =
      "<div class=\"wide\"><table><thead><tr><th scope=\"col\">policy</th>"
      "<th scope=\"col\">mean</th><th scope=\"col\">p50</th><th scope=\"col\">p99</th>"
      "<th scope=\"col\">mean wait</th><th scope=\"col\">slowdown</th>"
      "<th scope=\"col\">slowdown ≥ 32 GPUs</th><th scope=\"col\">Jain</th>"
      "<th scope=\"col\">in use</th><th scope=\"col\">idle while waiting</th>"
      "<th scope=\"col\">preemptions a job</th><th scope=\"col\">GPU-hours lost</th>"
      "<th scope=\"col\">kWh</th><th scope=\"col\">cost</th></tr></thead><tbody>\n";
  for (const Summary& summary : summaries) out += row(summary, highlight);
  return out + "</tbody></table></div>";
}

}  // namespace

std::string html_report(const ReportText& text, const std::vector<Summary>& summaries,
                        const std::string& highlight) {
  std::string out = html_begin(text.title, text.subtitle);
  out += "<h2>Mean time from submission to end</h2><p class=\"sub\">Logarithmic.</p>" +
         bars(summaries, highlight) + "\n";
  out += "<h2>All figures</h2>" + table(summaries, highlight) + "\n";
  out += "<h2>How many jobs were done within</h2>" + legend(summaries) +
         completion_plot(summaries, highlight) + "\n";
  out += "<h2>Jobs that wait</h2>" + legend(summaries) + queue_plot(summaries, highlight) + "\n";
  return out + html_end();
}

}  // namespace falaj::scheduler::simulate
