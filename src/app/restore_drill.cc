#include "app/restore_drill.h"

#include <algorithm>
#include <filesystem>

#include "app/backup.h"
#include "app/stores.h"
#include "base/json.h"
#include "security/audit/wire.h"

namespace falaj::app {
namespace {

namespace fs = std::filesystem;
namespace keys = security::keys;

constexpr std::int64_t kBlobBytesRead = std::int64_t{1} << 30;
constexpr std::size_t kReadBytes = 1 << 20;

struct Counts {
  std::int64_t entries = 0;
  std::int64_t objects = 0;
  bool operator==(const Counts&) const = default;
};

Result<Counts> count_rows(storage::SqlTransaction& tx) {
  const auto entries = FALAJ_TRY(tx.query("SELECT count(*) FROM audit"));
  const auto objects = FALAJ_TRY(storage::list_objects(tx));
  return Counts{entries.front().integer(0), static_cast<std::int64_t>(objects.size())};
}

Error differs(const std::string& what) {
  return Error(ErrorId::kDatabaseCorrupt, "the restore drill brought back another state: " + what);
}

// A folder that goes away with everything in it.
class DrillFolder {
 public:
  explicit DrillFolder(std::string path) : path_(std::move(path)) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);  // Left by a drill that was killed.
    fs::create_directory(path_, ignored);
    fs::permissions(path_, fs::perms::owner_all, ignored);
  }
  ~DrillFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  DrillFolder(const DrillFolder&) = delete;
  DrillFolder& operator=(const DrillFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// One drill: what is copied, in an order in which each store finds in the copy what it refers to.
class Drill {
 public:
  Drill(const Options& options, Storage& storage, const crypto::NoteKey& log_key,
        const Clock& clock)
      : options_(options),
        storage_(storage),
        log_key_(log_key),
        clock_(clock),
        folder_(options.data_folder + "/restore-drill") {}

  Result<Value> run() {
    const std::int64_t begin = monotonic_nanos();
    FALAJ_TRY(copy());
    FALAJ_TRY(open_keys());
    FALAJ_TRY(check_metadata());
    FALAJ_TRY(check_rows());
    FALAJ_TRY(check_models());
    report_["at"] = to_rfc3339(clock_.now());
    report_["took_ms"] = (monotonic_nanos() - begin) / 1'000'000;
    report_["bytes"] = bytes_;
    report_["equal"] = true;
    report_["covers"] = std::string("keys, metadata with the audit log, ") +
                        (has_rows() ? "online rows, " : "") + "blobs, models, signer";
    return report_;
  }

 private:
  std::string here(const std::string& name) const { return folder_.path() + "/" + name; }
  // Rows in Redis are not of this folder: a start makes them again from the segments.
  bool has_rows() const { return options_.online.engine == OnlineOptions::Engine::kRocksDb; }
  std::string live(const std::string& name) const { return options_.data_folder + "/" + name; }

  // A file that is not there is nothing to copy: opening the copy says whether it was needed.
  Status copy_file(const std::string& from, const std::string& to) {
    std::error_code error;
    if (!fs::exists(from, error)) return {};
    fs::copy_file(from, to, error);
    if (error) return Error(Code::kInternal, "restore drill: " + from + ": " + error.message());
    bytes_ += static_cast<std::int64_t>(fs::file_size(to, error));
    return {};
  }

  // The signer first and the keys last: a log that grows meanwhile is longer than what was signed,
  // and no data is older than its key.
  Status copy() {
    std::error_code error;
    fs::create_directory(here("signer"), error);
    const std::string memory = signer_folder(options_.data_folder, options_.audit);
    for (const char* name : {"/state.json", "/key"}) {
      FALAJ_TRY(copy_file(memory + name, here("signer") + name));
    }
    rings_ = FALAJ_TRY(storage_.keys.tree->inventory()).size();
    // On the writer's thread: nothing is written and no log is folded while the files are copied.
    FALAJ_TRY(storage_.sql->write([&](storage::SqlTransaction& tx) -> Status {
      counts_ = FALAJ_TRY(count_rows(tx));
      return copy_database("metadata.db");
    }));
    if (has_rows()) FALAJ_TRY(storage_.kv->copy_to(here("online")));
    FALAJ_TRY(link_blobs());
    return storage_.keys.sql->write(
        [&](storage::SqlTransaction&) { return copy_database("keys.db"); });
  }

  Status copy_database(const std::string& name) {
    FALAJ_TRY(copy_file(live(name), here(name)));
    return copy_file(live(name + "-wal"), here(name + "-wal"));
  }

  // A blob never changes and appears whole, so a second name is as good as a copy.
  Status link_blobs() {
    const std::string shelves = "blobs/blobs";
    std::error_code error;
    fs::create_directories(here(shelves), error);
    for (fs::recursive_directory_iterator at(live(shelves), error), end; !error && at != end;
         at.increment(error)) {
      const std::string to = here(shelves) + "/" + fs::relative(at->path(), live(shelves)).string();
      std::error_code failed;
      if (at->is_directory(failed)) {
        fs::create_directory(to, failed);
      } else {
        fs::create_hard_link(at->path(), to, failed);
      }
      const bool removed = failed == std::errc::no_such_file_or_directory;  // Meanwhile.
      if (failed && !removed) error = failed;
    }
    if (error) return Error(Code::kInternal, "restore drill: blobs: " + error.message());
    return {};
  }

  // As a start would; only a device is not opened twice by one program.
  Status open_keys() {
    if (options_.keys.vault == KeyOptions::Vault::kPkcs11) {
      keys_.sql = FALAJ_TRY(storage::open_sqlite(here("keys.db")));
      keys_.tree = FALAJ_TRY(keys::open_key_tree(*keys_.sql, *storage_.keys.vault, clock_, {}));
    } else {
      Options options = options_;
      options.data_folder = folder_.path();
      const std::string& chosen = options_.keys.vault_file;
      FALAJ_TRY(copy_file(chosen.empty() ? live("keys.sealed") : chosen, here("keys.sealed")));
      FALAJ_TRY(copy_file(live("machine.key"), here("machine.key")));
      options.keys.vault_file = here("keys.sealed");
      keys_ = FALAJ_TRY(wire_keys(options, clock_));
    }
    owners_ = FALAJ_TRY(owners_in(*keys_.tree));
    const std::size_t rings = FALAJ_TRY(keys_.tree->inventory()).size();
    if (rings < rings_) {
      return differs(std::to_string(rings) + " of " + std::to_string(rings_) + " keys");
    }
    report_["keys"] = rings;
    return {};
  }

  Status check_metadata() {
    sql_ = FALAJ_TRY(open_metadata(folder_.path(), *keys_.tree));
    audit_ = std::make_unique<security::Audit>(*sql_, clock_);
    audit_->set_log_key(log_key_);
    FALAJ_TRY(audit_->verify());
    const crypto::TreeHead head = FALAJ_TRY(audit_->advance());
    Counts restored;
    FALAJ_TRY(sql_->read([&](storage::SqlTransaction& tx) -> Status {
      restored = FALAJ_TRY(count_rows(tx));
      return {};
    }));
    FALAJ_TRY(storage_.audit->advance());
    const crypto::TreeHead expected = FALAJ_TRY(storage_.audit->head_at(head.size));
    if (!(restored == counts_) || expected.root != head.root) {
      return differs(std::to_string(restored.entries) + " of " + std::to_string(counts_.entries) +
                     " audit entries and " + std::to_string(restored.objects) + " of " +
                     std::to_string(counts_.objects) + " objects");
    }
    report_["audit"] = security::head_value(head);
    report_["objects"] = restored.objects;
    return check_signer();
  }

  Status check_signer() {
    crypto::SecretBytes wrapper = FALAJ_TRY(keys_.tree->store_key("audit-signer"));
    const auto signer =
        FALAJ_TRY(security::open_local_signer({here("signer"), "", std::move(wrapper)}));
    const security::SignerInfo info = FALAJ_TRY(signer->info());
    if (info.log_key.raw != log_key_.raw) return differs("the signer has another key");
    security::Heads heads(*sql_, *audit_, *signer, clock_);
    std::string unused;
    FALAJ_TRY(heads.check_start(&unused));
    report_["signed"] = security::head_value(info.last);
    return {};
  }

  Status check_rows() {
    std::unique_ptr<storage::KvStore> rows;
    if (has_rows()) {
      rows = seal_online(FALAJ_TRY(storage::open_rocksdb(here("online"))), *keys_.tree);
    }
    blobs_ = FALAJ_TRY(open_blobs(folder_.path(), *keys_.tree));
    std::int64_t online = 0;
    for (const storage::Owner& owner : owners_) {
      if (rows != nullptr) {
        FALAJ_TRY(rows->scan(owner, [&](std::string_view, std::string_view) {
          ++online;
          return true;
        }));
      }
      FALAJ_TRY(check_blobs(owner));
    }
    report_["online"]["rows"] = online;
    report_["blobs"]["there"] = blobs_there_;
    report_["blobs"]["read"] = blobs_read_;
    report_["blobs"]["bytes"] = blob_bytes_;
    return {};
  }

  Status check_blobs(const storage::Owner& owner) {
    std::string buffer(kReadBytes, '\0');
    const auto ids = FALAJ_TRY(blobs_->list(owner));
    blobs_there_ += static_cast<std::int64_t>(ids.size());
    for (const BlobId& id : ids) {
      if (blob_bytes_ >= kBlobBytesRead) return {};
      const auto reader = FALAJ_TRY(blobs_->open(owner, id));
      for (std::int64_t at = 0; at < reader->size();) {
        const std::size_t got = FALAJ_TRY(reader->read_at(at, buffer));
        if (got == 0) return differs("blob " + id.str() + " ends early");
        at += static_cast<std::int64_t>(got);
      }
      blob_bytes_ += reader->size();
      ++blobs_read_;
    }
    return {};
  }

  Status check_models() {
    const crypto::SecretBytes sealing = FALAJ_TRY(keys_.tree->store_key("model-signing"));
    const auto trust = FALAJ_TRY(security::ModelTrust::open(*sql_, sealing, ""));
    const registry::Models models(*sql_, *blobs_, *audit_, *trust, clock_);
    std::int64_t loaded = 0;
    std::vector<storage::Object> projects;
    FALAJ_TRY(sql_->read([&](storage::SqlTransaction& tx) -> Status {
      projects = FALAJ_TRY(storage::list_objects(tx, "Project"));
      return {};
    }));
    for (const storage::Object& project : projects) {
      const ProjectName name(project.name);
      const auto names = FALAJ_TRY(models.models(name));
      for (const std::string& model : names) {
        const auto versions = FALAJ_TRY(models.versions(name, model));
        if (versions.empty()) continue;
        // A model whose key was shredded is gone on purpose, here as there.
        const auto bytes = models.load_onnx(versions.front());
        if (bytes.ok()) ++loaded;
        if (!bytes.ok() && live_opens(name, versions.front())) {
          return bytes.error().within("the restored model " + model);
        }
      }
    }
    report_["models"] = loaded;
    return {};
  }

  // Whether the live server could open the file: then the copy must, too.
  bool live_opens(const ProjectName& project, const registry::ModelVersion& version) {
    const storage::Owner owner{project, Zone(version.zone), "Model/" + version.model};
    return storage_.blobs->open(owner, version.onnx).ok();
  }

  const Options& options_;
  Storage& storage_;
  const crypto::NoteKey& log_key_;
  const Clock& clock_;
  const DrillFolder folder_;
  Keys keys_;
  std::unique_ptr<storage::SqlStore> sql_;
  std::unique_ptr<storage::BlobStore> blobs_;
  std::unique_ptr<security::Audit> audit_;
  std::vector<storage::Owner> owners_;
  std::size_t rings_ = 0;
  Counts counts_;
  std::int64_t bytes_ = 0;
  std::int64_t blobs_there_ = 0;
  std::int64_t blobs_read_ = 0;
  std::int64_t blob_bytes_ = 0;
  Value report_;
};

}  // namespace

Result<std::string> restore_drill(const Options& options, Storage& storage,
                                  const crypto::NoteKey& log_key, const Clock& clock) {
  Drill drill(options, storage, log_key, clock);
  const Value report = FALAJ_TRY(drill.run());
  return to_pretty_json(report) + "\n";
}

}  // namespace falaj::app
