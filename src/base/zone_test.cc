#include "base/zone.h"

#include <gtest/gtest.h>

namespace falaj {
namespace {

TEST(Zone, equal_sources_keep_their_zone) {
  EXPECT_EQ(derived_zone({Zone("ae"), Zone("ae")})->name(), "ae");
}

TEST(Zone, different_unlabelled_or_no_sources_are_refused) {
  const auto mixed = derived_zone({Zone("ae-fin"), Zone("eu")});
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().code, Code::kPermissionDenied);
  EXPECT_NE(mixed.error().message.find("ae-fin"), std::string::npos);
  EXPECT_NE(mixed.error().message.find("'eu'"), std::string::npos);
  EXPECT_EQ(derived_zone({Zone("ae"), Zone()}).error().code, Code::kPermissionDenied);
  EXPECT_EQ(derived_zone({Zone()}).error().code, Code::kPermissionDenied);
  EXPECT_EQ(derived_zone({}).error().code, Code::kPermissionDenied);
}

}  // namespace
}  // namespace falaj
