// launch: the workers of distributed training.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/descriptor.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/keeping.h"
#include "cli/launch_strangers.h"
#include "cli/local_file.h"
#include "cli/own_machine.h"
#include "jobs/admission.h"
#include "launch/agent.h"
#include "launch/launch.h"
#include "net/address.h"

namespace falaj::cli {
namespace {

// Before any other thread is made, so that none dies of them.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, each);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// While it lives, the first signal calls one function and every further one the other.
class SignalWatch {
 public:
  SignalWatch(const sigset_t& signals, std::function<void()> first, std::function<void()> further)
      : came_(::signalfd(-1, &signals, SFD_CLOEXEC)), over_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this, first = std::move(first), further = std::move(further)] {
      for (int count = 0; next(); ++count) (count == 0 ? first : further)();
    });
  }
  ~SignalWatch() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(over_.get(), &one, sizeof one);
    thread_.join();
  }

 private:
  // False when it is over.
  bool next() const {
    pollfd waited[2] = {{came_.get(), POLLIN, 0}, {over_.get(), POLLIN, 0}};
    while (::poll(waited, 2, -1) < 0) {
    }
    signalfd_siginfo info{};
    return waited[1].revents == 0 && ::read(came_.get(), &info, sizeof info) == sizeof info;
  }

  Descriptor came_;
  Descriptor over_;
  std::thread thread_;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // Nobody reads it any more; the workers go on.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

Status read_workers(const std::string& text, launch::Policy& policy) {
  const auto number = [](std::string_view part, int& out) {
    const char* end = part.data() + part.size();
    const auto read = std::from_chars(part.data(), end, out);
    return read.ec == std::errc{} && read.ptr == end;
  };
  const std::string_view all = text;
  const std::size_t colon = all.find(':');
  const std::string_view most = colon == std::string_view::npos ? all : all.substr(colon + 1);
  if (number(all.substr(0, colon), policy.workers_min) && number(most, policy.workers_max)) {
    return {};
  }
  return Error{ErrorId::kUsage, "--workers is N or MIN:MAX, not '" + text + "'"};
}

int bounded(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, -1, 1'000'000'000));
}

void tell(std::string_view line) {
  write_all(STDERR_FILENO, "falaj launch: " + std::string(line) + "\n");
}

std::string node_name(const LaunchChoice& choice) {
  char name[256] = "this";
  if (choice.node.empty()) ::gethostname(name, sizeof name - 1);
  return choice.node.empty() ? name : choice.node;
}

// The listener makes the secret, everybody else must have been given it.
Result<launch::ChannelOptions> channel_of(const LaunchChoice& choice) {
  launch::ChannelOptions channel;
  if (choice.secret.empty()) {
    return Error{ErrorId::kUsage, "--listen and --join need --secret FILE, the same on all nodes"};
  }
  if (choice.certificates.any()) {
    channel.certificates = std::make_shared<launch::KeptCertificates>(choice.certificates);
    // Said now, and not when somebody joins.
    FALAJ_TRY(channel.certificates->take(choice.join.empty() ? net::TlsSide::kAccepts
                                                             : net::TlsSide::kConnects));
  }
  if (!choice.join.empty()) FALAJ_TRY(check_readable(choice.secret));
  channel.secret = FALAJ_TRY(take_key(choice.secret));
  channel.silence_max = FALAJ_TRY(parse_duration(choice.silence));
  if (channel.silence_max < Duration::milliseconds(100)) {
    return Error{ErrorId::kUsage, "--silence is at least 100ms"};
  }
  channel.beat = Duration{channel.silence_max.nanos / 4};
  return channel;
}

// Absolute, because workers may change their folder; made when it is missing.
Result<std::string> checkpoint_folder(const std::string& given) {
  if (given.empty()) return given;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(given, error);
  if (!error) std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return path.lexically_normal().string();
  return Error{Code::kInvalidArgument,
               "make the folder of --checkpoints, " + given + ": " + error.message()};
}

// A keeper beside this machine's workers, if one is wanted: where they save, and at every start
// what they go on from. It must outlive the node.
Result<std::unique_ptr<Keeping>> keep_for(const LaunchChoice& choice,
                                          launch::LocalNodeOptions& node) {
  if (choice.keep.folder.empty()) return std::unique_ptr<Keeping>();
  std::unique_ptr<Keeping> keeping = FALAJ_TRY(Keeping::start(choice.keep));
  node.checkpoint_folder = keeping->saves_path();
  node.restore = [kept = keeping.get()](launch::Begins who) {
    if (who == launch::Begins::kAll) kept->drop_incomplete();
    return kept->restore_path();
  };
  return keeping;
}

// What this program may use of the machine's GPUs.
std::vector<std::string> visible_devices(const launch::Environment& env) {
  std::vector<std::string> out;
  for (const auto& [name, value] : env) {
    if (name != "CUDA_VISIBLE_DEVICES") continue;
    std::istringstream names(value);
    for (std::string each; std::getline(names, each, ',');) {
      if (!each.empty()) out.push_back(each);
    }
    return out;
  }
  for (unsigned i = 0; i < jobs::this_machine().gpus; ++i) out.push_back(std::to_string(i));
  return out;
}

Status check_devices(const launch::LocalNodeOptions& node, int slots) {
  const std::int64_t wanted = std::int64_t{node.devices_each} * slots;
  if (wanted <= static_cast<std::int64_t>(node.devices.size())) return {};
  return Error{ErrorId::kUsage, "--gpus " + std::to_string(node.devices_each) + " for " +
                                    std::to_string(slots) + " workers are " +
                                    std::to_string(wanted) + " and " +
                                    std::to_string(node.devices.size()) +
                                    " may be used here: CUDA_VISIBLE_DEVICES, or /dev/nvidia*"};
}

Result<launch::LocalNodeOptions> local_node(const LaunchChoice& choice) {
  if (!choice.checkpoints.empty() && !choice.keep.folder.empty()) {
    return Error{ErrorId::kUsage,
                 "--checkpoints is a folder that you keep, --archive one that "
                 "falaj keeps: give one of them"};
  }
  launch::LocalNodeOptions node;
  node.argv = choice.command;
  node.inherited = own_environment();
  node.work_dir = std::filesystem::current_path().string();
  node.host = choice.host;
  node.checkpoint_folder = FALAJ_TRY(checkpoint_folder(choice.checkpoints));
  node.cpus = usable_cpus();
  if (choice.local_rank_argument) node.local_rank = launch::LocalRankArgument::kAppend;
  node.devices_each = bounded(choice.gpus);
  if (node.devices_each > 0) node.devices = visible_devices(node.inherited);
  return node;
}

Status listen(const LaunchChoice& choice, launch::LaunchOptions& options) {
  if (choice.listen.empty()) return {};
  launch::ListenOptions listen;
  listen.at = FALAJ_TRY(launch::parse_endpoint(choice.listen));
  listen.channel = FALAJ_TRY(channel_of(choice));
  listen.tell = tell;
  if (choice.host.empty()) options.node.host = listen.at.host;
  if (choice.slots < 0) options.slots = 1;
  options.listen = std::move(listen);
  return {};
}

Result<std::vector<launch::Group>> read_groups(const std::vector<std::string>& texts) {
  std::vector<launch::Group> groups;
  for (const std::string& text : texts) {
    const auto value = parse_json(text);
    if (!value.ok()) return value.error().within("--group");
    groups.push_back(FALAJ_TRY(launch::decode_group(*value)));
  }
  FALAJ_TRY(launch::check_groups(groups));
  return groups;
}

// The GPUs of groups, which are all here unless other machines may join; and a command for those
// that bring none.
Status fit_groups(launch::LaunchOptions& options) {
  launch::LocalNodeOptions& node = options.node;
  std::int64_t wanted = 0;
  for (const launch::Group& group : options.launcher.groups) {
    wanted += std::int64_t{group.devices_each} * group.max;
    if (node.argv.empty()) node.argv = group.argv;
  }
  if (wanted == 0) return {};
  node.devices_each = 1;  // They are shared out.
  node.devices = visible_devices(node.inherited);
  const bool here = wanted <= static_cast<std::int64_t>(node.devices.size());
  if (here || options.listen) return {};
  return Error{ErrorId::kUsage, "the groups ask for " + std::to_string(wanted) + " GPUs and " +
                                    std::to_string(node.devices.size()) +
                                    " may be used here: CUDA_VISIBLE_DEVICES, or /dev/nvidia*"};
}

Status take_groups(const LaunchChoice& choice, launch::LaunchOptions& options) {
  if (choice.groups.empty()) return {};
  if (choice.gpus > 0) {
    return Error{ErrorId::kUsage, "--gpus is for workers that are all alike: a group has 'gpus'"};
  }
  options.launcher.groups = FALAJ_TRY(read_groups(choice.groups));
  launch::Policy& policy = options.launcher.policy;
  policy.workers_min = launch::workers_min(options.launcher.groups);
  policy.workers_max = launch::workers_max(options.launcher.groups);
  return {};
}

Result<launch::LaunchOptions> options_of(const LaunchChoice& choice) {
  launch::LaunchOptions options;
  launch::Policy& policy = options.launcher.policy;
  FALAJ_TRY(read_workers(choice.workers, policy));
  FALAJ_TRY(take_groups(choice, options));
  if (choice.restarts < 0) return Error{ErrorId::kUsage, "--restarts is 0 or more"};
  policy.restarts_max = bounded(choice.restarts);
  policy.preemptions_max = bounded(choice.preemptions);
  if (choice.keep_survivors) policy.on_crash = launch::OnCrash::kKeepSurvivors;
  options.slots = choice.slots < 0 ? policy.workers_max : bounded(choice.slots);
  options.launcher.run_id = choice.run_id.empty() ? new_ulid(SystemClock().now()) : choice.run_id;
  options.launcher.servers = bounded(choice.servers);
  options.launcher.grace = FALAJ_TRY(parse_duration(choice.grace));
  options.launcher.rules = FALAJ_TRY(launch::LogRules::parse(choice.rules));
  options.launcher.print = [](std::string_view text) { write_all(STDOUT_FILENO, text); };
  options.launcher.tell = tell;
  options.node = FALAJ_TRY(local_node(choice));
  if (choice.host.empty()) options.node.host = "127.0.0.1";
  options.name = node_name(choice);
  FALAJ_TRY(listen(choice, options));
  FALAJ_TRY(check_devices(options.node, options.slots));
  FALAJ_TRY(fit_groups(options));
  return options;
}

Result<int> join(const LaunchChoice& choice) {
  launch::AgentOptions options;
  options.coordinator = FALAJ_TRY(launch::parse_endpoint(choice.join));
  options.channel = FALAJ_TRY(channel_of(choice));
  options.name = node_name(choice);
  options.slots = choice.slots < 0 ? 1 : bounded(choice.slots);
  options.node = FALAJ_TRY(local_node(choice));
  FALAJ_TRY(check_devices(options.node, options.slots));
  options.tell = tell;
  const sigset_t signals = block_stop_signals();
  const std::unique_ptr<Keeping> keeping = FALAJ_TRY(keep_for(choice, options.node));
  const std::string joined = "joined " + choice.join + " as " + options.name;
  std::unique_ptr<launch::Agent> agent = FALAJ_TRY(launch::Agent::join(std::move(options)));
  tell(joined);
  int code = 0;
  {
    const SignalWatch watch(
        signals, [&agent] { agent->notice(); }, [&agent] { agent->kill(); });
    code = agent->run();
  }
  agent.reset();  // Nobody saves any more.
  if (keeping) FALAJ_TRY(keeping->finish());
  return code;
}

Value report_of(const launch::LaunchReport& report, const Keeping* keeping) {
  Value value = launch::to_value(report);
  if (keeping == nullptr) return value;
  const auto newest = keeping->newest();
  value["checkpoint"] = newest ? jobs::checkpoint::to_value(*newest) : Value();
  return value;
}

Result<int> launch_all(const LaunchChoice& choice) {
  launch::LaunchOptions options = FALAJ_TRY(options_of(choice));
  const sigset_t signals = block_stop_signals();
  const std::unique_ptr<Keeping> keeping = FALAJ_TRY(keep_for(choice, options.node));
  std::unique_ptr<launch::Launch> run = FALAJ_TRY(launch::Launch::create(std::move(options)));
  if (run->port() != 0) tell("nodes may join at port " + std::to_string(run->port()));
  const SignalWatch watch(
      signals, [&run] { run->launcher().notice(); }, [&run] { run->launcher().kill(); });
  const launch::LaunchReport report = run->run();
  const Status kept = keeping ? keeping->finish() : Status{};
  // As a job it tells the server which worker failed first (jobs/post_mortem.h).
  const char* wanted = std::getenv("FALAJ_REPORT");
  const std::string path = choice.report.empty() && wanted != nullptr ? wanted : choice.report;
  if (!path.empty()) {
    FALAJ_TRY(write_private(path, to_pretty_json(report_of(report, keeping.get())) + "\n"));
  }
  if (report.code != 0) tell(report.reason);
  FALAJ_TRY(kept);
  return report.code;
}

// Said loudly where the secret is enough, for whoever is not on this machine may try.
Status check_strangers(const LaunchChoice& choice, Strangers strangers) {
  const std::string& where = choice.join.empty() ? choice.listen : choice.join;
  if (where.empty() || choice.certificates.any()) return {};
  const std::string host = FALAJ_TRY(launch::parse_endpoint(where)).host;
  if (net::is_loopback_address(host)) return {};
  if (strangers == Strangers::kShowCertificates) {
    return Error{ErrorId::kUsage,
                 host +
                     " is beyond this machine, and this node has no certificate: have 'falaj "
                     "certificates issue NODE --out NODE.pem' make one for each node, and give "
                     "all of them --certificate NODE.pem --ca AUTHORITY.pem ('falaj "
                     "certificates authority'); or say --secret-only, and whoever learns the "
                     "secret runs programs here"};
  }
  tell("WARNING: nodes at " + host +
       " are known by the secret alone, and what is said is sealed by it alone: whoever learns it "
       "runs programs here and reads all that was ever said");
  return {};
}

}  // namespace

int launch_workers(const LaunchChoice& choice, Strangers strangers) {
  const Status known = check_strangers(choice, strangers);
  return known.ok() ? launch_workers(choice) : fail(known.error());
}

int launch_workers(const LaunchChoice& choice) {
  const Result<int> code = choice.join.empty() ? launch_all(choice) : join(choice);
  return code.ok() ? code.value() : fail(code.error());
}

}  // namespace falaj::cli
