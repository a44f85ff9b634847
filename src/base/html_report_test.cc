#include "base/html_report.h"

#include <gtest/gtest.h>

namespace falaj {
namespace {

TEST(HtmlReport, escapes_what_others_wrote) {
  EXPECT_EQ(html_escaped("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
  EXPECT_NE(html_begin("<t>", "<s>").find("<h1>&lt;t&gt;</h1>"), std::string::npos);
  HtmlPlot plot("<p>");
  plot.tick_x(0, "<x>");
  plot.tick_y(1, "<y>");
  plot.line({{0, 0}, {1, 1}}, "red", 2);
  const std::string svg = plot.done();
  EXPECT_EQ(svg.find("<x>"), std::string::npos);
  EXPECT_NE(svg.find("points=\"70.0,266.0 850.0,10.0 \""), std::string::npos) << svg;
  EXPECT_EQ(svg.substr(svg.size() - 6), "</svg>");
}

TEST(HtmlReport, places_values_on_a_logarithmic_axis) {
  EXPECT_NEAR(log_share(10, 1, 100), 0.5, 1e-12);
  EXPECT_EQ(log_share(0.1, 1, 100), 0);
  EXPECT_NEAR(log_share(1000, 1, 100), 1, 1e-12);
}

}  // namespace
}  // namespace falaj
