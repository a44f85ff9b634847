// In-memory stores for the tests of what stands above. They keep the contracts of the ports
// (tests/contract runs the same suites over them), not their durability.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/mutex.h"
#include "storage/internal/posix_file.h"
#include "storage/open.h"

namespace falaj::storage {
namespace {

class FakeKvStore final : public KvStore {
 public:
  Result<std::optional<std::string>> get(std::string_view key) const override {
    const MutexLock lock(mutex_);
    return find(key);
  }

  Result<std::vector<std::optional<std::string>>> get_many(
      const std::vector<std::string>& keys) const override {
    const MutexLock lock(mutex_);
    std::vector<std::optional<std::string>> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(find(key));
    return values;
  }

  Status write(const std::vector<KvWrite>& batch) override {
    const MutexLock lock(mutex_);
    for (const KvWrite& write : batch) {
      if (write.value.has_value()) {
        rows_[write.key] = *write.value;
      } else {
        rows_.erase(write.key);
      }
    }
    return {};
  }

  Status scan(std::string_view prefix,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    const Rows snapshot = [&] {
      const MutexLock lock(mutex_);
      return rows_;
    }();
    for (auto it = snapshot.lower_bound(prefix); it != snapshot.end(); ++it) {
      if (!std::string_view(it->first).starts_with(prefix)) break;
      if (!visit(it->first, it->second)) break;
    }
    return {};
  }

 private:
  // Bytes compare as unsigned, as RocksDB does.
  using Rows = std::map<std::string, std::string, std::less<>>;

  std::optional<std::string> find(std::string_view key) const FALAJ_REQUIRES(mutex_) {
    const auto it = rows_.find(key);
    if (it == rows_.end()) return std::nullopt;
    return it->second;
  }

  mutable Mutex mutex_;
  Rows rows_ FALAJ_GUARDED_BY(mutex_);
};

Error blob_not_found(const BlobId& id) { return {Code::kNotFound, "there is no blob " + id.str()}; }

// Contents live in memory; files appear in the folder only for callers that need a path.
class FakeBlobStore final : public BlobStore {
 public:
  explicit FakeBlobStore(std::string folder) : folder_(std::move(folder)) {}

  Result<std::unique_ptr<BlobWriter>> create() override {
    return std::unique_ptr<BlobWriter>(std::make_unique<Writer>(*this));
  }

  Result<BlobId> put(std::string_view bytes) override {
    BlobId id(sha256_hex(bytes));
    const MutexLock lock(mutex_);
    blobs_[id] = std::string(bytes);
    return id;
  }

  Result<BlobId> adopt(const std::string& path) override {
    if (parent_folder(path) != folder_) {
      return Error(Code::kInvalidArgument,
                   path + " is not in the staging folder; ask staging_path() for a name");
    }
    const std::string content = FALAJ_TRY(read_file(path));
    if (::unlink(path.c_str()) != 0) return file_error(errno, "remove", path);
    return put(content);
  }

  Result<std::string> staging_path() override {
    FALAJ_TRY(make_folder(folder_, Durability::kNoSync));
    const MutexLock lock(mutex_);
    return folder_ + "/staged-" + std::to_string(next_++);
  }

  Result<std::string> get(const BlobId& id) const override {
    const MutexLock lock(mutex_);
    const auto it = blobs_.find(id);
    if (it == blobs_.end()) return blob_not_found(id);
    return it->second;
  }

  Result<std::string> path(const BlobId& id) const override {
    const std::string content = FALAJ_TRY(get(id));
    FALAJ_TRY(make_folder(folder_, Durability::kNoSync));
    const std::string path = folder_ + "/" + id.str();
    const MutexLock lock(mutex_);
    FALAJ_TRY(replace_file(path, content, Durability::kNoSync));
    return path;
  }

  Result<std::int64_t> size(const BlobId& id) const override {
    const std::string content = FALAJ_TRY(get(id));
    return static_cast<std::int64_t>(content.size());
  }

  Status remove(const BlobId& id) override {
    const MutexLock lock(mutex_);
    if (blobs_.erase(id) == 0) return blob_not_found(id);
    ::unlink((folder_ + "/" + id.str()).c_str());
    return {};
  }

  Result<std::vector<BlobId>> list() const override {
    const MutexLock lock(mutex_);
    std::vector<BlobId> ids;
    for (const auto& [id, content] : blobs_) ids.push_back(id);
    return ids;
  }

 private:
  class Writer final : public BlobWriter {
   public:
    explicit Writer(FakeBlobStore& store) : store_(store) {}
    Status append(std::string_view bytes) override {
      content_ += bytes;
      return {};
    }
    Result<BlobId> commit() override { return store_.put(content_); }

   private:
    FakeBlobStore& store_;
    std::string content_;
  };

  static Result<std::string> read_file(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.valid()) {
      if (errno == ENOENT) return Error(Code::kNotFound, "there is no file " + path);
      return file_error(errno, "open", path);
    }
    return read_all(file.get(), path);
  }

  const std::string folder_;
  mutable Mutex mutex_;
  std::map<BlobId, std::string> blobs_ FALAJ_GUARDED_BY(mutex_);
  std::int64_t next_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<KvStore> make_fake_kv() { return std::make_unique<FakeKvStore>(); }

std::unique_ptr<BlobStore> make_fake_blobs(const std::string& folder) {
  return std::make_unique<FakeBlobStore>(folder);
}

}  // namespace falaj::storage
