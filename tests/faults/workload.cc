#include "workload.h"

#include "base/hash.h"
#include "security/keys/key_tree.h"
#include "security/sealed/blobs.h"
#include "security/sealed/kv.h"
#include "security/sealed/pages.h"

namespace falaj::faults {
namespace {

using storage::SqlTransaction;

std::string lane_key(int round, int lane) {
  return "lane/" + std::to_string(round) + "/" + std::to_string(lane);
}

std::string key_of(const Write& write) {
  return "row/" + std::to_string(write.round) + "/" + std::to_string(write.lane) + "/" +
         std::to_string(write.index);
}

Error lost(const Write& write, const std::string& how) {
  return {Code::kDataLoss, key_of(write) + " " + how};
}

Status compare(const Write& write, const std::string& found) {
  if (found == content_of(write)) return {};
  return lost(write, "has other content (" + std::to_string(found.size()) + " bytes)");
}

// Every write that `counter` says was committed, one by one.
Status check_up_to(Target& target, const Write& last) {
  for (Write write = last; write.index >= 0; --write.index) FALAJ_TRY(target.check(write));
  return {};
}

class SqlTarget final : public Target {
 public:
  explicit SqlTarget(std::unique_ptr<storage::SqlStore> store) : store_(std::move(store)) {}

  Status put(const Write& write) override {
    return store_->write([&](SqlTransaction& tx) -> Status {
      FALAJ_TRY(
          tx.execute("INSERT INTO rows (k, v) VALUES (?, ?)", {key_of(write), content_of(write)}));
      FALAJ_TRY(
          tx.execute("INSERT INTO lanes (k, n) VALUES (?, ?)"
                     " ON CONFLICT (k) DO UPDATE SET n = excluded.n",
                     {lane_key(write.round, write.lane), std::int64_t{write.index}}));
      return {};
    });
  }

  Status check(const Write& write) override {
    const auto rows =
        FALAJ_TRY(storage::query(*store_, "SELECT v FROM rows WHERE k = ?", {key_of(write)}));
    if (rows.empty()) return lost(write, "is missing");
    return compare(write, rows.front().text(0));
  }

  Status check_whole(int round, int lane) override {
    const auto rows = FALAJ_TRY(
        storage::query(*store_, "SELECT n FROM lanes WHERE k = ?", {lane_key(round, lane)}));
    if (rows.empty()) return {};
    return check_up_to(*this, {round, lane, static_cast<int>(rows.front().integer(0))});
  }

 private:
  std::unique_ptr<storage::SqlStore> store_;
};

const storage::Owner kRows{ProjectName("faults"), Zone("ae"), "FeatureView/rows"};

class KvTarget final : public Target {
 public:
  explicit KvTarget(std::unique_ptr<storage::KvStore> store) : store_(std::move(store)) {}

  Status put(const Write& write) override {
    return store_->write(kRows, {{key_of(write), content_of(write)},
                                 {lane_key(write.round, write.lane), std::to_string(write.index)}});
  }

  Status check(const Write& write) override {
    const auto found = FALAJ_TRY(store_->get(kRows, key_of(write)));
    if (!found.has_value()) return lost(write, "is missing");
    return compare(write, *found);
  }

  Status check_whole(int round, int lane) override {
    const auto counter = FALAJ_TRY(store_->get(kRows, lane_key(round, lane)));
    if (!counter.has_value()) return {};
    return check_up_to(*this, {round, lane, std::stoi(*counter)});
  }

 private:
  std::unique_ptr<storage::KvStore> store_;
};

class BlobTarget final : public Target {
 public:
  explicit BlobTarget(std::unique_ptr<storage::BlobStore> store) : store_(std::move(store)) {}

  Status put(const Write& write) override {
    const storage::StoredBlob blob = FALAJ_TRY(store_->put(owner_of(write), content_of(write)));
    (void)blob;
    return {};
  }

  Status check(const Write& write) override {
    const std::vector<BlobId> ids = FALAJ_TRY(store_->list(owner_of(write)));
    if (ids.size() != 1) return lost(write, "has " + std::to_string(ids.size()) + " blobs");
    const auto found = store_->get(owner_of(write), ids.front());
    if (!found.ok()) return lost(write, found.error().message);
    return compare(write, *found);
  }

  // A blob is whole or absent: whatever the store lists must read back with its hash.
  Status check_whole(int round, int lane) override {
    for (int index = 0; index < kLooked; ++index) {
      const storage::Owner owner = owner_of({round, lane, index});
      for (const BlobId& id : FALAJ_TRY(store_->list(owner))) FALAJ_TRY(store_->get(owner, id));
    }
    return {};
  }

 private:
  static constexpr int kLooked = 400;

  // Ids of sealed blobs are not known before: each write has an owner of its own.
  static storage::Owner owner_of(const Write& write) {
    return {ProjectName("faults"), Zone("ae"), key_of(write)};
  }

  std::unique_ptr<storage::BlobStore> store_;
};

const storage::Migration kTables{"faults-001",
                                 "CREATE TABLE rows (k TEXT PRIMARY KEY, v TEXT NOT NULL) STRICT;"
                                 "CREATE TABLE lanes (k TEXT PRIMARY KEY, n INTEGER) STRICT;"};

// A sealed store with the keys it needs, all of them in the folder.
class SealedTarget final : public Target {
 public:
  static Result<std::unique_ptr<Target>> open(Port port, const std::string& folder,
                                              storage::Durability durability) {
    auto out = std::make_unique<SealedTarget>();
    security::keys::FileVaultOptions vault;
    vault.path = folder + "/keys.sealed";
    vault.machine_key_path = folder + "/machine.key";
    out->sql_ = FALAJ_TRY(storage::open_sqlite(folder + "/keys.db", durability));
    out->vault_ = FALAJ_TRY(
        security::keys::open_file_vault(std::move(vault), security::keys::IfMissing::kCreate));
    out->keys_ = FALAJ_TRY(security::keys::open_key_tree(*out->sql_, *out->vault_, out->clock_));
    out->store_ = FALAJ_TRY(open_store(port, folder, durability, *out->keys_));
    return std::unique_ptr<Target>(std::move(out));
  }

  Status put(const Write& write) override { return store_->put(write); }
  Status check(const Write& write) override { return store_->check(write); }
  Status check_whole(int round, int lane) override { return store_->check_whole(round, lane); }

 private:
  static Result<std::unique_ptr<Target>> open_store(Port port, const std::string& folder,
                                                    storage::Durability durability,
                                                    security::keys::KeyTree& keys) {
    namespace sealed = security::sealed;
    if (port == Port::kSealedSql) {
      const crypto::SecretBytes key = FALAJ_TRY(keys.store_key("meta.db"));
      auto store = FALAJ_TRY(storage::open_sqlite(folder + "/sql/meta.db", durability,
                                                  sealed::make_page_cipher(key, "meta.db")));
      FALAJ_TRY(store->migrate({kTables}));
      return std::unique_ptr<Target>(std::make_unique<SqlTarget>(std::move(store)));
    }
    if (port == Port::kSealedKv) {
      auto rows = FALAJ_TRY(storage::open_rocksdb(folder + "/kv", durability));
      return std::unique_ptr<Target>(
          std::make_unique<KvTarget>(sealed::seal_kv(std::move(rows), keys)));
    }
    auto files = FALAJ_TRY(storage::open_files(folder + "/blob", durability));
    return std::unique_ptr<Target>(
        std::make_unique<BlobTarget>(sealed::seal_blobs(std::move(files), keys)));
  }

  SystemClock clock_;
  std::unique_ptr<storage::SqlStore> sql_;
  std::unique_ptr<security::keys::KeyVault> vault_;
  std::unique_ptr<security::keys::KeyTree> keys_;
  std::unique_ptr<Target> store_;
};

}  // namespace

std::string to_string(Port port) {
  switch (port) {
    case Port::kSql:
      return "sql";
    case Port::kKv:
      return "kv";
    case Port::kBlob:
      return "blob";
    case Port::kSealedSql:
      return "sealed_sql";
    case Port::kSealedKv:
      return "sealed_kv";
    case Port::kSealedBlob:
      return "sealed_blob";
  }
  return "";
}

Result<Port> port_from(const std::string& name) {
  for (const Port port :
       {Port::kSql, Port::kKv, Port::kBlob, Port::kSealedSql, Port::kSealedKv, Port::kSealedBlob}) {
    if (name == to_string(port)) return port;
  }
  return Error(Code::kInvalidArgument,
               name + " is no port: sql, kv, blob, sealed_sql, sealed_kv or sealed_blob");
}

std::string content_of(const Write& write) {
  const std::string key = key_of(write);
  const std::uint64_t mixed = hash64(key, 7);
  const std::size_t size = mixed % 23 == 0 ? 64u << 10 : 1 + mixed % 700;
  std::string content = key + "#";
  for (std::uint64_t i = 0; content.size() < size; ++i) {
    // Letters, so that it may stand in a text column; five bits each.
    for (std::uint64_t bits = hash64(key, i), n = 0; n < 12; ++n, bits >>= 5) {
      content += static_cast<char>('A' + bits % 32);
    }
  }
  return content;
}

Result<std::unique_ptr<Target>> Target::open(Port port, const std::string& folder,
                                             storage::Durability durability) {
  switch (port) {
    case Port::kSql: {
      auto store = FALAJ_TRY(storage::open_sqlite(folder + "/sql/meta.db", durability));
      FALAJ_TRY(store->migrate({kTables}));
      return std::unique_ptr<Target>(std::make_unique<SqlTarget>(std::move(store)));
    }
    case Port::kKv:
      return std::unique_ptr<Target>(
          std::make_unique<KvTarget>(FALAJ_TRY(storage::open_rocksdb(folder + "/kv", durability))));
    case Port::kBlob:
      return std::unique_ptr<Target>(std::make_unique<BlobTarget>(
          FALAJ_TRY(storage::open_files(folder + "/blob", durability))));
    case Port::kSealedSql:
    case Port::kSealedKv:
    case Port::kSealedBlob:
      return SealedTarget::open(port, folder, durability);
  }
  return Error(Code::kInternal, "unknown port");
}

}  // namespace falaj::faults
