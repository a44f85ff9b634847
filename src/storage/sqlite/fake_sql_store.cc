// SQLite in memory: the same SQL and the same answers as the embedded store, no file, no thread.
#include "base/check.h"
#include "base/mutex.h"
#include "storage/open.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/nesting.h"

namespace falaj::storage {
namespace {

class FakeSqlStore final : public SqlStore {
 public:
  explicit FakeSqlStore(std::unique_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  Status read(const std::function<Status(SqlTransaction&)>& body) override {
    FALAJ_TRY(NestingGuard::check(this));
    const NestingGuard guard(this);
    const MutexLock lock(mutex_);
    FALAJ_TRY(connection_->control("PRAGMA query_only=ON"));
    Status result = connection_->control("BEGIN");
    if (result.ok()) result = body(*connection_);
    if (connection_->in_transaction()) FALAJ_CHECK(connection_->control("ROLLBACK").ok());
    FALAJ_TRY(connection_->control("PRAGMA query_only=OFF"));
    return result;
  }

  Status write(const std::function<Status(SqlTransaction&)>& body) override {
    return transact([&](Connection& connection) { return body(connection); });
  }

  Status migrate(const std::vector<Migration>& migrations) override {
    return transact([&](Connection& c) { return apply_migrations(c, migrations); });
  }

 private:
  Status transact(const std::function<Status(Connection&)>& body) {
    FALAJ_TRY(NestingGuard::check(this));
    const NestingGuard guard(this);
    const MutexLock lock(mutex_);
    FALAJ_TRY(connection_->control("BEGIN IMMEDIATE"));
    Status result = body(*connection_);
    if (result.ok() && connection_->foreign_keys_pending()) {
      result = Error(Code::kConflict, "a foreign key points to a missing row");
    }
    if (result.ok()) result = connection_->control("COMMIT");
    if (connection_->in_transaction()) FALAJ_CHECK(connection_->control("ROLLBACK").ok());
    return result;
  }

  Mutex mutex_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<SqlStore> make_fake_sql() {
  auto connection =
      Connection::open(":memory:", {Durability::kNoSync, Connection::Access::kReadWrite});
  FALAJ_CHECK(connection.ok());
  return std::make_unique<FakeSqlStore>(std::move(connection).value());
}

}  // namespace falaj::storage
