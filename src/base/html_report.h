// base/html_report.h — the parts of a report that is one HTML file and needs nothing else: no
// script, no font, no picture from anywhere. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace falaj {

// "<" as "&lt;" and so on: for texts between tags and in attributes.
std::string html_escaped(std::string_view text);

// Up to and with the heading; style for tables, plots and the classes sub, legend, bars, wide,
// ours.
std::string html_begin(std::string_view title, std::string_view subtitle);
std::string html_end();

// A plot with its axes, as SVG. Places are shares of its area, (0, 0) at the lower left.
class HtmlPlot {
 public:
  // `label`: what it shows, for those who do not see it.
  explicit HtmlPlot(std::string_view label);
  void tick_x(double share, std::string_view text);
  void tick_y(double share, std::string_view text);
  void line(const std::vector<std::pair<double, double>>& points, std::string_view colour,
            double width);
  std::string done() const { return out_ + "</svg>"; }

 private:
  std::string out_;
};

// Where `value` lies between two others on a logarithmic axis: 0 to 1. All are positive.
double log_share(double value, double low, double high);

}  // namespace falaj
