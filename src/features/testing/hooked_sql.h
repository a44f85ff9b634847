// features/testing/hooked_sql.h — a store whose writes can be made to fail, or be held, at the
// worst moment.
#pragma once

#include <functional>

#include "storage/sql.h"

namespace falaj::features {

// Passes on to a real store.
class HookedSql final : public storage::SqlStore {
 public:
  explicit HookedSql(storage::SqlStore& inner) : inner_(inner) {}
  // Behind the body of each write: an error is that of its COMMIT.
  std::function<Status()> at_commit = [] { return Status(); };
  // The write is durable, and its caller does not know it yet.
  std::function<void()> committed = [] {};

  Status read(const std::function<Status(storage::SqlTransaction&)>& body) override {
    return inner_.read(body);
  }
  Status write(const std::function<Status(storage::SqlTransaction&)>& body) override {
    FALAJ_TRY(inner_.write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(body(tx));
      return at_commit();
    }));
    committed();
    return {};
  }
  Status migrate(const std::vector<storage::Migration>& migrations) override {
    return inner_.migrate(migrations);
  }

 private:
  storage::SqlStore& inner_;
};

}  // namespace falaj::features
