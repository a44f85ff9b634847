// storage/sqlite/connection.h — one SQLite connection: prepared statements, errors as ours.
//
// Not thread-safe: one thread at a time. Statements run to their end inside each call, so none is
// ever open between calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "storage/open.h"
#include "storage/sql.h"
#include "storage/sqlite/sealed_vfs.h"

struct sqlite3;
struct sqlite3_stmt;

namespace falaj::storage {

class Connection final : public SqlTransaction {
 public:
  enum class Access : std::uint8_t { kReadWrite, kReadOnly };
  struct Options {
    Durability durability = Durability::kSync;
    Access access = Access::kReadWrite;
    const SealedVfs* vfs = nullptr;  // Pages are sealed by it; it outlives the connection.
  };

  // ":memory:" makes a store of its own. Errors as open_sqlite.
  static Result<std::unique_ptr<Connection>> open(const std::string& path, const Options& options);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One statement each; transaction control, ATTACH and PRAGMA are refused.
  Result<SqlRows> query(std::string_view sql, const SqlParams& params = {}) override;
  Result<std::int64_t> execute(std::string_view sql, const SqlParams& params = {}) override;
  // Several statements separated by ';', as migrations are written.
  Status run_script(const std::string& sql);

  // BEGIN, COMMIT, SAVEPOINT, PRAGMA …: what only the store itself may say.
  Status control(const char* sql);
  // What the last failing control() returned, for decisions finer than an Error.
  int control_code() const { return control_code_; }
  bool in_transaction() const;
  // True when a deferred foreign key is still broken: COMMIT would fail for the whole batch.
  bool foreign_keys_pending() const;
  // Moves committed pages from the log to the database; a failed fsync stops the process.
  void checkpoint();
  // The same for all of them, waiting for readers, and then empties the log's file. kUnavailable
  // when somebody reads on and on.
  Status truncate_log();
  // Pages in the log after the last commit of this connection.
  int log_pages() const { return log_pages_; }

 private:
  struct Text : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Connection(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  Status configure(const Options& options);
  Result<sqlite3_stmt*> prepare(std::string_view sql);
  Status bind(sqlite3_stmt* statement, const SqlParams& params);
  Error error(int code, std::string_view sql) const;
  // A statement that our own code got wrong.
  Error misuse(std::string_view what, std::string_view sql) const;
  static int authorize(void* self, int action, const char*, const char*, const char*, const char*);

  const std::string path_;
  sqlite3* db_;
  std::unordered_map<std::string, Statement, Text, std::equal_to<>> statements_;
  bool control_allowed_ = false;
  int control_code_ = 0;
  int log_pages_ = 0;
};

// Inside a write transaction of `connection`; see SqlStore::migrate.
Status apply_migrations(Connection& connection, const std::vector<Migration>& migrations);

}  // namespace falaj::storage
