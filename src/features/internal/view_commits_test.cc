#include "features/internal/view_commits.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"
#include "features/testing/hooked_sql.h"

namespace falaj::features {
namespace {

TEST(ViewCommits, a_number_whose_commit_failed_is_never_given_again) {
  FeatureWorld world;
  world.apply_activity();
  HookedSql sql(*world.sql);
  telemetry::Metrics metrics;
  ViewCommits commits(sql, *world.online, metrics, world.clock);
  const ViewDefinition definition = commits.definition("pay", "activity").value();
  const std::vector<Segment> none;
  const NewRows rows{definition, world.context.zone, Reach::kBoth, none};
  const auto commit = [&] {
    return commits.commit(rows, [](storage::SqlTransaction&, std::uint64_t) { return Status(); });
  };
  sql.at_commit = [] { return Status(Error(Code::kUnavailable, "the disk is full")); };
  ASSERT_FALSE(commit().ok());
  EXPECT_EQ(world.online->commit(), 1u) << "readers went past it";
  sql.at_commit = [] { return Status(); };
  const auto next = commit();
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ(*next, 2u);
  EXPECT_EQ(world.online->commit(), 1u) << "what is not published yet is not read";
  world.online->pass(*next);
  EXPECT_EQ(world.online->commit(), 2u);
}

}  // namespace
}  // namespace falaj::features
