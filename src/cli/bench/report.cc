#include "cli/bench/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/html_report.h"
#include "cli/terminal.h"

namespace falaj::cli::bench {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kBarWidth = 40;

struct Figure {
  const char* name;
  const char* key;
  double quantile;
};
constexpr std::array<Figure, 4> kFigures{
    {{"p50", "p50", 0.5}, {"p90", "p90", 0.9}, {"p99", "p99", 0.99}, {"p99.9", "p99_9", 0.999}}};

std::string short_number(double value, const char* pattern = "%.4g") {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

std::string ms_text(double ms) {
  if (ms >= 1000) return short_number(ms / 1000, "%.3g s");
  return ms >= 1 ? short_number(ms, "%.3g ms") : short_number(ms * 1000, "%.3g µs");
}

double per_second(const LoadResult& result) {
  return result.seconds > 0 ? static_cast<double>(result.answered) / result.seconds : 0;
}

double longest_ms(const LoadResult& result) {
  return static_cast<double>(result.longest_nanos) * 1e-6;
}

double mean_ms(const LoadResult& result) {
  const auto count = static_cast<double>(std::max<std::uint64_t>(1, result.latency.count));
  return result.latency.sum_seconds * 1e3 / count;
}

std::string how(const LoadOptions& options) {
  const std::string clients = std::to_string(options.clients) + " clients";
  return options.rate > 0
             ? "open loop, " + short_number(options.rate) + " requests/s due, " + clients
             : "closed loop, " + clients;
}

std::string counted(const LoadResult& result) {
  std::string out = std::to_string(result.answered) + " answered in " +
                    short_number(result.seconds, "%.2f") + " s";
  for (const auto& [code, count] : result.errors) {
    out += ", " + std::to_string(count) + " × " + code;
  }
  if (result.late > 0) out += ", " + std::to_string(result.late) + " sent late";
  if (result.unsent > 0) out += ", " + std::to_string(result.unsent) + " never sent";
  return out;
}

std::string bars(const LoadResult& result) {
  const std::vector<LatencyRow> rows = latency_rows(result, kRows);
  std::uint64_t most = 1;
  for (const LatencyRow& row : rows) most = std::max(most, row.count);
  std::string out;
  for (const LatencyRow& row : rows) {
    const std::string to = "≤ " + ms_text(row.to_ms);
    const std::uint64_t filled = (row.count * kBarWidth + most - 1) / most;
    out += std::string(12 - std::min<std::size_t>(12, display_width(to)), ' ') + to + " │";
    for (std::uint64_t i = 0; i < filled; ++i) out += "█";
    out += " " + std::to_string(row.count) + "\n";
  }
  return out;
}

// How long against how many nines: the tail has as much room as the rest.
std::string plot(const LoadResult& result) {
  HtmlPlot plot("Latency by share of requests");
  const double low = std::max(quantile_ms(result, 0.001), 1e-6);
  const double high = std::max(longest_ms(result), low * 1.01);
  constexpr double kNinesMax = 4;
  for (const double share : {0.0, 0.5, 0.9, 0.99, 0.999, 0.9999}) {
    plot.tick_x(-std::log10(1 - share) / kNinesMax, short_number(share * 100) + " %");
  }
  for (int part = 0; part <= 4; ++part) {
    plot.tick_y(part / 4.0, ms_text(low * std::pow(high / low, part / 4.0)));
  }
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i <= 200; ++i) {
    const double nines = kNinesMax * i / 200;
    const double at = quantile_ms(result, 1 - std::pow(10, -nines));
    points.emplace_back(nines / kNinesMax, log_share(std::max(at, low), low, high));
  }
  plot.line(points, "#0f766e", 2.5);
  return plot.done();
}

}  // namespace

Value to_value(const Ran& ran) {
  const LoadResult& result = ran.result;
  Value value;
  value["url"] = ran.url;
  value["loop"] = ran.options.rate > 0 ? "open" : "closed";
  value["clients"] = ran.options.clients;
  if (ran.options.rate > 0) value["rate"] = ran.options.rate;
  value["seconds"] = result.seconds;
  value["answered"] = result.answered;
  value["requests_per_second"] = per_second(result);
  value["late"] = result.late;
  value["unsent"] = result.unsent;
  value["errors"] = Value::object();
  for (const auto& [code, count] : result.errors) value["errors"][code] = count;
  Value& latency = value["latency_ms"];
  latency["mean"] = mean_ms(result);
  for (const Figure& figure : kFigures) {
    latency[figure.key] = quantile_ms(result, figure.quantile);
  }
  latency["max"] = longest_ms(result);
  value["histogram"] = Value::array();
  for (const LatencyRow& row : latency_rows(result, kRows)) {
    Value each;
    each["from_ms"] = row.from_ms;
    each["to_ms"] = row.to_ms;
    each["count"] = row.count;
    value["histogram"].push(std::move(each));
  }
  return value;
}

std::string to_text(const Ran& ran) {
  std::string out = ran.url + "\n" + how(ran.options) + ": " + counted(ran.result) + "\n\n";
  out += bold(short_number(per_second(ran.result)) + " requests/s") + "\n";
  for (const Figure& figure : kFigures) {
    out +=
        std::string(figure.name) + " " + ms_text(quantile_ms(ran.result, figure.quantile)) + "  ";
  }
  return out + "max " + ms_text(longest_ms(ran.result)) + "\n\n" + bars(ran.result);
}

std::string to_html(const Ran& ran) {
  std::string out = html_begin(ran.url, how(ran.options) + ": " + counted(ran.result));
  out += "<h2>" + short_number(per_second(ran.result)) + " requests a second</h2>";
  out += "<div class=\"wide\"><table><thead><tr><th scope=\"col\">mean</th>";
  for (const Figure& figure : kFigures) {
    out += "<th scope=\"col\">" + std::string(figure.name) + "</th>";
  }
  out += "<th scope=\"col\">max</th></tr></thead><tbody><tr><td>" + ms_text(mean_ms(ran.result)) +
         "</td>";
  for (const Figure& figure : kFigures) {
    out += "<td>" + ms_text(quantile_ms(ran.result, figure.quantile)) + "</td>";
  }
  out += "<td>" + ms_text(longest_ms(ran.result)) + "</td></tr></tbody></table></div>\n";
  out += "<h2>Latency by share of requests</h2><p class=\"sub\">Both axes are logarithmic.</p>" +
         plot(ran.result) + "\n<h2>How many took how long</h2><div class=\"bars\">";
  const std::vector<LatencyRow> rows = latency_rows(ran.result, kRows);
  std::uint64_t most = 1;
  for (const LatencyRow& row : rows) most = std::max(most, row.count);
  for (const LatencyRow& row : rows) {
    const double share = 100 * static_cast<double>(row.count) / static_cast<double>(most);
    out += "<span>≤ " + ms_text(row.to_ms) +
           "</span><b style=\"width:" + short_number(std::max(0.5, share), "%.1f") +
           "%;background:#0f766e\"></b><em>" + std::to_string(row.count) + "</em>";
  }
  return out + "</div>\n" + html_end();
}

}  // namespace falaj::cli::bench
