#include "app/restore_drill.h"

#include <filesystem>

#include "app/stores.h"
#include "base/json.h"
#include "security/audit/wire.h"

namespace falaj::app {
namespace {

namespace fs = std::filesystem;

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

Result<std::int64_t> copy_files(const std::string& from, const std::string& to) {
  std::int64_t bytes = 0;
  for (const char* name : {"metadata.db", "metadata.db-wal"}) {
    std::error_code error;
    if (!fs::exists(fs::path(from) / name, error)) continue;
    fs::copy_file(fs::path(from) / name, fs::path(to) / name, error);
    if (error) return Error(Code::kInternal, std::string("restore drill: ") + error.message());
    bytes += static_cast<std::int64_t>(fs::file_size(fs::path(to) / name, error));
  }
  return bytes;
}

}  // namespace

Result<std::string> restore_drill(const std::string& data_folder, Storage& storage,
                                  const Clock& clock) {
  const std::int64_t begin = monotonic_nanos();
  const DrillFolder folder(data_folder + "/restore-drill");
  Counts live;
  std::int64_t bytes = 0;
  // On the writer's thread: nothing is written and no log is folded while the files are copied.
  FALAJ_TRY(storage.sql->write([&](storage::SqlTransaction& tx) -> Status {
    live = FALAJ_TRY(count_rows(tx));
    bytes = FALAJ_TRY(copy_files(data_folder, folder.path()));
    return {};
  }));
  const auto copy = FALAJ_TRY(open_metadata(folder.path(), *storage.keys.tree));
  const security::Audit log(*copy, clock);
  const crypto::TreeHead head = FALAJ_TRY(log.tree_head());
  FALAJ_TRY(log.verify());
  Counts restored;
  FALAJ_TRY(copy->read([&](storage::SqlTransaction& tx) -> Status {
    restored = FALAJ_TRY(count_rows(tx));
    return {};
  }));
  FALAJ_TRY(storage.audit->advance());
  const crypto::TreeHead expected = FALAJ_TRY(storage.audit->head_at(head.size));
  if (!(restored == live) || expected.root != head.root) {
    return Error(
        ErrorId::kDatabaseCorrupt,
        "the restore drill brought back another state: " + std::to_string(restored.entries) +
            " of " + std::to_string(live.entries) + " audit entries and " +
            std::to_string(restored.objects) + " of " + std::to_string(live.objects) + " objects");
  }
  Value report;
  report["at"] = to_rfc3339(clock.now());
  report["took_ms"] = (monotonic_nanos() - begin) / 1'000'000;
  report["bytes"] = bytes;
  report["audit"] = security::head_value(head);
  report["objects"] = restored.objects;
  report["equal"] = true;
  report["covers"] = "metadata.db: objects, runs, models, jobs and the audit log";
  return to_pretty_json(report) + "\n";
}

}  // namespace falaj::app
