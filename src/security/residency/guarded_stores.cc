#include "security/residency/guarded_stores.h"

#include <utility>

namespace falaj::security::residency {
namespace {

using storage::BlobGrant;
using storage::BlobStore;
using storage::BlobWriter;
using storage::KvStore;
using storage::KvWrite;
using storage::Owner;
using storage::StoredBlob;

Result<Passage> pass(Exits& exits, Exit exit, const Owner& owner, std::int64_t bytes,
                     const Zone& place = Zone()) {
  Flow flow;
  flow.exit = exit;
  flow.project = owner.project.str();
  flow.data = owner.zone;
  flow.destination = place.labelled() ? place : exits.machine_for(owner.zone);
  flow.object = owner.object;
  flow.bytes = bytes;
  return exits.pass(system_context("service:storage", owner.project, owner.zone), std::move(flow));
}

// Counts when the bytes are durable, not before.
class GuardedWriter final : public BlobWriter {
 public:
  GuardedWriter(std::unique_ptr<BlobWriter> inner, Exits& exits, Passage passage)
      : inner_(std::move(inner)), exits_(exits), passage_(std::move(passage)) {}
  Status append(std::string_view bytes) override { return inner_->append(bytes); }
  Result<StoredBlob> commit() override {
    StoredBlob stored = FALAJ_TRY(inner_->commit());
    exits_.count(passage_, stored.bytes);
    return stored;
  }

 private:
  std::unique_ptr<BlobWriter> inner_;
  Exits& exits_;
  Passage passage_;
};

class GuardedReader final : public ByteReader {
 public:
  GuardedReader(std::unique_ptr<ByteReader> inner, Exits& exits, Passage passage)
      : inner_(std::move(inner)), exits_(exits), passage_(std::move(passage)) {}
  std::int64_t size() const override { return inner_->size(); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<char> out) const override {
    const std::size_t read = FALAJ_TRY(inner_->read_at(offset, out));
    exits_.count(passage_, static_cast<std::int64_t>(read));
    return read;
  }

 private:
  std::unique_ptr<ByteReader> inner_;
  Exits& exits_;
  Passage passage_;
};

class GuardedBlobs final : public BlobStore {
 public:
  GuardedBlobs(std::unique_ptr<BlobStore> inner, Exits& exits)
      : inner_(std::move(inner)), exits_(exits) {}

  Result<std::unique_ptr<BlobWriter>> create(const Owner& owner) override {
    Passage passage = FALAJ_TRY(pass(exits_, Exit::kWrite, owner, 0));
    std::unique_ptr<BlobWriter> writer = FALAJ_TRY(inner_->create(owner));
    return std::unique_ptr<BlobWriter>(
        std::make_unique<GuardedWriter>(std::move(writer), exits_, std::move(passage)));
  }
  Result<StoredBlob> put(const Owner& owner, std::string_view bytes) override {
    const Passage passage = FALAJ_TRY(pass(exits_, Exit::kWrite, owner, 0));
    StoredBlob stored = FALAJ_TRY(inner_->put(owner, bytes));
    exits_.count(passage, stored.bytes);
    return stored;
  }
  Result<std::unique_ptr<ByteReader>> open(const Owner& owner, const BlobId& id) const override {
    Passage passage = FALAJ_TRY(pass(exits_, Exit::kReplicate, owner, 0));
    std::unique_ptr<ByteReader> reader = FALAJ_TRY(inner_->open(owner, id));
    return std::unique_ptr<ByteReader>(
        std::make_unique<GuardedReader>(std::move(reader), exits_, std::move(passage)));
  }
  Result<std::string> get(const Owner& owner, const BlobId& id) const override {
    const Passage passage = FALAJ_TRY(pass(exits_, Exit::kReplicate, owner, 0));
    std::string bytes = FALAJ_TRY(inner_->get(owner, id));
    exits_.count(passage, static_cast<std::int64_t>(bytes.size()));
    return bytes;
  }
  Result<std::int64_t> size(const Owner& owner, const BlobId& id) const override {
    return inner_->size(owner, id);
  }
  Result<BlobGrant> grant(const Owner& owner, const BlobId& id) const override {
    const Passage passage = FALAJ_TRY(pass(exits_, Exit::kSchedule, owner, 0));
    BlobGrant granted = FALAJ_TRY(inner_->grant(owner, id));
    const Result<std::int64_t> bytes = inner_->size(owner, id);
    exits_.count(passage, bytes.ok() ? *bytes : 0);
    return granted;
  }
  Status remove(const Owner& owner, const BlobId& id) override { return inner_->remove(owner, id); }
  Result<std::vector<BlobId>> list(const Owner& owner) const override {
    return inner_->list(owner);
  }

 private:
  std::unique_ptr<BlobStore> inner_;
  Exits& exits_;
};

class GuardedKv final : public KvStore {
 public:
  GuardedKv(std::unique_ptr<KvStore> inner, Exits& exits, Zone place)
      : inner_(std::move(inner)), exits_(exits), place_(std::move(place)) {}

  // Single rows stay where they were written; what is read in bulk makes a copy, see scan().
  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    return inner_->get(owner, key);
  }
  Result<std::vector<std::optional<std::string>>> get_many(
      const Owner& owner, const std::vector<std::string>& keys) const override {
    return inner_->get_many(owner, keys);
  }
  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override {
    std::int64_t bytes = 0;
    for (const KvWrite& row : batch) {
      if (row.value) bytes += static_cast<std::int64_t>(row.key.size() + row.value->size());
    }
    const Passage passage = FALAJ_TRY(pass(exits_, Exit::kWrite, owner, 0, place_));
    FALAJ_TRY(inner_->write(owner, batch));
    exits_.count(passage, bytes);
    return {};
  }
  Status clear(const Owner& owner) override { return inner_->clear(owner); }
  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    const Passage passage = FALAJ_TRY(pass(exits_, Exit::kReplicate, owner, 0));
    std::int64_t bytes = 0;
    const Status done = inner_->scan(owner, [&](std::string_view key, std::string_view value) {
      bytes += static_cast<std::int64_t>(key.size() + value.size());
      return visit(key, value);
    });
    exits_.count(passage, bytes);
    return done;
  }
  Status purge(const Owner& owner) override { return inner_->purge(owner); }
  // Stays in this data folder, which is in the zones that the rows were written to.
  Status copy_to(const std::string& folder) const override { return inner_->copy_to(folder); }

 private:
  std::unique_ptr<KvStore> inner_;
  Exits& exits_;
  const Zone place_;
};

}  // namespace

std::unique_ptr<BlobStore> guard_blobs(std::unique_ptr<BlobStore> inner, Exits& exits) {
  return std::make_unique<GuardedBlobs>(std::move(inner), exits);
}

std::unique_ptr<KvStore> guard_kv(std::unique_ptr<KvStore> inner, Exits& exits, Zone place) {
  return std::make_unique<GuardedKv>(std::move(inner), exits, std::move(place));
}

}  // namespace falaj::security::residency
