#include "app/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/json.h"

namespace falaj::app {
namespace {

namespace fs = std::filesystem;
using security::residency::Exit;
using security::residency::Flow;

struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

Error file_error(const std::string& what, const std::string& path) {
  return Error(errno == ENOSPC ? ErrorId::kDataFolderFull : ErrorId::kFileUnreadable,
               what + " " + path + ": " + std::strerror(errno));
}

// Copies one file durably; gives its size and hash.
Result<Value> copy_file(const std::string& from, const std::string& to) {
  const File in{::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (in.fd < 0) return file_error("cannot read", from);
  const File out{::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (out.fd < 0) return file_error("cannot write", to);
  Sha256Hasher hasher;
  std::string buffer(1 << 20, '\0');
  std::int64_t bytes = 0;
  while (true) {
    const ssize_t got = ::read(in.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("cannot read", from);
    if (got == 0) break;
    hasher.update(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
    for (ssize_t done = 0; done < got;) {
      const ssize_t put =
          ::write(out.fd, buffer.data() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return file_error("cannot write", to);
      done += put;
    }
    bytes += got;
  }
  if (::fsync(out.fd) != 0) return file_error("cannot make durable", to);
  Value row;
  row["bytes"] = bytes;
  row["sha256"] = hasher.finish().hex();
  return row;
}

Status sync_folder(const std::string& path) {
  const File folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd < 0 || ::fsync(folder.fd) != 0) return file_error("cannot make durable", path);
  return {};
}

bool is_work_in_progress(const std::string& relative) {
  return relative == "falaj.lock" || relative == "uploads" || relative.starts_with("uploads/") ||
         relative == "jobs" || relative.starts_with("jobs/") || relative == "restore-drill" ||
         relative.starts_with("restore-drill/");
}

}  // namespace

Result<Value> copy_folder(const std::string& from, const std::string& to) {
  Value files = Value::object();
  std::error_code failed;
  fs::create_directories(to, failed);
  std::vector<fs::path> entries;
  for (auto at = fs::recursive_directory_iterator(from, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    entries.push_back(at->path());
  }
  if (failed) return Error(Code::kInternal, "cannot list " + from + ": " + failed.message());
  std::sort(entries.begin(), entries.end());
  std::vector<std::string> folders{to};
  for (const fs::path& path : entries) {
    const std::string relative = fs::relative(path, from).string();
    if (is_work_in_progress(relative)) continue;
    const std::string target = to + "/" + relative;
    if (fs::is_directory(fs::symlink_status(path))) {
      fs::create_directories(target, failed);
      folders.push_back(target);
    } else if (fs::is_regular_file(fs::symlink_status(path))) {
      files[relative] = FALAJ_TRY(copy_file(path.string(), target));
    }
  }
  for (const std::string& folder : folders) FALAJ_TRY(sync_folder(folder));
  return files;
}

namespace {

// As much as copy_folder() would copy now.
std::int64_t bytes_in(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code failed;
  for (auto at = fs::recursive_directory_iterator(folder, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    std::error_code ignored;
    const bool file = fs::is_regular_file(at->symlink_status(ignored));
    if (!file || is_work_in_progress(fs::relative(at->path(), folder, ignored).string())) continue;
    bytes += static_cast<std::int64_t>(at->file_size(ignored));
  }
  return bytes;
}

Result<Value> copy_all(const BackupOptions& options, Timestamp now) {
  const std::string partial = options.out + ".partial";
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  Value manifest;
  manifest["files"] = FALAJ_TRY(copy_folder(options.server.data_folder, partial));
  if (const std::string& memory = options.server.audit.signer_dir; !memory.empty()) {
    const Value signer = FALAJ_TRY(copy_folder(memory, partial + "/signer"));
    for (const auto& [name, row] : signer.as_object()) manifest["files"]["signer/" + name] = row;
  }
  manifest["zone"] = options.zone;
  manifest["made_at"] = to_rfc3339(now);
  manifest["program"] = version_text();
  std::int64_t bytes = 0;
  for (const auto& [name, row] : manifest["files"].as_object()) bytes += row.integer("bytes");
  const std::string path = partial + "/BACKUP.json";
  const std::string text = to_json(manifest);
  const File file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.fd < 0 ||
      ::write(file.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.fd) != 0) {
    return file_error("cannot write", path);
  }
  FALAJ_TRY(sync_folder(partial));
  if (::rename(partial.c_str(), options.out.c_str()) != 0) {
    return file_error("cannot make", options.out);
  }
  FALAJ_TRY(sync_folder(fs::absolute(options.out).parent_path().string()));
  Value reply;
  reply["files"] = manifest["files"].as_object().size();
  reply["bytes"] = bytes;
  reply["zone"] = options.zone;
  reply["out"] = options.out;
  return reply;
}

}  // namespace

Result<std::vector<storage::Owner>> owners_in(security::keys::KeyTree& keys) {
  std::vector<storage::Owner> owners;
  for (const security::keys::RingInfo& ring : FALAJ_TRY(keys.inventory())) {
    if (ring.level != "object" || ring.shredded.nanos != 0) continue;
    owners.push_back({ProjectName(ring.project), ring.zone, ring.object});
  }
  return owners;
}

const std::vector<std::string>& labelled_tables() {
  static const std::vector<std::string> tables{
      "feature_commits",  // Segments: feature values.
      "feature_quarantines",
      "feature_profiles",
      "training_sets",
      "runs",  // With their checkpoints.
      "jobs",  // With what their processes printed: log streams.
      "model_versions",
      "monitor_references",  // Profiles.
      "monitor_windows",     // What became of the prediction log.
      "monitor_alarms",
      "rollouts",  // With cuts of the champion's scores.
      "recorded_requests",
  };
  return tables;
}

Result<std::vector<storage::Owner>> owners_in(storage::SqlStore& metadata) {
  std::vector<storage::Owner> owners;
  std::set<std::pair<std::string, std::string>> seen;
  for (const std::string& table : labelled_tables()) {
    const storage::SqlRows rows =
        FALAJ_TRY(storage::query(metadata, "SELECT DISTINCT project, zone FROM " + table));
    for (const storage::SqlRow& row : rows) {
      if (!seen.emplace(row.text(0), row.text(1)).second) continue;
      owners.push_back({ProjectName(row.text(0)), Zone(row.text(1)), table});
    }
  }
  return owners;
}

namespace {

Result<security::residency::Passage> pass_one(security::residency::Exits& exits,
                                              const storage::Owner& owner,
                                              const std::string& zone) {
  Flow flow;
  flow.exit = Exit::kBackup;
  flow.project = owner.project.str();
  flow.data = owner.zone;
  flow.destination = Zone(zone);
  flow.object = owner.object;
  const auto context = security::system_context("service:backup", owner.project, owner.zone);
  return exits.pass_recorded(context, std::move(flow));
}

}  // namespace

Status pass_backup(security::residency::Exits& exits, const std::vector<storage::Owner>& owners,
                   const std::string& zone, std::int64_t bytes) {
  std::map<std::pair<std::string, std::string>, security::residency::Passage> passages;
  for (const storage::Owner& owner : owners) {
    Result<security::residency::Passage> passed = pass_one(exits, owner, zone);
    if (passed.ok()) {
      passages[{owner.project.str(), owner.zone.name()}] = std::move(passed).value();
      continue;
    }
    Error refused = passed.error();
    if (!exits.snapshot()->zones.has(Zone(zone))) return refused;
    refused.message += "; a backup is of the whole folder: approve a Transfer of project " +
                       owner.project.str() + " from " + owner.zone.name() + " to " + zone +
                       " with 'exits: [backup]', or serve each zone from a folder of its own";
    return refused;
  }
  for (const auto& [whose, passage] : passages) exits.count(passage, bytes);
  return {};
}

Result<Value> back_up(const BackupOptions& options, const Clock& clock) {
  if (fs::exists(options.out)) {
    return Error(Code::kConflict, options.out + " exists already: name a folder that does not");
  }
  Storage storage = FALAJ_TRY(wire_storage(options.server, clock));
  std::vector<storage::Owner> owners = FALAJ_TRY(owners_in(*storage.keys.tree));
  for (storage::Owner& owner : FALAJ_TRY(owners_in(*storage.sql))) {
    owners.push_back(std::move(owner));
  }
  const std::int64_t bytes = bytes_in(options.server.data_folder);
  const Status passed = pass_backup(*storage.exits, owners, options.zone, bytes);
  FALAJ_TRY(storage.exits->tick());
  FALAJ_TRY(passed);
  Value detail;
  detail["zone"] = options.zone;
  detail["owners"] = owners.size();
  const auto context = security::system_context("service:backup", ProjectName(), Zone());
  FALAJ_TRY(storage.audit->record(context, {"backup.make", "Folder", std::move(detail)}));
  // Closed, so that what lies on disk is whole; the lock keeps everybody else out meanwhile.
  storage.generations.reset();
  storage.exits.reset();
  storage.audit.reset();
  storage.blobs.reset();
  storage.kv.reset();
  storage.sql.reset();
  storage.keys.tree.reset();
  storage.keys.vault.reset();
  storage.keys.sql.reset();
  return copy_all(options, clock.now());
}

}  // namespace falaj::app
