#include "launch/local_node.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "base/json.h"
#include "base/time.h"
#include "exec/child.h"
#include "launch/lines.h"
#include "launch/ports.h"

namespace falaj::launch {
namespace {

constexpr int kDeadlineFd = 3;
constexpr int kMetricsFd = 4;
constexpr int kCannotStart = 127;
constexpr std::size_t kErrorBytesMax = 64 * 1024;

// {"message": {"message": "…"}} or {"message": "…"}: what torch's error handler writes.
std::string read_error(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::string bytes(kErrorBytesMax, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  const auto value = parse_json(bytes);
  if (!value.ok()) return "";
  const Value& message = (*value)["message"];
  return message.is_string() ? message.as_string() : message.text("message");
}

Status write_file(const std::string& path, const std::string& content) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  if (!out || std::rename(fresh.c_str(), path.c_str()) != 0) {
    return Error(Code::kInternal, "write " + path);
  }
  return {};
}

// The file that FALAJ_METRICS names, for lines of all workers; null when there is none.
std::shared_ptr<const Descriptor> open_reports(const Environment& env) {
  for (const auto& [name, path] : env) {
    if (name != "FALAJ_METRICS" || path.empty()) continue;
    Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
    if (file.valid()) return std::make_shared<const Descriptor>(std::move(file));
  }
  return nullptr;
}

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

// What the threads of one child share with nobody else.
struct Watched {
  LineCutter cutter;
  Tail tail;
};

class LocalNode final : public Node {
 public:
  LocalNode(LocalNodeOptions options, NodeEvents events)
      : options_(std::move(options)),
        events_(std::move(events)),
        metrics_(open_reports(options_.inherited)) {}

  Member member(int workers, int listeners) override {
    Member member{options_.host, interface_of(options_.host), workers, {}};
    auto ports = free_ports(options_.host, ports_needed(workers, listeners));
    // Without ports the workers will say what fails; most of them need none.
    member.ports = ports.ok() ? std::move(ports).value()
                              : std::vector<std::uint16_t>(
                                    static_cast<std::size_t>(ports_needed(workers, listeners)), 1);
    return member;
  }

  void start(const Gang& gang, int member) override {
    children_.clear();
    gang_ = gang;
    member_ = member;
    Status ready = write_file(options_.folder + "/hostfile", hostfile(gang));
    if (ready.ok()) ready = write_file(options_.folder + "/machines", machine_list(gang));
    if (ready.ok()) ready = look_back(Begins::kAll);
    for (const Place& place : places_on(gang, member)) start(place, ready);
  }

  void start_one(int process) override {
    children_.erase(process);
    const Status ready = look_back(Begins::kOne);
    for (const Place& place : places_on(gang_, member_)) {
      if (process_number(gang_, place) == process) start(place, ready);
    }
  }

  void stop(StopWith how, Duration grace) override {
    Value notice = Value::object();
    notice["grace_ms"] = grace.nanos / 1'000'000;
    notice["deadline_ms"] = (SystemClock().now() + grace).nanos / 1'000'000;
    for (const auto& [process, child] : children_) {
      if (how == StopWith::kQuick) {
        child->stop();
        continue;
      }
      // Who does not read it gets the signal all the same.
      static_cast<void>(child->send(to_json(notice)));
      child->signal(SIGTERM);
    }
  }

  void kill() override { children_.clear(); }

 private:
  // What those who start now go on from.
  Status look_back(Begins who) {
    if (options_.restore) restore_path_ = FALAJ_TRY(options_.restore(who));
    return {};
  }

  void start(const Place& place, const Status& ready) {
    if (!ready.ok()) return not_started(place, ready.error().message);
    start(place);
  }

  // The command of its group, or of all.
  Result<std::vector<std::string>> command_of(const Place& place) const {
    const InGroup own = find_process(gang_.groups, process_number(gang_, place));
    if (own.group == InGroup::kAbsent || gang_.groups[own.group].argv.empty()) {
      return options_.argv;
    }
    std::vector<std::string> argv = gang_.groups[own.group].argv;
    argv.front() = FALAJ_TRY(find_program(argv.front(), options_.inherited, options_.work_dir));
    return argv;
  }

  void start(const Place& place) {
    auto argv = command_of(place);
    if (!argv.ok()) return not_started(place, argv.error().message);
    exec::ChildSpec spec;
    spec.argv = std::move(argv).value();
    if (options_.local_rank == LocalRankArgument::kAppend) {
      spec.argv.push_back("--local_rank=" + std::to_string(place.local_rank));
    }
    const Surroundings around{options_.folder,      options_.checkpoint_folder, restore_path_,
                              "127.0.0.1",          options_.rendezvous_port,   options_.cpus,
                              kDeadlineFd,          metrics_ ? kMetricsFd : -1, options_.devices,
                              options_.devices_each};
    spec.env = merged(options_.inherited, environment(gang_, place, around));
    spec.work_dir = options_.work_dir;
    spec.channel_fd = kDeadlineFd;
    if (metrics_) spec.inherited.push_back({kMetricsFd, metrics_});
    spec.limits.grace = options_.quick_grace;
    const int attempt = gang_.attempt;
    const int process = process_number(gang_, place);
    const std::string name = process_name(gang_, place);
    const std::string error_file = error_path(place);
    ::unlink(error_file.c_str());
    auto watched = std::make_shared<Watched>();
    const auto on_line = [this, watched, attempt, process, name](std::string_view line) {
      watched->tail.add(line);
      events_.printed({attempt, process, name, std::string(line)});
    };
    spec.on_output = [watched, on_line](std::string_view bytes) {
      watched->cutter.feed(bytes, on_line);
    };
    spec.on_exit = [this, watched, on_line, attempt, process, name,
                    error_file](const exec::ChildExit& end) {
      watched->cutter.finish(on_line);
      events_.ended({attempt, process, name,
                     end.by_signal ? ExitStatus{0, end.code} : ExitStatus{end.code, 0},
                     watched->tail.lines(), end.code == 0 ? "" : read_error(error_file),
                     end.cpu_time, end.memory_peak_bytes});
    };
    auto child = exec::Child::start(std::move(spec));
    if (!child.ok()) return not_started(place, child.error().message);
    children_[process] = std::move(child).value();
  }

  std::string error_path(const Place& place) const {
    return options_.folder + "/error-" + std::to_string(process_number(gang_, place)) + ".json";
  }

  void not_started(const Place& place, const std::string& why) {
    events_.ended({gang_.attempt,
                   process_number(gang_, place),
                   process_name(gang_, place),
                   ExitStatus{kCannotStart, 0},
                   {why},
                   "",
                   {},
                   0});
  }

  const LocalNodeOptions options_;
  const NodeEvents events_;
  const std::shared_ptr<const Descriptor> metrics_;  // Null: there is no file for reports.
  Gang gang_;
  int member_ = 0;
  std::string restore_path_;
  std::map<int, std::unique_ptr<exec::Child>> children_;
};

}  // namespace

Result<std::string> find_program(const std::string& name, const Environment& env,
                                 const std::string& work_dir) {
  if (name.starts_with('/') && is_program(name)) return name;
  if (!name.starts_with('/') && name.find('/') != std::string::npos) {
    const std::string path = work_dir + "/" + name;
    if (is_program(path)) return path;
  }
  std::string folders = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& [key, value] : env) {
    if (key == "PATH") folders = value;
  }
  for (std::size_t at = 0; name.find('/') == std::string::npos && at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string folder = folders.substr(at, end - at);
    const std::string path = (folder.empty() ? work_dir : folder) + "/" + name;
    if (!name.empty() && path.starts_with('/') && is_program(path)) return path;
    at = end + 1;
  }
  return Error(ErrorId::kFileUnreadable, "there is no program '" + name +
                                             "' to launch; give its path, or "
                                             "put its folder into PATH");
}

Result<std::unique_ptr<Node>> make_local_node(LocalNodeOptions options, NodeEvents events) {
  if (options.argv.empty()) {
    return Error(Code::kInvalidArgument, "there is no command to launch; put it after --");
  }
  options.argv.front() =
      FALAJ_TRY(find_program(options.argv.front(), options.inherited, options.work_dir));
  if (options.restore) {
    std::erase_if(options.inherited,
                  [](const auto& each) { return each.first == "FALAJ_CKPT_RESTORE"; });
  }
  return std::unique_ptr<Node>(std::make_unique<LocalNode>(std::move(options), std::move(events)));
}

}  // namespace falaj::launch
