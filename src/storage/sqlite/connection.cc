#include "storage/sqlite/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#include <array>
#include <cctype>

#include "base/log.h"
#include "storage/internal/posix_file.h"

namespace falaj::storage {
namespace {

constexpr std::string_view kInMemory = ":memory:";
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
constexpr std::size_t kStatementsMax = 256;
constexpr int kBusyMillis = 5'000;  // Only recovery after a crash makes a reader wait at all.

// What SQLite's extended code and the system's errno say together.
ErrorId classify(int code, int system_error) {
  switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
      return ErrorId::kConflict;
    case SQLITE_FULL:
      return ErrorId::kDataFolderFull;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorId::kDatabaseCorrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorId::kDataFolderLocked;
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return ErrorId::kDataFolderReadOnly;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      if (means_full(system_error)) return ErrorId::kDataFolderFull;
      if (system_error == EROFS || system_error == EACCES || system_error == EPERM) {
        return ErrorId::kDataFolderReadOnly;
      }
      // A read that ends early or fails is a damaged file or disk.
      return (code & 0xff) == SQLITE_IOERR ? ErrorId::kDatabaseCorrupt : ErrorId::kInternal;
    default:
      return ErrorId::kInternal;
  }
}

SqlValue column_value(sqlite3_stmt* statement, int i) {
  switch (sqlite3_column_type(statement, i)) {
    case SQLITE_INTEGER:
      return std::int64_t{sqlite3_column_int64(statement, i)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, i);
    case SQLITE_TEXT:
    case SQLITE_BLOB: {
      const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, i));
      const auto length = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
      return bytes == nullptr ? std::string() : std::string(bytes, length);
    }
    default:
      return nullptr;
  }
}

bool only_blank(std::string_view text) {
  for (const char c : text) {
    if (c != ';' && std::isspace(static_cast<unsigned char>(c)) == 0) return false;
  }
  return true;
}

// Resets the statement whatever happens, so that it never keeps a transaction open.
class Reset {
 public:
  explicit Reset(sqlite3_stmt* statement) : statement_(statement) {}
  ~Reset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Reset(const Reset&) = delete;
  Reset& operator=(const Reset&) = delete;

 private:
  sqlite3_stmt* statement_;
};

// SQLite makes a database as the umask says, and its log and shared memory as the database is: so
// it is made here, for its owner alone, wherever it lies. What an older version left open is shut.
// What cannot be changed (another's file, no such folder) is SQLite's to report.
void keep_to_owner(const std::string& path) {
  // Only ever opened when it is new: to close a descriptor of it would drop other connections'
  // locks.
  const Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (made.valid()) return;
  for (const char* part : {"", "-wal", "-shm"}) {
    const std::string file = path + part;
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const bool shared = (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
    if (shared) (void)::chmod(file.c_str(), info.st_mode & S_IRWXU);
  }
}

}  // namespace

void Connection::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path,
                                                     const Options& options) {
  if (path != kInMemory) keep_to_owner(path);
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   options.vfs == nullptr ? nullptr : options.vfs->name().c_str());
  if (db == nullptr) return Error(Code::kInternal, "no memory to open " + path);
  std::unique_ptr<Connection> connection(new Connection(path, db));
  if (code != SQLITE_OK) return connection->error(sqlite3_extended_errcode(db), "open");
  FALAJ_TRY(connection->configure(options));
  return connection;
}

Connection::~Connection() {
  statements_.clear();
  sqlite3_close(db_);
}

Status Connection::configure(const Options& options) {
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_timeout(db_, kBusyMillis);
  sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, 0);
  if (options.vfs != nullptr) {
    int reserved = PageCipher::kOverhead;
    sqlite3_file_control(db_, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  }
  FALAJ_TRY(control("PRAGMA temp_store=MEMORY"));
  // The first statement reads the file: a damaged or foreign one is found here.
  FALAJ_TRY(control(options.durability == Durability::kSync ? "PRAGMA synchronous=FULL"
                                                            : "PRAGMA synchronous=OFF"));
  FALAJ_TRY(control("PRAGMA journal_mode=WAL"));
  FALAJ_TRY(control("PRAGMA foreign_keys=ON"));
  FALAJ_TRY(control("PRAGMA cell_size_check=ON"));
  FALAJ_TRY(control("PRAGMA trusted_schema=OFF"));
  // What is deleted is overwritten with zeros: a destroyed key must not be found in a free page.
  FALAJ_TRY(control("PRAGMA secure_delete=ON"));
  FALAJ_TRY(control("PRAGMA journal_size_limit=16777216"));
  // SQLite's own checkpoints swallow a failed fsync; checkpoint() does not.
  FALAJ_TRY(control("PRAGMA wal_autocheckpoint=0"));
  FALAJ_TRY(control("SELECT count(*) FROM sqlite_schema"));
  if (options.access == Access::kReadOnly) FALAJ_TRY(control("PRAGMA query_only=ON"));
  if (sqlite3_db_readonly(db_, "main") == 1) return file_error(EROFS, "open", path_);
  sqlite3_wal_hook(
      db_,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Connection*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  sqlite3_set_authorizer(db_, &Connection::authorize, this);
  return {};
}

int Connection::authorize(void* self, int action, const char*, const char*, const char*,
                          const char*) {
  if (static_cast<Connection*>(self)->control_allowed_) return SQLITE_OK;
  switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
      return SQLITE_DENY;
    default:
      return SQLITE_OK;
  }
}

// Errors reach clients: the log gets the file, the statement and SQLite's words (which name tables
// and columns), the caller gets the class of what went wrong.
Error Connection::error(int code, std::string_view sql) const {
  log::warn("SQL failed", {{"database", path_},
                           {"sqlite_code", code},
                           {"reason", sqlite3_errmsg(db_)},
                           {"sql", sql.substr(0, 200)}});
  return {classify(code, sqlite3_system_errno(db_)),
          std::string("the metadata database: ") + sqlite3_errstr(code) + " (SQLite " +
              std::to_string(code) + "); the server's log has the details"};
}

Error Connection::misuse(std::string_view what, std::string_view sql) const {
  log::error("SQL misused", {{"what", what}, {"sql", sql.substr(0, 200)}});
  return Error(Code::kInternal, "an SQL statement is wrong: " + std::string(what));
}

Result<sqlite3_stmt*> Connection::prepare(std::string_view sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return found->second.get();
  sqlite3_stmt* raw = nullptr;
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, &tail);
  Statement statement(raw);
  if (code != SQLITE_OK) return error(sqlite3_extended_errcode(db_), sql);
  const auto used = static_cast<std::size_t>(tail - sql.data());
  if (raw == nullptr || !only_blank(sql.substr(used))) {
    return misuse("exactly one statement is expected", sql);
  }
  if (statements_.size() >= kStatementsMax) statements_.clear();
  statements_.emplace(std::string(sql), std::move(statement));
  return raw;
}

Status Connection::bind(sqlite3_stmt* statement, const SqlParams& params) {
  const int expected = sqlite3_bind_parameter_count(statement);
  if (static_cast<std::size_t>(expected) != params.size()) {
    return misuse(
        "it takes " + std::to_string(expected) + " values, got " + std::to_string(params.size()),
        sqlite3_sql(statement));
  }
  for (int i = 0; i < expected; ++i) {
    const SqlValue& value = params[static_cast<std::size_t>(i)];
    int code = SQLITE_OK;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      code = sqlite3_bind_int64(statement, i + 1, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      code = sqlite3_bind_double(statement, i + 1, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      // The parameters outlive the step, so SQLite need not copy.
      code = sqlite3_bind_text64(statement, i + 1, text->data(), text->size(), SQLITE_STATIC,
                                 SQLITE_UTF8);
    } else {
      code = sqlite3_bind_null(statement, i + 1);
    }
    if (code != SQLITE_OK) return error(code, sqlite3_sql(statement));
  }
  return {};
}

Result<SqlRows> Connection::query(std::string_view sql, const SqlParams& params) {
  sqlite3_stmt* statement = FALAJ_TRY(prepare(sql));
  const Reset reset(statement);
  FALAJ_TRY(bind(statement, params));
  SqlRows rows;
  const int columns = sqlite3_column_count(statement);
  while (true) {
    const int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return rows;
    if (code != SQLITE_ROW) return error(sqlite3_extended_errcode(db_), sql);
    std::vector<SqlValue> values;
    values.reserve(static_cast<std::size_t>(columns));
    for (int i = 0; i < columns; ++i) values.push_back(column_value(statement, i));
    rows.emplace_back(std::move(values));
  }
}

Result<std::int64_t> Connection::execute(std::string_view sql, const SqlParams& params) {
  const std::int64_t before = sqlite3_total_changes64(db_);
  FALAJ_TRY(query(sql, params));
  // sqlite3_changes64 keeps the count of an earlier statement when this one changed nothing.
  return sqlite3_total_changes64(db_) == before ? 0 : std::int64_t{sqlite3_changes64(db_)};
}

Status Connection::run_script(const std::string& sql) {
  const char* next = sql.c_str();
  const char* const end = next + sql.size();
  while (next < end) {
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v2(db_, next, static_cast<int>(end - next), &raw, &next);
    const Statement statement(raw);
    if (code != SQLITE_OK) return error(sqlite3_extended_errcode(db_), sql);
    if (raw == nullptr) continue;  // A comment or blank between statements.
    int step = SQLITE_ROW;
    while (step == SQLITE_ROW) step = sqlite3_step(raw);
    if (step != SQLITE_DONE) return error(sqlite3_extended_errcode(db_), sqlite3_sql(raw));
  }
  return {};
}

Status Connection::control(const char* sql) {
  control_allowed_ = true;
  control_code_ = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  control_allowed_ = false;
  if (control_code_ == SQLITE_OK) return {};
  return error(control_code_, sql);
}

bool Connection::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

bool Connection::foreign_keys_pending() const {
  int pending = 0;
  int unused = 0;
  sqlite3_db_status(db_, SQLITE_DBSTATUS_DEFERRED_FKS, &pending, &unused, 0);
  return pending != 0;
}

void Connection::checkpoint() {
  const int code =
      sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // Full or busy: the log keeps the pages and the next checkpoint takes them.
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) {
    stop_unsynced(path_, sqlite3_errmsg(db_));
  }
  if (code == SQLITE_OK) log_pages_ = 0;
}

Status Connection::truncate_log() {
  const int code =
      sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) {
    stop_unsynced(path_, sqlite3_errmsg(db_));
  }
  if (code != SQLITE_OK) return error(code, "checkpoint");
  log_pages_ = 0;
  return {};
}

}  // namespace falaj::storage
