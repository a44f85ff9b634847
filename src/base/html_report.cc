#include "base/html_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace falaj {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 300;
constexpr double kLeft = 70;
constexpr double kBottom = 34;
constexpr double kTop = 10;

constexpr const char* kStyle =
    "<style>:root{color-scheme:light dark;--ink:#1f2937;--paper:#fff;--faint:#6b7280;"
    "--rule:#e5e7eb;--mark:#ecfdf5}@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;"
    "--paper:#111827;--faint:#9ca3af;--rule:#374151;--mark:#064e3b}}"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:960px;margin:2rem auto;padding:0 1rem}h1{margin-bottom:0}h2{margin-top:2rem}"
    ".sub,svg text{color:var(--faint);fill:var(--faint);font-size:13px}svg{width:100%}"
    ".axis{fill:none;stroke:var(--faint)}.grid{fill:none;stroke:var(--rule)}"
    ".legend span{margin-right:1rem;white-space:nowrap}.legend i{display:inline-block;width:1em;"
    "height:.3em;margin-right:.4em;vertical-align:middle}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}"
    "th,td{padding:.3rem .5rem;text-align:right;border-bottom:1px solid var(--rule)}"
    "td{white-space:nowrap}th:first-child{text-align:left}tr.ours{background:var(--mark)}"
    ".bars{display:grid;grid-template-columns:auto 1fr auto;gap:.3rem .8rem;align-items:center}"
    ".bars b{height:1em;border-radius:2px}.bars em{font-style:normal;text-align:right}"
    ".ours{font-weight:600}</style>";

std::string number(double value, const char* pattern = "%.1f") {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

double x_of(double share) { return kLeft + share * (kWidth - 10 - kLeft); }
double y_of(double share) { return kHeight - kBottom - share * (kHeight - kBottom - kTop); }

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_begin(std::string_view title, std::string_view subtitle) {
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>";
  out += html_escaped(title) +
         "</title><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">";
  out += kStyle;
  out += "</head><body>\n<h1>" + html_escaped(title) + "</h1><p class=\"sub\">" +
         html_escaped(subtitle) + "</p>\n";
  return out;
}

std::string html_end() { return "</body></html>\n"; }

HtmlPlot::HtmlPlot(std::string_view label) {
  out_ = "<svg viewBox=\"0 0 " + number(kWidth, "%.0f") + " " + number(kHeight, "%.0f") +
         "\" role=\"img\" aria-label=\"" + html_escaped(label) + "\">";
  out_ += "<path class=\"axis\" d=\"M" + number(kLeft, "%.0f") + " " + number(kTop, "%.0f") + "V" +
          number(kHeight - kBottom, "%.0f") + "H" + number(kWidth - 10, "%.0f") + "\"/>";
}

void HtmlPlot::tick_x(double share, std::string_view text) {
  const std::string at = number(x_of(share));
  out_ +=
      "<path class=\"grid\" d=\"M" + at + " " + number(y_of(0)) + "V" + number(y_of(1)) + "\"/>";
  const char* const anchor = share > 0.99 ? "end" : "middle";  // The last would be cut off.
  out_ += "<text x=\"" + at + "\" y=\"" + number(y_of(0) + 18) + "\" text-anchor=\"" + anchor +
          "\">" + html_escaped(text) + "</text>";
}

void HtmlPlot::tick_y(double share, std::string_view text) {
  out_ += "<path class=\"grid\" d=\"M" + number(x_of(0)) + " " + number(y_of(share)) + "H" +
          number(x_of(1)) + "\"/>";
  out_ += "<text x=\"" + number(kLeft - 6) + "\" y=\"" + number(y_of(share) + 4) +
          "\" text-anchor=\"end\">" + html_escaped(text) + "</text>";
}

void HtmlPlot::line(const std::vector<std::pair<double, double>>& points, std::string_view colour,
                    double width) {
  out_ += "<polyline fill=\"none\" stroke=\"" + html_escaped(colour) + "\" stroke-width=\"" +
          number(width) + "\" points=\"";
  for (const auto& [x, y] : points) out_ += number(x_of(x)) + "," + number(y_of(y)) + " ";
  out_ += "\"/>";
}

double log_share(double value, double low, double high) {
  const double inside = std::clamp(value, low, high);
  return (std::log10(inside) - std::log10(low)) / (std::log10(high) - std::log10(low));
}

}  // namespace falaj
