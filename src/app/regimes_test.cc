#include "app/regimes.h"

#include <gtest/gtest.h>

#include <set>

namespace falaj::app {
namespace {

TEST(Regimes, every_file_of_the_build_is_read_strictly) {
  const auto parsed = parse_regimes(regime_texts());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  std::set<std::string> names;
  for (const auto& regime : *parsed) {
    names.insert(regime.name);
    EXPECT_FALSE(regime.conflicts.empty()) << regime.name << " hides what is not sure";
    EXPECT_FALSE(regime.grounds.empty()) << regime.name;
  }
  for (const char* wanted :
       {"uae-pdpl", "cbuae-consumer", "health-ict", "gdpr", "difc-dpl", "adgm-dpr", "hipaa"}) {
    EXPECT_TRUE(names.contains(wanted)) << wanted;
  }
}

TEST(Regimes, the_strict_ones_say_so) {
  for (const auto& regime : built_in_regimes()) {
    if (regime.name == "cbuae-consumer") {
      EXPECT_EQ(regime.retention, Duration::days(5 * 365));
      EXPECT_EQ(regime.evidence.size(), 2u);
    }
    if (regime.name == "health-ict") {
      EXPECT_EQ(regime.retention, Duration::days(25 * 365));
      EXPECT_EQ(regime.exceptions.size(), 10u);
      EXPECT_EQ(regime.processing_abroad, security::residency::ProcessingAbroad::kException);
    }
  }
}

TEST(Regimes, a_broken_file_is_named) {
  const EmbeddedText no_yaml[] = {{"a.yaml", "{"}};
  EXPECT_NE(parse_regimes(no_yaml).error().message.find("a.yaml"), std::string::npos);
  const EmbeddedText two[] = {{"a.yaml", "a: 1\n---\nb: 2\n"}};
  EXPECT_EQ(parse_regimes(two).error().id, ErrorId::kMalformedYaml);
  const EmbeddedText renamed[] = {{"other.yaml", regime_texts().front().text}};
  EXPECT_EQ(parse_regimes(renamed).error().id, ErrorId::kInvalidName);
}

}  // namespace
}  // namespace falaj::app
