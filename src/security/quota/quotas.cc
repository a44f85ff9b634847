#include "security/quota/quotas.h"

#include <algorithm>

#include "base/units.h"
#include "storage/objects.h"

namespace falaj::security {

const storage::Migration kQuotaMigration{
    "quota-001-stored-bytes",
    "CREATE TABLE stored_bytes (project TEXT PRIMARY KEY, bytes INTEGER NOT NULL);"};

Status Quotas::load() {
  std::map<std::string, std::int64_t> stored;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    const storage::SqlRows rows = FALAJ_TRY(tx.query("SELECT project, bytes FROM stored_bytes"));
    for (const storage::SqlRow& row : rows) stored[row.text(0)] = row.integer(1);
    return {};
  }));
  MutexLock lock(mutex_);
  stored_ = std::move(stored);
  return {};
}

Status Quotas::refresh() {
  MutexLock lock(refreshing_);
  ByProject found;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    const auto projects = FALAJ_TRY(storage::list_objects(tx, "Project"));
    for (const storage::Object& project : projects) {
      const std::string where = "Project/" + project.name + " quota";
      const Quota quota = FALAJ_TRY(decode_quota(project.spec["quota"], where));
      if (quota != Quota{}) found.emplace(project.name, quota);
    }
    return {};
  }));
  published_.replace(std::make_shared<const ByProject>(std::move(found)));
  return {};
}

Quota Quotas::of(std::string_view project) const {
  const auto now = published_.load();
  if (now == nullptr) return {};
  const auto found = now->find(project);
  return found == now->end() ? Quota{} : found->second;
}

Status Quotas::room(const std::string& project, std::int64_t more) const {
  const std::optional<std::int64_t> limit = of(project).storage_bytes;
  if (!limit) return {};
  const std::int64_t used = stored_bytes(project);
  if (used < *limit && more <= *limit - used) return {};
  return quota_reached(project,
                       "has stored " + format_bytes(used) + " of its quota of " +
                           format_bytes(*limit) + ": what is added does not fit",
                       Shortage::kLasting);
}

void Quotas::stored(const std::string& project, std::int64_t bytes) {
  MutexLock lock(mutex_);
  std::int64_t& sum = stored_[project];
  sum = std::max<std::int64_t>(sum + bytes, 0);
  unwritten_.insert(project);
}

std::int64_t Quotas::stored_bytes(const std::string& project) const {
  MutexLock lock(mutex_);
  const auto found = stored_.find(project);
  return found == stored_.end() ? 0 : found->second;
}

Status Quotas::flush() {
  std::map<std::string, std::int64_t> changed;
  {
    MutexLock lock(mutex_);
    for (const std::string& project : unwritten_) changed[project] = stored_[project];
    unwritten_.clear();
  }
  if (changed.empty()) return {};
  Status written = sql_.write([&](storage::SqlTransaction& tx) -> Status {
    for (const auto& [project, bytes] : changed) {
      FALAJ_TRY(
          tx.execute("INSERT INTO stored_bytes (project, bytes) VALUES (?, ?)"
                     " ON CONFLICT (project) DO UPDATE SET bytes = excluded.bytes",
                     {project, bytes}));
    }
    return {};
  });
  if (written.ok()) return written;
  MutexLock lock(mutex_);
  for (const auto& [project, bytes] : changed) unwritten_.insert(project);
  return written;
}

namespace {

using storage::BlobStore;
using storage::BlobWriter;
using storage::Owner;
using storage::StoredBlob;

class CountedWriter final : public BlobWriter {
 public:
  CountedWriter(std::unique_ptr<BlobWriter> inner, Quotas& quotas, std::string project)
      : inner_(std::move(inner)), quotas_(quotas), project_(std::move(project)) {}
  Status append(std::string_view bytes) override {
    // Asked on the way as well: a disk is not filled with what will be refused.
    bytes_ += static_cast<std::int64_t>(bytes.size());
    FALAJ_TRY(quotas_.room(project_, bytes_));
    return inner_->append(bytes);
  }
  Result<StoredBlob> commit() override {
    FALAJ_TRY(quotas_.room(project_, bytes_));
    StoredBlob blob = FALAJ_TRY(inner_->commit());
    quotas_.stored(project_, blob.bytes);
    return blob;
  }

 private:
  std::unique_ptr<BlobWriter> inner_;
  Quotas& quotas_;
  const std::string project_;
  std::int64_t bytes_ = 0;
};

class CountedBlobs final : public BlobStore {
 public:
  CountedBlobs(std::unique_ptr<BlobStore> inner, Quotas& quotas)
      : inner_(std::move(inner)), quotas_(quotas) {}

  Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) override {
    FALAJ_TRY(quotas_.room(owner.project.str(), 0));
    std::unique_ptr<BlobWriter> writer = FALAJ_TRY(inner_->create(owner));
    return std::unique_ptr<BlobWriter>(
        std::make_unique<CountedWriter>(std::move(writer), quotas_, owner.project.str()));
  }
  Result<StoredBlob> put(const Owner& owner, std::string_view bytes) override {
    FALAJ_TRY(quotas_.room(owner.project.str(), static_cast<std::int64_t>(bytes.size())));
    StoredBlob blob = FALAJ_TRY(inner_->put(owner, bytes));
    quotas_.stored(owner.project.str(), blob.bytes);
    return blob;
  }
  Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const override {
    return inner_->open(owner, id);
  }
  Result<std::string> get(const Owner& owner, const BlobId& id) const override {
    return inner_->get(owner, id);
  }
  Result<std::int64_t> size(const Owner& owner, const BlobId& id) const override {
    return inner_->size(owner, id);
  }
  Result<storage::BlobGrant> grant(const Owner& owner, const BlobId& id) const override {
    return inner_->grant(owner, id);
  }
  Status remove(const Owner& owner, const BlobId& id) override {
    const Result<std::int64_t> bytes = inner_->size(owner, id);
    FALAJ_TRY(inner_->remove(owner, id));
    // One whose key is gone, or that is damaged, cannot say its size: it stays counted.
    if (bytes.ok()) quotas_.stored(owner.project.str(), -*bytes);
    return {};
  }
  Result<std::vector<BlobId>> list(const Owner& owner) const override {
    return inner_->list(owner);
  }

 private:
  std::unique_ptr<BlobStore> inner_;
  Quotas& quotas_;
};

}  // namespace

std::unique_ptr<storage::BlobStore> count_blobs(std::unique_ptr<storage::BlobStore> inner,
                                                Quotas& quotas) {
  return std::make_unique<CountedBlobs>(std::move(inner), quotas);
}

}  // namespace falaj::security
