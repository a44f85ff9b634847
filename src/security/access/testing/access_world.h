// security/access/testing/access_world.h — grants in a store in memory, an audit log and the
// service over them, for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/json.h"
#include "security/access/access.h"
#include "security/access/emergencies.h"
#include "security/audit.h"
#include "storage/objects.h"
#include "storage/open.h"

namespace falaj::security::access::testing {

struct AccessWorld {
  AccessWorld() {
    EXPECT_TRUE(
        sql->migrate({storage::kObjectsMigration, kAuditMigration, kEmergenciesMigration}).ok());
  }
  // Stores the object; refresh() makes it count.
  void declare(const std::string& kind, const std::string& name, const std::string& spec) {
    storage::Object object;
    object.kind = kind;
    object.name = name;
    object.spec = parse_json(spec).value();
    EXPECT_TRUE(sql->write([&](storage::SqlTransaction& tx) -> Status {
                     FALAJ_TRY(storage::put_object(tx, object, clock.now()));
                     return {};
                   })
                    .ok());
  }

  FakeClock clock;
  std::unique_ptr<storage::SqlStore> sql = storage::make_fake_sql();
  Audit audit{*sql, clock};
  Access access{*sql, clock, {}};
};

}  // namespace falaj::security::access::testing
