// The embedded key-value store: RocksDB with a small, fixed appetite for memory and threads.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "storage/internal/posix_file.h"
#include "storage/open.h"

namespace falaj::storage {
namespace {

namespace rdb = ::rocksdb;

constexpr std::size_t kWriteBufferBytes = 16u << 20;
constexpr std::size_t kBlockCacheBytes = 16u << 20;
constexpr std::uint64_t kLogBytesMax = 64u << 20;
constexpr int kOpenFilesMax = 256;
constexpr std::size_t kScanReadahead = 64u << 10;

// RocksDB would probe a full disk by itself every few seconds and meanwhile refuse to be resumed;
// here the next write asks.
class NoRecoveryByItself final : public rdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rdb::BackgroundErrorReason, rdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rdb::Options make_options() {
  rdb::BlockBasedTableOptions table;
  table.block_cache = rdb::NewLRUCache(kBlockCacheBytes);
  table.filter_policy.reset(rdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;  // So that they too stay within the budget.
  table.pin_l0_filter_and_index_blocks_in_cache = true;

  rdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = kWriteBufferBytes;
  options.max_write_buffer_number = 2;
  options.max_total_wal_size = kLogBytesMax;
  options.max_background_jobs = 2;
  options.max_open_files = kOpenFilesMax;
  options.compression = rdb::kLZ4Compression;
  // A torn last record was never acknowledged; damage before it was, so that must not be skipped
  // in silence: the open fails and says so.
  options.wal_recovery_mode = rdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // A quick start: no statistics pass, no flush of what the log brought back.
  options.skip_stats_update_on_db_open = true;
  options.avoid_flush_during_recovery = true;
  options.listeners.push_back(std::make_shared<NoRecoveryByItself>());
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.info_log_level = rdb::InfoLogLevel::ERROR_LEVEL;
  options.keep_log_file_num = 2;
  options.max_log_file_size = 1u << 20;
  return options;
}

Error to_error(const rdb::Status& status, const std::string& what) {
  const std::string message = what + ": " + status.ToString();
  if (status.IsNoSpace()) {
    return {ErrorId::kDataFolderFull, message + "; free some space and try again"};
  }
  if (status.IsCorruption()) {
    return {ErrorId::kDatabaseCorrupt, message + "; restore the folder from a backup"};
  }
  if (status.IsIOError() && message.find("/LOCK:") != std::string::npos) {
    return {ErrorId::kDataFolderLocked, message + "; another process holds the folder"};
  }
  if (status.IsIOError() && (message.find("Read-only file system") != std::string::npos ||
                             message.find("Permission denied") != std::string::npos)) {
    return {ErrorId::kDataFolderReadOnly, message + "; make it writable for this user"};
  }
  return {Code::kInternal, message};
}

constexpr std::size_t kShelfBytes = 16;
constexpr std::size_t kLongestKey = 64;  // Of what begins with bytes 0xff; sealed keys have 16.

// What every key of an owner begins with.
std::string shelf_of(const Owner& owner) {
  const Sha256 hash = hash_of(owner);
  return {reinterpret_cast<const char*>(hash.bytes.data()), kShelfBytes};
}

class RocksKvStore final : public KvStore {
 public:
  RocksKvStore(std::string folder, Durability durability, Fd lock, std::unique_ptr<rdb::DB> db)
      : folder_(std::move(folder)), lock_(std::move(lock)), db_(std::move(db)) {
    write_options_.sync = durability == Durability::kSync;
  }

  ~RocksKvStore() override {
    // Not for safety, the log holds everything: so that the next start has no log to replay.
    const rdb::Status flushed = db_->Flush(rdb::FlushOptions());
    if (!flushed.ok()) log::warn("rocksdb flush failed", {{"reason", flushed.ToString()}});
    const rdb::Status closed = db_->Close();
    if (!closed.ok()) log::error("rocksdb close failed", {{"reason", closed.ToString()}});
  }

  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    std::string value;
    const rdb::Status status = db_->Get({}, shelf_of(owner).append(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return to_error(status, "read from " + folder_);
    return std::optional<std::string>(std::move(value));
  }

  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override;
  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override;
  Status clear(const Owner& owner) override;
  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override;

  Status purge(const Owner& owner) override {
    const std::string begin = shelf_of(owner);
    const std::string end = begin + std::string(kLongestKey, '\xff');
    const rdb::Slice from(begin);
    const rdb::Slice to(end);
    rdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rdb::BottommostLevelCompaction::kForce;
    rdb::Status status = db_->CompactRange(options, &from, &to);
    // The files that it replaced, the log too, are gone when this returns, not some time later.
    if (status.ok()) status = db_->DisableFileDeletions();
    if (status.ok()) status = db_->EnableFileDeletions(/*force=*/false);
    if (!status.ok()) return to_error(status, "purge " + folder_);
    return {};
  }

  Status copy_to(const std::string& folder) const override {
    rdb::Checkpoint* made = nullptr;
    rdb::Status status = rdb::Checkpoint::Create(db_.get(), &made);
    const std::unique_ptr<rdb::Checkpoint> checkpoint(made);
    if (status.ok()) status = checkpoint->CreateCheckpoint(folder);
    if (!status.ok()) return to_error(status, "copy " + folder_);
    return {};
  }

 private:
  Status commit(rdb::WriteBatch& changes);
  Status resume();
  Status write_failed(const rdb::Status& status);

  const std::string folder_;
  const Fd lock_;
  const std::unique_ptr<rdb::DB> db_;
  rdb::WriteOptions write_options_;
  Mutex resume_mutex_;
  std::atomic<bool> was_full_{false};
};

Result<std::vector<std::optional<std::string>>> RocksKvStore::get_many(
    const Owner& owner, const std::vector<std::string>& keys) const {
  const std::string shelf = shelf_of(owner);
  std::vector<std::string> places;
  for (const std::string& key : keys) places.push_back(shelf + key);
  const std::vector<rdb::Slice> slices(places.begin(), places.end());
  std::vector<std::string> values;
  const std::vector<rdb::Status> statuses = db_->MultiGet({}, slices, &values);
  std::vector<std::optional<std::string>> answers(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].ok()) {
      answers[i] = std::move(values[i]);
    } else if (!statuses[i].IsNotFound()) {
      return to_error(statuses[i], "read from " + folder_);
    }
  }
  return answers;
}

Status RocksKvStore::write(const Owner& owner, const std::vector<KvWrite>& batch) {
  rdb::WriteBatch changes;
  std::string place = shelf_of(owner);
  for (const KvWrite& write : batch) {
    place.resize(kShelfBytes);
    place += write.key;
    const rdb::Status added =
        write.value.has_value() ? changes.Put(place, *write.value) : changes.Delete(place);
    if (!added.ok()) return to_error(added, "write to " + folder_);
  }
  return commit(changes);
}

Status RocksKvStore::commit(rdb::WriteBatch& changes) {
  if (was_full_.load()) FALAJ_TRY(resume());
  const rdb::Status status = db_->Write(write_options_, &changes);
  return status.ok() ? Status() : write_failed(status);
}

// The deletion is durable before the files are rewritten: what is left in old files is sealed.
Status RocksKvStore::clear(const Owner& owner) {
  const std::string begin = shelf_of(owner);
  std::string end = begin;  // The next shelf: counted up as one large number.
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (end.empty()) return Error{Code::kInternal, "an owner's shelf is the last there can be"};
  end.back() = static_cast<char>(end.back() + 1);
  rdb::WriteBatch changes;
  const rdb::Status added = changes.DeleteRange(begin, end);
  if (!added.ok()) return to_error(added, "clear in " + folder_);
  FALAJ_TRY(commit(changes));
  const rdb::Slice from(begin);
  const rdb::Slice to(end);
  rdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rdb::BottommostLevelCompaction::kForce;
  const rdb::Status compacted = db_->CompactRange(options, &from, &to);
  if (!compacted.ok()) log::warn("rocksdb compaction failed", {{"reason", compacted.ToString()}});
  return {};
}

// RocksDB refuses writes after a full disk until it is told to try again.
Status RocksKvStore::resume() {
  const MutexLock lock(resume_mutex_);
  if (!was_full_.load()) return {};  // Another thread was quicker.
  const rdb::Status resumed = db_->Resume();
  if (!resumed.ok()) return write_failed(resumed);
  was_full_.store(false);
  return {};
}

Status RocksKvStore::write_failed(const rdb::Status& status) {
  if (status.IsNoSpace()) {
    was_full_.store(true);
    return to_error(status, "write to " + folder_);
  }
  // A log that could not be written or synced may hold less than what was acknowledged from it.
  if (status.IsIOError()) stop_unsynced(folder_, status.ToString());
  return to_error(status, "write to " + folder_);
}

Status RocksKvStore::scan(
    const Owner& owner,
    const std::function<bool(std::string_view, std::string_view)>& visit) const {
  const std::string shelf = shelf_of(owner);
  rdb::ReadOptions options;
  options.readahead_size = kScanReadahead;
  options.fill_cache = false;  // One pass over much must not push out the rows that are asked for.
  const std::unique_ptr<rdb::Iterator> rows(db_->NewIterator(options));
  const rdb::Slice start(shelf);
  for (rows->Seek(start); rows->Valid() && rows->key().starts_with(start); rows->Next()) {
    if (!visit(rows->key().ToStringView().substr(kShelfBytes), rows->value().ToStringView())) break;
  }
  if (!rows->status().ok()) return to_error(rows->status(), "scan " + folder_);
  return {};
}

}  // namespace

Result<std::unique_ptr<KvStore>> open_rocksdb(const std::string& folder, Durability durability) {
  FALAJ_TRY(make_folder(folder, durability));
  Fd lock = FALAJ_TRY(lock_file(folder + "/kv.lock"));
  rdb::DB* raw = nullptr;
  const rdb::Status opened = rdb::DB::Open(make_options(), folder, &raw);
  if (!opened.ok()) return to_error(opened, "open " + folder);
  return std::unique_ptr<KvStore>(std::make_unique<RocksKvStore>(
      folder, durability, std::move(lock), std::unique_ptr<rdb::DB>(raw)));
}

}  // namespace falaj::storage
