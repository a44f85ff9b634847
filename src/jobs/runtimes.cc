#include "jobs/runtimes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/descriptor.h"
#include "base/file_hash.h"
#include "base/hash.h"
#include "base/log.h"
#include "jobs/exit_error.h"
#include "jobs/oci/layout.h"

namespace falaj::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int kBuildAttempts = 2;

// Words: interpreter, target, requirements, then where packages come from. Wheels only: nothing
// that is downloaded runs here. The lock lists everything, so dependencies are not looked for.
constexpr const char* kBuildScript =
    R"(python=$1 target=$2 lock=$3; shift 3
"$python" -m venv --without-pip "$target"
pip() {
  "$python" -m pip --isolated --no-cache-dir --disable-pip-version-check --no-input \
    --python "$target/bin/python" "$@"
}
pip install --no-deps --only-binary :all: --require-hashes --requirement "$lock" "$@"
pip check)";

// pip reads these, if they are there, and ends when it may not.
constexpr const char* kSystemFiles[] = {
    "/etc/debian_version", "/etc/os-release", "/etc/lsb-release", "/etc/redhat-release",
    "/etc/mime.types",     "/etc/apache",     "/etc/httpd"};

Result<std::string> hash_of(const std::string& path) {
  auto hash = file_sha256(path);
  if (hash) return *std::move(hash);
  return Error(ErrorId::kFileUnreadable,
               "there is no interpreter '" + path + "' on the server's machine");
}

// Files without write permission cannot be removed with their folder unless that is given back.
void remove_tree(const fs::path& path) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) {
      fs::permissions(at->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    }
  }
  fs::remove_all(path, error);
}

// What is known of a build that is whole: how much it is, and the hash of names and contents.
struct Tree {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::string hash;
};

// Takes the permission to write away and hashes everything, in the order of names.
Result<Tree> seal(const fs::path& folder) {
  std::error_code error;
  std::set<fs::path> paths;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    paths.insert(at->path());
  }
  if (error) return Error(Code::kInternal, "read " + folder.string() + ": " + error.message());
  constexpr fs::perms kWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  Tree tree;
  Sha256Hasher hasher;
  for (const fs::path& path : paths) {
    const fs::file_status status = fs::symlink_status(path, error);
    hasher.update(path.lexically_relative(folder).string() + '\n');
    if (fs::is_symlink(status)) {
      hasher.update(fs::read_symlink(path, error).string() + '\n');
      continue;
    }
    if (fs::is_regular_file(status)) {
      hasher.update(file_sha256(path.string()).value_or("unreadable"));
      ++tree.files;
      tree.bytes += static_cast<std::int64_t>(fs::file_size(path, error));
    }
    fs::permissions(path, kWrite, fs::perm_options::remove, error);
  }
  tree.hash = hasher.finish().hex();
  return tree;
}

Status sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid() && ::syncfs(folder.get()) == 0) return {};
  return Error(Code::kInternal, "sync " + path + ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<Runtimes>> Runtimes::open(RuntimesOptions options, storage::SqlStore& sql,
                                                 Queue& queue) {
  std::unique_ptr<Runtimes> out(new Runtimes(std::move(options), sql, queue));
  FALAJ_TRY(out->sweep());
  return out;
}

Status Runtimes::sweep() const {
  std::error_code error;
  const fs::path builds = fs::path(options_.folder) / "builds";
  fs::create_directories(builds, error);
  if (error) {
    return Error(ErrorId::kDataFolderReadOnly,
                 "cannot create " + builds.string() + ": " + error.message());
  }
  std::set<std::string> linked;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    std::error_code ignored;
    if (entry.is_symlink(ignored)) {
      linked.insert(fs::read_symlink(entry.path(), ignored).filename().string());
    }
  }
  if (error) return {};  // Better to keep what nobody needs than to remove what somebody does.
  for (const fs::directory_entry& entry : fs::directory_iterator(builds, error)) {
    if (!linked.contains(entry.path().filename().string())) remove_tree(entry.path());
  }
  return {};
}

Result<RuntimeSpec> Runtimes::find(const std::string& project, const std::string& name) const {
  RuntimeSpec spec;
  FALAJ_TRY(sql_.read([&](storage::SqlTransaction& tx) -> Status {
    const storage::Object object = FALAJ_TRY(storage::get_object(tx, "Runtime", project, name));
    spec = FALAJ_TRY(decode_runtime(object));
    return {};
  }));
  return spec;
}

Status Runtimes::resolve(const security::RequestContext& context, JobSpec& spec) {
  const std::string name = runtime_of(spec.payload).name;
  if (name.empty()) return {};
  const RuntimeSpec runtime = FALAJ_TRY(find(context.project.str(), name));
  RuntimeUse use;
  use.name = name;
  use.form = runtime.form;
  use.readable = runtime.readable;
  const bool image = runtime.form == RuntimeForm::kImage;
  const std::string interpreter = image ? std::string() : FALAJ_TRY(hash_of(runtime.python));
  if (image) {
    FALAJ_TRY(resolve_image(runtime, use));
  } else if (runtime.form == RuntimeForm::kHost) {
    use.digest = sha256_hex("host\n" + runtime.python + "\n" + interpreter);
    use.path = fs::path(runtime.python).parent_path().string();
  } else {
    use.digest = sha256_hex("venv\n" + runtime.python + "\n" + interpreter + "\n" + runtime.lock);
    use.folder = options_.folder + "/" + use.digest;
    use.path = use.folder + "/bin";
  }
  if (!use.folder.empty() && ::access(use.folder.c_str(), F_OK) != 0) {
    spec.request.after.push_back(FALAJ_TRY(build(context, runtime, use)));
  }
  spec.payload["runtime"] = to_value(use);
  return {};
}

// What is wrong with an image is said when it is asked for, as far as its small files tell.
Status Runtimes::resolve_image(const RuntimeSpec& runtime, RuntimeUse& use) const {
  if (options_.oci_runtime.empty() || ::access(options_.oci_runtime.c_str(), X_OK) != 0) {
    return Error(ErrorId::kImageRefused,
                 "no OCI runtime can be started here: have runc installed, or name one in "
                 "jobs.oci_runtime");
  }
  oci::Image image = FALAJ_TRY(oci::read_image(runtime.layout, runtime.image));
  use.digest = runtime.image;
  use.folder = options_.folder + "/" + use.digest;
  use.env = std::move(image.config.env);
  return {};
}

Result<JobId> Runtimes::build(const security::RequestContext& context, const RuntimeSpec& spec,
                              const RuntimeUse& use) {
  for (const Job& job : FALAJ_TRY(queue_.list(context.project))) {
    const bool open = job.status == JobStatus::kQueued || job.status == JobStatus::kRunning;
    if (open && job.spec.type == kRuntimeType && job.spec.payload.text("digest") == use.digest) {
      return job.id;
    }
  }
  JobSpec build;
  build.type = kRuntimeType;
  build.attempts_max = kBuildAttempts;
  build.request.name = "runtime " + spec.name;
  build.payload["digest"] = use.digest;
  build.payload["python"] = spec.python;
  build.payload["lock"] = spec.lock;
  build.payload["wheels"] = spec.wheels;
  build.payload["index"] = spec.index;
  if (spec.form == RuntimeForm::kImage) build.payload["layout"] = spec.layout;
  build.payload["readable"] = Value::array();
  for (const std::string& folder : spec.readable) build.payload["readable"].push(folder);
  return queue_.submit(context, std::move(build));
}

Result<exec::ChildSpec> Runtimes::prepare_image(const Job& job, const std::string& work_dir) {
  const std::string layout = job.spec.payload.text("layout");
  const std::string target = build_folder(job.id);
  remove_tree(target);
  std::error_code error;
  if (!fs::create_directory(target, error)) {
    return Error(ErrorId::kDataFolderFull, "cannot write below " + options_.folder);
  }
  exec::ChildSpec spec;
  spec.argv = {
      options_.program, "engine", "unpack", layout, job.spec.payload.text("digest"), target};
  spec.env = {{"LANG", "C.UTF-8"}};
  spec.work_dir = work_dir;
  spec.sandbox = options_.sandbox;
  spec.sandbox.read_only.push_back(layout);
  spec.sandbox.read_write = {work_dir, target};
  spec.limits.memory_bytes_max = options_.memory_bytes_max;
  spec.limits.run_time_max = options_.run_time_max;
  return spec;
}

Result<exec::ChildSpec> Runtimes::prepare(const Job& job, const std::string& work_dir) {
  if (!job.spec.payload.text("layout").empty()) return prepare_image(job, work_dir);
  const Value& payload = job.spec.payload;
  const std::string target = build_folder(job.id);
  const std::string lock = work_dir + "/requirements.txt";
  remove_tree(target);
  std::error_code error;
  fs::create_directory(target, error);
  std::ofstream file(lock);
  file << FALAJ_TRY(read_lock("Runtime", payload.text("lock")));
  file.close();
  if (error || !file) {
    return Error(ErrorId::kDataFolderFull, "cannot write below " + options_.folder);
  }
  exec::ChildSpec spec;
  spec.argv = {"/bin/sh", "-ec", kBuildScript, "sh", payload.text("python"), target, lock};
  const std::string wheels = payload.text("wheels");
  const std::string index = payload.text("index");
  const std::vector<std::string> source =
      wheels.empty() ? std::vector<std::string>{"--index-url", index}
                     : std::vector<std::string>{"--no-index", "--find-links", wheels};
  spec.argv.insert(spec.argv.end(), source.begin(), source.end());
  spec.env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
              {"HOME", work_dir},
              {"TMPDIR", work_dir},
              {"LANG", "C.UTF-8"},
              {"SOURCE_DATE_EPOCH", "315532800"},
              {"PYTHONHASHSEED", "0"}};
  spec.work_dir = work_dir;
  spec.sandbox = options_.sandbox;
  spec.sandbox.network = wheels.empty();
  if (spec.sandbox.network) std::erase(spec.sandbox.required, "netns");  // Nobody asks for one.
  spec.sandbox.read_write = {work_dir, target};
  for (const char* name : kSystemFiles) spec.sandbox.read_only.emplace_back(name);
  if (!wheels.empty()) spec.sandbox.read_only.push_back(wheels);
  if (payload["readable"].is_array()) {
    for (const Value& folder : payload["readable"].as_array()) {
      spec.sandbox.read_only.push_back(folder.as_string());
    }
  }
  spec.limits.memory_bytes_max = options_.memory_bytes_max;
  spec.limits.run_time_max = options_.run_time_max;
  return spec;
}

bool Runtimes::is_published(const Job& job) const {
  std::error_code error;
  const std::string link = options_.folder + "/" + job.spec.payload.text("digest");
  return fs::read_symlink(link, error) == build_folder(job.id) && !error;
}

// A published one stays, whatever becomes of the job: others may use it already.
void Runtimes::discard(const Job& job) const {
  if (!is_published(job)) remove_tree(build_folder(job.id));
}

Result<Value> Runtimes::publish(const Job& job) const {
  const std::string digest = job.spec.payload.text("digest");
  const std::string target = build_folder(job.id);
  const std::string link = options_.folder + "/" + digest;
  Value out;
  out["digest"] = digest;
  const Tree tree = FALAJ_TRY(seal(target));
  FALAJ_TRY(sync_folder(target));
  std::error_code error;
  if (::access(link.c_str(), F_OK) != 0) fs::remove(link, error);  // It leads nowhere.
  fs::create_directory_symlink(target, link, error);
  if (error == std::errc::file_exists && !is_published(job)) {
    remove_tree(target);  // Another project's build of the same was whole first.
    out["shared"] = true;
    return out;
  }
  if (error && error != std::errc::file_exists) {
    return Error(Code::kInternal, "link " + link + ": " + error.message());
  }
  FALAJ_TRY(sync_folder(options_.folder));
  out["files"] = tree.files;
  out["bytes"] = tree.bytes;
  out["tree"] = tree.hash;
  return out;
}

Handler::Outcome Runtimes::finish(const Job& job, const exec::ChildExit& exit, const std::string&) {
  exec::Limits limits;
  limits.memory_bytes_max = options_.memory_bytes_max;
  limits.run_time_max = options_.run_time_max;
  const Status ended = check_exit(exit, limits);
  Result<Value> result = ended.ok() ? publish(job) : Result<Value>(ended.error());
  if (!result.ok()) discard(job);
  // What is not in the folder will not be there the next time; an index may be away for a moment.
  const bool passing =
      !job.spec.payload.text("index").empty() || exit.reason == exec::ExitReason::kSignalled;
  return {std::move(result), passing};
}

void Runtimes::abandoned(const Job& job, const Error& error) {
  log::error("runtime not built", {{"job", job.id.str()}, {"error", error.message}});
  discard(job);
}

}  // namespace falaj::jobs
