#include "features/quarantine_files.h"

#include <gtest/gtest.h>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

TEST(ReadQuarantine, gives_the_refused_rows_to_their_own_project_only) {
  FeatureWorld world;
  world.apply_activity();
  const auto report = world.append("activity",
                                   "customer_id,at,loaded_at,amount,city\n"
                                   "1,2026-01-01,2026-01-01,5,Dubai\n"
                                   "2,never,2026-01-01,5,Dubai\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->rows_quarantined, 1U);

  const auto rows =
      read_quarantine(*world.sql, *world.blobs, ProjectName("pay"), report->quarantine);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_TRUE(rows->starts_with("line,reason,raw\n3,")) << *rows;
  EXPECT_EQ(read_quarantine(*world.sql, *world.blobs, ProjectName("other"), report->quarantine)
                .error()
                .id,
            ErrorId::kNotFound);
}

TEST(ReadQuarantine, gives_no_other_content_of_the_store) {
  FeatureWorld world;
  const BlobId secret =
      world.blobs->put(world.owner_of_view("activity"), "a model, a segment, a manifest")->id;
  for (const BlobId& id : {secret, BlobId(""), BlobId("../../etc/passwd")}) {
    EXPECT_EQ(read_quarantine(*world.sql, *world.blobs, ProjectName("pay"), id).error().id,
              ErrorId::kNotFound);
  }
}

}  // namespace
}  // namespace falaj::features
