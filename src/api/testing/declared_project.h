// api/testing/declared_project.h — the test world's project as the catalog declares it.
#pragma once

#include "catalog/catalog.h"
#include "serving/testing/serving_world.h"

namespace falaj::api::testing {

// Declares project "pay" in zone "ae"; gives the kinds that a catalog over the world needs.
inline std::vector<storage::KindInfo> declare_project(serving::testing::ServingWorld& world) {
  storage::Object project;
  project.kind = "Project";
  project.name = "pay";
  project.spec = parse_json(R"({"zone":"ae"})").value();
  const Status status = world.sql->write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(storage::put_object(tx, project, world.clock.now()));
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  return catalog::platform_kinds();
}

}  // namespace falaj::api::testing
