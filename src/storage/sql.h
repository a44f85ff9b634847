// storage/sql.h — the metadata store: small, relational, transactional, durable.
//
// One writer: write() calls are queued to one thread, which commits many of them with one fsync
// (group commit). When write() returns ok, the change survives kill -9 and power loss. Readers use
// their own connections and never wait for the writer. All calls are thread-safe and may block:
// never call them on an event-loop thread. Calls do not nest: read() or write() from inside a body
// of the same store is refused (kInternal); use the transaction that was handed in. Write bodies
// run on the writer's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace falaj::storage {

using SqlValue = std::variant<std::nullptr_t, std::int64_t, double, std::string>;

// One result row; columns by position. A wrong type reads as 0 / "".
class SqlRow {
 public:
  explicit SqlRow(std::vector<SqlValue> values) : values_(std::move(values)) {}
  std::size_t size() const { return values_.size(); }
  bool is_null(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  double real(std::size_t i) const;
  const std::string& text(std::size_t i) const;

 private:
  std::vector<SqlValue> values_;
};

using SqlParams = std::vector<SqlValue>;
using SqlRows = std::vector<SqlRow>;

// The statements of one transaction. Valid only inside the callback.
class SqlTransaction {
 public:
  virtual ~SqlTransaction() = default;
  // One statement; `?` placeholders, bound in order; SQL text is a constant (statements are cached
  // by it), values never stand in it. BEGIN, COMMIT, SAVEPOINT, ATTACH and PRAGMA are refused.
  virtual Result<SqlRows> query(std::string_view sql, const SqlParams& params = {}) = 0;
  // Rows changed. A broken unique or check constraint is kConflict.
  virtual Result<std::int64_t> execute(std::string_view sql, const SqlParams& params = {}) = 0;
};

// Applied in order, once each; the text of an applied one never changes (its hash is kept).
struct Migration {
  std::string name;  // "features-001-segments"
  std::string sql;
};

class SqlStore {
 public:
  virtual ~SqlStore() = default;
  // A consistent snapshot. An error from `body` is passed through.
  virtual Status read(const std::function<Status(SqlTransaction&)>& body) = 0;
  // All or nothing: an error from `body` rolls its changes back. Returns after the commit is
  // durable. A failed fsync stops the process.
  virtual Status write(const std::function<Status(SqlTransaction&)>& body) = 0;
  // FJ-8004 when the store has migrations this program does not know (written by a newer one).
  virtual Status migrate(const std::vector<Migration>& migrations) = 0;
};

// Convenience for one-statement reads.
Result<SqlRows> query(SqlStore& store, std::string_view sql, const SqlParams& params = {});

}  // namespace falaj::storage
