// The embedded metadata store: one writer thread with group commit, a pool of reading connections.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "storage/internal/posix_file.h"
#include "storage/open.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/nesting.h"

namespace falaj::storage {
namespace {

constexpr std::size_t kBatchMax = 256;   // Bodies behind one fsync.
constexpr int kReadersMax = 16;          // Further readers wait for a free connection.
constexpr int kCheckpointPages = 1'000;  // 4 MB of log.

using Body = std::function<Status(Connection&)>;

// One waiting write(); lives on the caller's stack until done.
struct Request {
  const Body* body;
  Status result;
  bool done = false;
  CondVar ready;
};

class SqliteStore final : public SqlStore {
 public:
  struct Parts {
    Fd lock;
    std::unique_ptr<SealedVfs> vfs;  // Null: pages lie in clear.
    std::unique_ptr<Connection> writer;
  };

  SqliteStore(std::string path, Durability durability, Parts parts)
      : path_(std::move(path)),
        durability_(durability),
        lock_(std::move(parts.lock)),
        vfs_(std::move(parts.vfs)),
        writer_(std::move(parts.writer)),
        thread_([this] { write_loop(); }) {}

  ~SqliteStore() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      work_.notify_all();
    }
    thread_.join();
  }

  Status read(const std::function<Status(SqlTransaction&)>& body) override;
  Status write(const std::function<Status(SqlTransaction&)>& body) override {
    return submit([&](Connection& connection) { return body(connection); });
  }
  Status migrate(const std::vector<Migration>& migrations) override {
    return submit([&](Connection& c) { return apply_migrations(c, migrations); });
  }

 private:
  Status submit(const Body& body);
  void write_loop();
  std::vector<Request*> next_batch();
  void commit_batch(const std::vector<Request*>& batch);
  void run_in_savepoint(Request& request);
  void finish_commit(const std::vector<Request*>& batch);

  Result<std::unique_ptr<Connection>> take_reader();
  void give_reader(std::unique_ptr<Connection> reader);

  const std::string path_;
  const Durability durability_;
  const Fd lock_;
  const std::unique_ptr<SealedVfs> vfs_;      // Before every connection.
  const std::unique_ptr<Connection> writer_;  // Only the writer thread touches it.

  Mutex mutex_;
  CondVar work_;
  std::deque<Request*> queue_ FALAJ_GUARDED_BY(mutex_);
  bool stopping_ FALAJ_GUARDED_BY(mutex_) = false;

  Mutex readers_mutex_;
  CondVar reader_free_;
  std::vector<std::unique_ptr<Connection>> readers_ FALAJ_GUARDED_BY(readers_mutex_);
  int readers_out_ FALAJ_GUARDED_BY(readers_mutex_) = 0;

  std::thread thread_;  // Last: starts when everything above is ready.
};

Status SqliteStore::submit(const Body& body) {
  FALAJ_TRY(NestingGuard::check(this));
  Request request{&body, {}, false, {}};
  const MutexLock lock(mutex_);
  queue_.push_back(&request);
  work_.notify_one();
  request.ready.wait(mutex_, [&] { return request.done; });
  return request.result;
}

std::vector<Request*> SqliteStore::next_batch() {
  const MutexLock lock(mutex_);
  work_.wait(mutex_, [&]() FALAJ_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
  std::vector<Request*> batch;
  while (!queue_.empty() && batch.size() < kBatchMax) {
    batch.push_back(queue_.front());
    queue_.pop_front();
  }
  return batch;
}

void SqliteStore::write_loop() {
  const NestingGuard guard(this);  // A body that calls write() would wait for itself.
  while (true) {
    const std::vector<Request*> batch = next_batch();
    if (batch.empty()) return;  // Stopping, and nothing is left.
    commit_batch(batch);
    {
      const MutexLock lock(mutex_);
      for (Request* request : batch) {
        request->done = true;
        // Under the lock: the request is gone as soon as its caller sees `done`.
        request->ready.notify_one();
      }
    }
    // After the answers: nobody waits for the checkpoint's fsyncs.
    if (writer_->log_pages() >= kCheckpointPages) writer_->checkpoint();
  }
}

// Everything of `batch` that has succeeded so far was rolled back together because of `reason`.
void fail_batch(const std::vector<Request*>& batch, std::size_t count, const Error& reason) {
  for (std::size_t i = 0; i < count; ++i) {
    if (batch[i]->result.ok()) batch[i]->result = reason;
  }
}

void SqliteStore::commit_batch(const std::vector<Request*>& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!writer_->in_transaction()) {
      const Status begun = writer_->control("BEGIN IMMEDIATE");
      if (!begun.ok()) {
        batch[i]->result = begun;
        continue;
      }
    }
    run_in_savepoint(*batch[i]);
    // A full disk or failed read made SQLite roll back the whole transaction, not only this body.
    if (!writer_->in_transaction()) {
      const Error reason = batch[i]->result.ok()
                               ? Error(Code::kInternal, "the transaction was rolled back")
                               : batch[i]->result.error();
      fail_batch(batch, i + 1, reason);
    }
  }
  if (writer_->in_transaction()) finish_commit(batch);
}

void SqliteStore::run_in_savepoint(Request& request) {
  request.result = writer_->control("SAVEPOINT body");
  if (!request.result.ok()) return;
  request.result = (*request.body)(*writer_);
  if (!writer_->in_transaction()) return;
  if (request.result.ok() && writer_->foreign_keys_pending()) {
    request.result = Error(Code::kConflict, "a foreign key points to a missing row");
  }
  if (!request.result.ok()) {
    // Cannot fail inside a live transaction; if it did, committing would keep half a change.
    FALAJ_CHECK(writer_->control("ROLLBACK TO body").ok());
  }
  FALAJ_CHECK(writer_->control("RELEASE body").ok());
}

void SqliteStore::finish_commit(const std::vector<Request*>& batch) {
  const Status committed = writer_->control("COMMIT");
  if (committed.ok()) return;
  const bool io_failed = (writer_->control_code() & 0xff) == SQLITE_IOERR;
  if (io_failed && committed.error().id != ErrorId::kDataFolderFull) {
    stop_unsynced(path_, committed.error().message);
  }
  if (writer_->control_code() == SQLITE_IOERR_FSYNC) {
    stop_unsynced(path_, committed.error().message);
  }
  if (writer_->in_transaction()) FALAJ_CHECK(writer_->control("ROLLBACK").ok());
  fail_batch(batch, batch.size(), committed.error());
}

Result<std::unique_ptr<Connection>> SqliteStore::take_reader() {
  {
    const MutexLock lock(readers_mutex_);
    reader_free_.wait(readers_mutex_, [&]() FALAJ_REQUIRES(readers_mutex_) {
      return !readers_.empty() || readers_out_ < kReadersMax;
    });
    ++readers_out_;
    if (!readers_.empty()) {
      std::unique_ptr<Connection> reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  auto opened = Connection::open(path_, {durability_, Connection::Access::kReadOnly, vfs_.get()});
  if (!opened.ok()) give_reader(nullptr);
  return opened;
}

void SqliteStore::give_reader(std::unique_ptr<Connection> reader) {
  const MutexLock lock(readers_mutex_);
  --readers_out_;
  if (reader != nullptr) readers_.push_back(std::move(reader));
  reader_free_.notify_one();
}

Status SqliteStore::read(const std::function<Status(SqlTransaction&)>& body) {
  FALAJ_TRY(NestingGuard::check(this));
  const NestingGuard guard(this);
  std::unique_ptr<Connection> reader = FALAJ_TRY(take_reader());
  Status result = reader->control("BEGIN");
  if (result.ok()) {
    result = body(*reader);
    // Nothing was changed; a connection that cannot even roll back is not used again.
    if (reader->in_transaction() && !reader->control("ROLLBACK").ok()) reader = nullptr;
  }
  give_reader(std::move(reader));
  return result;
}

// A database of a version that did not seal, or somebody else's.
Status refuse_clear(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {};  // There is none yet, or opening it properly says why.
  std::array<char, 16> head{};
  const ssize_t got = ::pread(file.get(), head.data(), head.size(), 0);
  if (got != static_cast<ssize_t>(head.size()) ||
      std::memcmp(head.data(), "SQLite format 3", head.size()) != 0) {
    return {};
  }
  return Error(ErrorId::kDataFolderNewer,
               path +
                   " is not encrypted: it was written by a version before 0.2, which this one "
                   "does not read; begin with an empty data folder");
}

}  // namespace

Result<std::unique_ptr<SqlStore>> open_sqlite(const std::string& path, Durability durability) {
  return open_sqlite(path, durability, nullptr);
}

Result<std::unique_ptr<SqlStore>> open_sqlite(const std::string& path, Durability durability,
                                              std::shared_ptr<const PageCipher> cipher) {
  const std::string folder = parent_folder(path);
  FALAJ_TRY(make_folder(folder, durability));
  SqliteStore::Parts parts;
  parts.lock = FALAJ_TRY(lock_file(path + ".lock"));
  if (cipher != nullptr) {
    FALAJ_TRY(refuse_clear(path));
    parts.vfs = FALAJ_TRY(SealedVfs::create(std::move(cipher)));
  }
  parts.writer = FALAJ_TRY(
      Connection::open(path, {durability, Connection::Access::kReadWrite, parts.vfs.get()}));
  // The name of a new database: SQLite syncs its folder only as a side effect of its journal.
  sync_folder(folder, durability);
  return std::unique_ptr<SqlStore>(
      std::make_unique<SqliteStore>(path, durability, std::move(parts)));
}

}  // namespace falaj::storage
