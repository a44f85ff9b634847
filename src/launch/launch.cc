#include "launch/launch.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launch/listener.h"
#include "launch/ports.h"
#include "launch/rendezvous.h"

namespace falaj::launch {
namespace {

constexpr int kWorkersMax = 65'536;

Status check(const LaunchOptions& options) {
  const Policy& policy = options.launcher.policy;
  FALAJ_TRY(check_groups(options.launcher.groups));
  if (policy.workers_min < 1 || policy.workers_max < policy.workers_min ||
      policy.workers_max > kWorkersMax) {
    return Error(Code::kInvalidArgument, "workers are MIN:MAX with 1 <= MIN <= MAX <= 65536, not " +
                                             std::to_string(policy.workers_min) + ":" +
                                             std::to_string(policy.workers_max));
  }
  const auto out_of = [](int value, int most) { return value < 0 || value > most; };
  if (out_of(options.slots, kWorkersMax) || out_of(options.launcher.servers, kWorkersMax)) {
    return Error(Code::kInvalidArgument, "slots and servers are 0 to 65536");
  }
  const auto ports = free_ports(options.node.host, 1);
  if (!ports.ok()) return ports.error();
  return {};
}

class LocalLaunch final : public Launch {
 public:
  LocalLaunch(LaunchOptions options, LaunchFolder folder, std::unique_ptr<Keys> keys)
      : options_(std::move(options)),
        folder_(std::move(folder)),
        keys_(std::move(keys)),
        launcher_(options_.launcher) {}

  Status prepare() {
    rendezvous_ = FALAJ_TRY(Rendezvous::start(access_to(*keys_)));
    FALAJ_TRY(add_this_machine());
    if (!options_.listen) return {};
    const ListenerOptions listener{options_.listen->at,
                                   options_.listen->channel,
                                   options_.node.argv,
                                   options_.node.local_rank,
                                   options_.slots > 0 ? options_.name : "",
                                   options_.listen->tell};
    listener_ = FALAJ_TRY(Listener::start(listener, launcher_, *keys_));
    return {};
  }

  Launcher& launcher() override { return launcher_; }
  std::uint16_t port() const override { return listener_ ? listener_->port() : std::uint16_t{0}; }
  LaunchReport run() override {
    const LaunchReport report = launcher_.run();
    if (listener_) listener_->finish(report);
    return report;
  }

 private:
  Status add_this_machine() {
    if (options_.slots == 0) return {};
    LocalNodeOptions node = options_.node;
    node.folder = folder_.path();
    node.rendezvous_port = rendezvous_->port();
    std::unique_ptr<Node> made =
        FALAJ_TRY(make_local_node(std::move(node), launcher_.events_for(options_.name)));
    launcher_.join(options_.name, options_.slots, std::move(made));
    return {};
  }

  const LaunchOptions options_;
  const LaunchFolder folder_;
  const std::unique_ptr<Keys> keys_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Launcher launcher_;
  std::unique_ptr<Listener> listener_;  // Last: its threads use what is above.
};

}  // namespace

Result<std::unique_ptr<Launch>> Launch::create(LaunchOptions options) {
  FALAJ_TRY(check(options));
  LaunchFolder folder = options.node.folder.empty() ? FALAJ_TRY(LaunchFolder::create())
                                                    : LaunchFolder::given(options.node.folder);
  if (options.listen) options.launcher.policy.joining = Joining::kOpen;
  auto keys = std::make_unique<Keys>();
  options.launcher.before_attempt = [&store = *keys] { store.clear(); };
  auto run = std::make_unique<LocalLaunch>(std::move(options), std::move(folder), std::move(keys));
  FALAJ_TRY(run->prepare());
  return std::unique_ptr<Launch>(std::move(run));
}

Result<LaunchFolder> LaunchFolder::create() {
  const char* base = std::getenv("TMPDIR");
  std::string path =
      std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/falaj-launch-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return Error(Code::kInternal, "make the folder " + path + ": " + std::strerror(errno));
  }
  std::string owned = path;
  return LaunchFolder(std::move(path), std::move(owned));
}

LaunchFolder::LaunchFolder(LaunchFolder&& other) noexcept
    : path_(std::move(other.path_)), owned_(std::exchange(other.owned_, "")) {}

LaunchFolder::~LaunchFolder() {
  if (owned_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(owned_, ignored);
}

}  // namespace falaj::launch
