// In-memory stores for the tests of what stands above. They keep the contracts of the ports
// (tests/contract runs the same suites over them), not their durability.
#include <errno.h>
#include <sys/mman.h>

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
  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    const MutexLock lock(mutex_);
    return find(owner, key);
  }

  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override {
    const MutexLock lock(mutex_);
    std::vector<std::optional<std::string>> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(find(owner, key));
    return values;
  }

  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override {
    const MutexLock lock(mutex_);
    Rows& rows = rows_[owner];
    for (const KvWrite& write : batch) {
      if (write.value.has_value()) {
        rows[write.key] = *write.value;
      } else {
        rows.erase(write.key);
      }
    }
    return {};
  }

  Status clear(const Owner& owner) override {
    const MutexLock lock(mutex_);
    rows_.erase(owner);
    return {};
  }
  Status purge(const Owner&) override { return {}; }  // Deleted is gone.

  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    Rows snapshot;
    {
      const MutexLock lock(mutex_);
      const auto rows = rows_.find(owner);
      if (rows != rows_.end()) snapshot = rows->second;
    }
    for (const auto& [key, value] : snapshot) {
      if (!visit(key, value)) break;
    }
    return {};
  }

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;

  std::optional<std::string> find(const Owner& owner, std::string_view key) const
      FALAJ_REQUIRES(mutex_) {
    const auto rows = rows_.find(owner);
    if (rows == rows_.end()) return std::nullopt;
    const auto it = rows->second.find(key);
    if (it == rows->second.end()) return std::nullopt;
    return it->second;
  }

  mutable Mutex mutex_;
  std::map<Owner, Rows> rows_ FALAJ_GUARDED_BY(mutex_);
};

Error blob_not_found(const BlobId& id) { return {Code::kNotFound, "there is no blob " + id.str()}; }

// Ids differ from the hash of the content, and from one write to the next, as those of a sealing
// store do: nobody above may take one for the other.
class FakeBlobStore final : public BlobStore {
 public:
  Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) override {
    return std::unique_ptr<BlobWriter>(std::make_unique<Writer>(*this, owner));
  }

  Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const override {
    return std::unique_ptr<ByteReader>(std::make_unique<TextReader>(FALAJ_TRY(find(owner, id))));
  }

  Result<BlobGrant> grant(const Owner& owner, const BlobId& id) const override {
    const std::string content = FALAJ_TRY(find(owner, id));
    Fd file(::memfd_create("fake-blob", MFD_CLOEXEC));
    if (!file.valid()) return file_error(errno, "create", "a memory file");
    FALAJ_TRY(write_all(file.get(), content, "a memory file"));
    return BlobGrant{Descriptor(file.release()), ""};
  }

  Status remove(const Owner& owner, const BlobId& id) override {
    const MutexLock lock(mutex_);
    if (blobs_.erase({owner, id}) == 0) return blob_not_found(id);
    return {};
  }

  Result<std::vector<BlobId>> list(const Owner& owner) const override {
    const MutexLock lock(mutex_);
    std::vector<BlobId> ids;
    for (const auto& [name, content] : blobs_) {
      if (name.first == owner) ids.push_back(name.second);
    }
    return ids;
  }

 private:
  class Writer final : public BlobWriter {
   public:
    Writer(FakeBlobStore& store, Owner owner) : store_(store), owner_(std::move(owner)) {}
    Status append(std::string_view bytes) override {
      content_ += bytes;
      return {};
    }
    Result<StoredBlob> commit() override { return store_.keep(owner_, content_); }

   private:
    FakeBlobStore& store_;
    const Owner owner_;
    std::string content_;
  };

  StoredBlob keep(const Owner& owner, const std::string& content) {
    const MutexLock lock(mutex_);
    const BlobId id(sha256_hex("fake " + std::to_string(next_++) + content));
    blobs_[{owner, id}] = content;
    return {id, sha256_hex(content), static_cast<std::int64_t>(content.size())};
  }

  Result<std::string> find(const Owner& owner, const BlobId& id) const {
    const MutexLock lock(mutex_);
    const auto it = blobs_.find({owner, id});
    if (it == blobs_.end()) return blob_not_found(id);
    return it->second;
  }

  mutable Mutex mutex_;
  std::map<std::pair<Owner, BlobId>, std::string> blobs_ FALAJ_GUARDED_BY(mutex_);
  std::int64_t next_ FALAJ_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<KvStore> make_fake_kv() { return std::make_unique<FakeKvStore>(); }

std::unique_ptr<BlobStore> make_fake_blobs() { return std::make_unique<FakeBlobStore>(); }

}  // namespace falaj::storage
