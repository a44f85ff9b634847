#include "training/worker_jobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/descriptor.h"
#include "base/json.h"
#include "base/log.h"
#include "jobs/checkpoint/archive.h"
#include "jobs/checkpoint/memory_folder.h"
#include "jobs/runtime.h"

namespace falaj::training {
namespace {

namespace fs = std::filesystem;
using jobs::checkpoint::MemoryFolder;

constexpr std::size_t kPointsAtOnce = 2'000;
constexpr std::size_t kReportBytesMax = std::size_t{1} << 20;
constexpr std::string_view kReport = "/report.json";
constexpr std::int64_t kOwnProcesses = 64;  // Of the launcher and its threads.
// After the workers' grace: for the last checkpoint to reach the disk.
constexpr Duration kPersistMost = Duration::seconds(60);

// What workers left there: they may have put anything in its place.
std::string bytes_left(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return "";
  std::string bytes(std::min(most, static_cast<std::size_t>(about.st_size)), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = ::read(file.get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  bytes.resize(got);
  return bytes;
}

// Of report.json, what a run shows: counts, the first failure of the last attempt, the newest
// checkpoint.
Value outputs_of(const Value& report) {
  Value out = Value::object();
  if (report.is_null()) return out;
  Value& launch = out["launch"];
  launch["code"] = report.integer("code");
  launch["reason"] = report.text("reason");
  launch["crashes"] = report.integer("crashes");
  launch["preemptions"] = report.integer("preemptions");
  const Value& attempts = report["attempts"];
  launch["attempts"] =
      static_cast<std::int64_t>(attempts.is_array() ? attempts.as_array().size() : 0);
  if (attempts.is_array() && !attempts.as_array().empty()) {
    launch["workers"] = attempts.as_array().back().integer("world");
  }
  const Value& checkpoint = report["checkpoint"];
  if (!checkpoint.is_object()) return out;
  Value& newest = out["checkpoint"];
  newest["number"] = checkpoint.integer("number");
  newest["name"] = checkpoint.text("name");
  newest["bytes"] = checkpoint.integer("bytes");
  newest["saved_at"] = checkpoint.text("saved_at");
  return out;
}

Value words_value(const std::vector<std::string>& words) {
  Value list = Value::array();
  for (const std::string& word : words) list.push(word);
  return list;
}

std::vector<std::string> words_of(const Value& list) {
  std::vector<std::string> words;
  if (!list.is_array()) return words;
  for (const Value& word : list.as_array()) words.push_back(word.as_string());
  return words;
}

tracking::RunStatus run_status(jobs::JobStatus status) {
  switch (status) {
    case jobs::JobStatus::kSucceeded:
      return tracking::RunStatus::kFinished;
    case jobs::JobStatus::kCancelled:
      return tracking::RunStatus::kStopped;
    default:
      return tracking::RunStatus::kFailed;
  }
}

storage::Owner owner_of(const jobs::Job& job) {
  return checkpoint_owner(job.spec.project, job.spec.zone, job.spec.request.name);
}

// A worker's processors; of groups the launcher says so to each. What the job's env says stays.
void set_threads(const Value& payload, std::vector<std::pair<std::string, std::string>>& env) {
  const std::string name = "OMP_NUM_THREADS";
  if (payload["env"].has(name)) return;
  if (payload["groups"].is_array()) {
    std::erase_if(env, [&](const auto& each) { return each.first == name; });
    return;
  }
  for (auto& [key, value] : env) {
    if (key == name) value = std::to_string(payload.integer("threads", 1));
  }
}

void note(const Status& status, const RunId& run) {
  // A conflict: the server died after this had been written, and the job came back.
  if (status.ok() || status.error().code == Code::kConflict) return;
  log::warn("run not written", {{"run", run.str()}, {"error", status.error().message}});
}

}  // namespace

WorkerJobs::WorkerJobs(WorkerOptions options, tracking::Runs& runs, jobs::Queue& queue)
    : options_(std::move(options)), runs_(runs), queue_(queue) {}

Result<WorkerJobs::Started> WorkerJobs::run(const security::RequestContext& context,
                                            const std::string& name, const WorkerPlan& plan,
                                            const Value& params) {
  if (options_.folder.empty()) {
    return Error(Code::kUnavailable, "nothing here runs the workers of a TrainJob");
  }
  const int most = workers_on(queue_.machine(), plan);
  tracking::Run wanted;
  wanted.experiment = name;
  wanted.params = params;
  wanted.inputs["command"] = words_value(plan.submission.command);
  wanted.inputs["workers"]["min"] = plan.workers_min;
  wanted.inputs["workers"]["max"] = most;
  const Value groups = group_values(plan);
  if (!groups.is_null()) wanted.inputs["groups"] = groups;
  // What it says to learn from: by this its checkpoints are found when a person is erased.
  const std::string set = plan.capture["data"].text("training_set");
  if (!set.empty()) wanted.inputs["training_set"]["name"] = set;
  const RunId run = FALAJ_TRY(runs_.create(context, wanted)).id;
  jobs::JobSpec spec;
  spec.type = jobs::kCommandType;
  spec.payload = jobs::payload_of(plan.submission);
  spec.payload["companion"] = kName;
  spec.payload["run"] = run.str();
  spec.payload["params"] = params;
  if (!plan.capture.is_null()) spec.payload["capture"] = plan.capture;
  spec.payload["launch"] = words_value(launch_words(plan));
  if (!groups.is_null()) spec.payload["groups"] = groups;
  spec.payload["threads"] =
      std::max<std::int64_t>(1, plan.submission.request.resources.cpu_milli / 1000);
  spec.payload["grace_ms"] = plan.grace.nanos / 1'000'000;
  spec.attempts_max =
      1;  // Crashes are forgiven by the launcher; what is lost or preempted is free.
  spec.request = request_of(plan, most, name);
  auto job = queue_.submit(context, std::move(spec));
  if (job.ok()) return Started{run, *job};
  note(runs_.end(context, run, tracking::RunStatus::kFailed,
                 to_string(job.error().id) + ": " + job.error().message, {}),
       run);
  return std::move(job).error();
}

Result<WorkerJobs::Folders> WorkerJobs::folders_of(const RunId& run) const {
  Folders folders;
  folders.all = options_.folder + "/" + run.str();
  folders.archive = folders.all + "/archive";
  folders.memory = FALAJ_TRY(MemoryFolder::root_for(folders.archive));
  folders.reports = folders.memory + "-reports";  // A keeper that ends takes its own folder along.
  return folders;
}

std::string WorkerJobs::reports_of(const RunId& run) const {
  const Result<Folders> folders = folders_of(run);
  return folders.ok() ? folders->reports + "/metrics.jsonl" : std::string();  // "": nothing comes.
}

void WorkerJobs::adopt(const RunId& run) {
  MutexLock lock(mutex_);
  tails_.try_emplace(run, reports_of(run));
}

void WorkerJobs::tick() {
  std::vector<RunId> runs;
  {
    MutexLock lock(mutex_);
    for (const auto& [run, tail] : tails_) runs.push_back(run);
  }
  for (const RunId& run : runs) {
    MutexLock lock(mutex_);  // One by one: a job that ends takes its own out.
    const auto found = tails_.find(run);
    if (found != tails_.end()) take_reports(run, found->second, ReportTail::Until::kLines);
  }
}

bool WorkerJobs::take_reports(const RunId& run, ReportTail& tail, ReportTail::Until until) {
  ReportTail after = tail;
  const std::string lines = after.read(until);
  if (lines.empty()) return false;
  const Reported reported = read_reported(lines);
  Status written;
  for (std::size_t at = 0; at < reported.points.size() && written.ok(); at += kPointsAtOnce) {
    const auto begin = reported.points.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end =
        begin + static_cast<std::ptrdiff_t>(std::min(kPointsAtOnce, reported.points.size() - at));
    written = runs_.log_metrics(run, std::vector(begin, end));
  }
  if (written.ok() && reported.progress >= 0) {
    written = runs_.set_progress(run, reported.progress);
  }
  note(written, run);
  // What the store refuses for now is read again; what a run refuses that has ended is not.
  const bool done = written.ok() || written.error().code == Code::kConflict;
  if (done) tail = std::move(after);
  return done;
}

Status WorkerJobs::prepare(const jobs::Job& job, const jobs::Grant& grant, jobs::Work& work) {
  const Value& payload = job.spec.payload;
  if (jobs::runtime_of(payload).form == jobs::RuntimeForm::kImage) {
    return Error(Code::kFailedPrecondition,
                 "the workers of a TrainJob run with a host's or a venv's runtime: what launches "
                 "them is not inside an image");
  }
  const RunId run(payload.text("run"));
  const Folders folders = FALAJ_TRY(folders_of(run));
  std::error_code error;
  fs::create_directories(folders.all, error);
  if (!error) fs::permissions(folders.all, fs::perms::owner_all, error);
  if (error) {
    return Error(ErrorId::kDataFolderFull,
                 "cannot create the folder of checkpoints " + folders.all + ": " + error.message());
  }
  // Made here: inside its sandbox the job may not make folders beside its own.
  FALAJ_TRY(MemoryFolder::open(folders.memory));
  FALAJ_TRY(MemoryFolder::private_root("checkpoints", folders.archive, "-reports"));
  FALAJ_TRY(hand_over_key(vault_, owner_of(job), folders.archive, folders.memory));
  // What an attempt before this one came to is not how this one ends.
  fs::remove(folders.reports + std::string(kReport), error);
  std::vector<std::string> argv{options_.program, "launch", "--run-id", run.str()};
  for (std::string& word : gang_words(job.spec.request, grant.workers, payload["groups"])) {
    argv.push_back(std::move(word));
  }
  for (std::string& word : words_of(payload["launch"])) argv.push_back(std::move(word));
  for (const std::string& word :
       {std::string("--archive"), folders.archive, std::string("--memory-folder"), folders.memory,
        std::string("--report"), folders.reports + std::string(kReport), std::string("--")}) {
    argv.push_back(word);
  }
  argv.insert(argv.end(), work.argv.begin(), work.argv.end());
  work.argv = std::move(argv);
  set_threads(payload, work.env);
  work.env.emplace_back("FALAJ_METRICS", reports_of(run));
  work.env.emplace_back("FALAJ_PARAMS", to_json(payload["params"]));
#if defined(__SANITIZE_ADDRESS__)
  // At its end the leak check traces its own process, which the sandbox refuses.
  work.env.emplace_back("ASAN_OPTIONS", "detect_leaks=0:quarantine_size_mb=4");
#endif
  work.sandbox.read_write.push_back(folders.all);
  work.sandbox.read_write.push_back(folders.reports);
  work.sandbox.read_write.push_back(folders.memory);  // Memory, which is limited as such.
  work.limits.disk_folders.push_back(folders.all);
  work.limits.disk_folders.push_back(folders.reports);
  if (work.limits.processes_max > 0) {
    std::int64_t launched = std::max<std::int64_t>(1, grant.workers);
    for (const jobs::Group& group : job.spec.request.groups) launched += group.count;
    work.limits.processes_max = work.limits.processes_max * launched + kOwnProcesses;
  }
  work.limits.grace = Duration::milliseconds(payload.integer("grace_ms")) + kPersistMost;
  note(runs_.start(run), run);
  adopt(run);
  return {};
}

Timestamp WorkerJobs::newest_checkpoint(const jobs::Job& job) const {
  const auto folders = folders_of(RunId(job.spec.payload.text("run")));
  return folders.ok() ? jobs::checkpoint::newest_kept(folders->archive) : Timestamp{};
}

Value WorkerJobs::ended(const jobs::Job& job, jobs::JobStatus status, const std::string& error) {
  const RunId run(job.spec.payload.text("run"));
  const auto folders = folders_of(run);
  if (!folders.ok()) {
    log::warn("run's folder not found", {{"run", run.str()}, {"error", folders.error().message}});
    return {};
  }
  {
    MutexLock lock(mutex_);
    ReportTail& tail = tails_.try_emplace(run, reports_of(run)).first->second;
    while (take_reports(run, tail, ReportTail::Until::kEnd)) {
    }
    tails_.erase(run);
  }
  if (status == jobs::JobStatus::kSucceeded) note(runs_.set_progress(run, 1), run);
  const security::RequestContext as =
      security::system_context("service:training", ProjectName(job.spec.project), job.spec.zone);
  const std::string why = status == jobs::JobStatus::kSucceeded ? "" : error;
  auto report = parse_json(bytes_left(folders->reports + std::string(kReport), kReportBytesMax));
  Value reported_last = report.ok() && report->is_object() ? std::move(*report) : Value();
  note(runs_.end(as, run, run_status(status), why, outputs_of(reported_last)), run);
  std::error_code ignored;
  fs::remove_all(folders->memory, ignored);
  fs::remove_all(folders->reports, ignored);
  count_kept(vault_, owner_of(job), folders->archive);
  return reported_last;
}

}  // namespace falaj::training
