#include "launch/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "crypto/base64.h"
#include "launch/messages.h"

namespace falaj::launch {
namespace {

constexpr std::size_t kConnectionsMax = 1024;
constexpr std::ptrdiff_t kUnprovenMax = 32;  // Shaking hands; further ones wait to be accepted.
constexpr int kLookAgainMillis = 10;
constexpr std::chrono::seconds kGoodbyeMax{5};

// A node at the other end of a channel. The launcher's thread commands it; the connection's thread
// hears it.
class RemoteNode final : public Node {
 public:
  RemoteNode(std::shared_ptr<Channel> channel, Hello hello, const ListenerOptions& options)
      : channel_(std::move(channel)),
        hello_(std::move(hello)),
        argv_(options.argv),
        local_rank_(options.local_rank) {
    ports_ = hello_.ports;
  }
  ~RemoteNode() override { tell(message("kill")); }

  Member member(int workers, int listeners) override {
    Member member{hello_.host, hello_.interface, workers, {}};
    MutexLock lock(mutex_);
    member.ports = ports_;
    member.ports.resize(static_cast<std::size_t>(ports_needed(workers, listeners)), 1);
    return member;
  }
  void start(const Gang& gang, int member) override {
    Value value = message("start");
    value["gang"] = to_value(gang);
    value["member"] = member;
    value["argv"] = Value::array();
    for (const std::string& each : argv_) value["argv"].push(each);
    value["local_rank"] = local_rank_ == LocalRankArgument::kAppend;
    tell(value);
  }
  void start_one(int process) override {
    Value value = message("start_one");
    value["process"] = process;
    tell(value);
  }
  void stop(StopWith how, Duration grace) override {
    Value value = message("stop");
    value["notice"] = how == StopWith::kNotice;
    value["grace_ms"] = grace.nanos / 1'000'000;
    tell(value);
  }
  void kill() override { tell(message("kill")); }

  void renew(std::vector<std::uint16_t> ports) {
    MutexLock lock(mutex_);
    ports_ = std::move(ports);
  }

 private:
  // A node that cannot be told is lost; the connection's thread notices it.
  void tell(const Value& value) { static_cast<void>(channel_->send(value)); }

  const std::shared_ptr<Channel> channel_;
  const Hello hello_;
  const std::vector<std::string> argv_;
  const LocalRankArgument local_rank_;
  Mutex mutex_;
  std::vector<std::uint16_t> ports_ FALAJ_GUARDED_BY(mutex_);
};

// Hands the launcher a node that the connection's thread goes on talking to.
class SharedNode final : public Node {
 public:
  explicit SharedNode(std::shared_ptr<RemoteNode> node) : node_(std::move(node)) {}
  Member member(int workers, int listeners) override { return node_->member(workers, listeners); }
  void start(const Gang& gang, int member) override { node_->start(gang, member); }
  void start_one(int process) override { node_->start_one(process); }
  void stop(StopWith how, Duration grace) override { node_->stop(how, grace); }
  void kill() override { node_->kill(); }

 private:
  const std::shared_ptr<RemoteNode> node_;
};

class TcpListener final : public Listener {
 public:
  TcpListener(const ListenerOptions& options, Listening listening, Launcher& launcher, Keys& keys)
      : options_(options),
        listening_(std::move(listening)),
        wake_(::eventfd(0, EFD_CLOEXEC)),
        launcher_(launcher),
        keys_(keys) {
    accepting_ = std::thread([this] { accept_all(); });
  }

  ~TcpListener() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    accepting_.join();
    std::list<Connection> all;
    {
      MutexLock lock(mutex_);
      over_ = true;
      for (Connection& each : connections_) {
        if (each.channel) each.channel->close();
      }
      all.swap(connections_);
    }
    for (Connection& each : all) each.thread.join();
  }

  std::uint16_t port() const override { return listening_.port; }

  void finish(const LaunchReport& report) override {
    Value bye = message("bye");
    bye["code"] = report.code;
    bye["reason"] = report.reason;
    MutexLock lock(mutex_);
    for (Connection& each : connections_) {
      if (each.channel) static_cast<void>(each.channel->send(bye));
    }
    // They close when they have heard it; whoever does not is cut off.
    gone_.wait_for(mutex_, kGoodbyeMax, [this]() FALAJ_REQUIRES(mutex_) {
      return std::all_of(connections_.begin(), connections_.end(),
                         [](const Connection& each) { return each.done; });
    });
  }

 private:
  struct Connection {
    std::thread thread;
    std::shared_ptr<Channel> channel;  // Once hands were shaken.
    bool done = false;
  };

  void accept_all() {
    while (true) {
      const bool room = has_room();
      pollfd waited[2] = {{room ? listening_.socket.get() : -1, POLLIN, 0},
                          {wake_.get(), POLLIN, 0}};
      if (::poll(waited, 2, room ? -1 : kLookAgainMillis) < 0 && errno != EINTR) return;
      if (waited[1].revents != 0) return;
      if (waited[0].revents == 0) continue;
      Descriptor socket(::accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.valid()) take(std::move(socket));
    }
  }

  bool has_room() {
    MutexLock lock(mutex_);
    return std::count_if(connections_.begin(), connections_.end(), [](const Connection& each) {
             return !each.channel && !each.done;
           }) < kUnprovenMax;
  }

  void take(Descriptor socket) {
    MutexLock lock(mutex_);
    for (auto each = connections_.begin(); each != connections_.end();) {
      if (!each->done) {
        ++each;
        continue;
      }
      each->thread.join();
      each = connections_.erase(each);
    }
    if (connections_.size() >= kConnectionsMax) return;  // Closes it.
    Connection& own = connections_.emplace_back();
    own.thread = std::thread([this, &own, held = std::make_shared<Descriptor>(std::move(socket))] {
      serve(own, std::move(*held));
    });
  }

  void serve(Connection& own, Descriptor socket) {
    const std::string from = address_of_peer(socket.get());
    auto opened = Channel::open(std::move(socket), Side::kListener, options_.channel);
    if (opened.ok()) {
      std::shared_ptr<Channel> channel = std::move(opened).value();
      if (!channel->peer_id().empty()) tell("accepted " + channel->peer_id() + " from " + from);
      bool welcome = true;
      {
        MutexLock lock(mutex_);
        welcome = !over_;
        own.channel = channel;
      }
      if (welcome) talk(channel);
    } else {
      log::warn("launch: a connection is refused",
                {{"from", from}, {"reason", opened.error().message}});
      tell("refused a connection from " + from + ": " + opened.error().message);
    }
    MutexLock lock(mutex_);
    own.channel.reset();
    own.done = true;
    gone_.notify_all();
  }

  // As long as the node is there.
  void talk(const std::shared_ptr<Channel>& channel) {
    auto first = channel->receive();
    if (!first.ok()) return;
    auto hello = decode_hello(*first);
    if (!hello.ok()) return refuse(*channel, hello.error().message);
    const std::string& name = hello->name;
    if (!claim(name)) {
      return refuse(*channel, "a node named '" + name +
                                  "' is already in this launch; give this one another name with "
                                  "--node");
    }
    const auto node = std::make_shared<RemoteNode>(channel, *hello, options_);
    const NodeEvents events = launcher_.events_for(name);
    launcher_.join(name, hello->slots, std::make_unique<SharedNode>(node));
    while (true) {
      auto message = channel->receive();
      if (!message.ok()) break;
      hear(*message, *node, *channel, events, name);
    }
    launcher_.lose(name);
    MutexLock lock(mutex_);
    names_.erase(name);
  }

  void hear(const Value& message, RemoteNode& node, Channel& channel, const NodeEvents& events,
            const std::string& name) {
    const std::string type = message.text("type");
    if (type == "printed") {
      auto printed = decode_printed(message);
      if (printed.ok()) events.printed(*printed);
    } else if (type == "ended") {
      node.renew(decode_ports(message["ports"]));
      events.ended(decode_end(message));
    } else if (type == "notice") {
      launcher_.node_notice(name);
    } else {
      answer(message, type, channel);
    }
  }

  // Keys of the rendezvous, asked for by the workers of that node.
  void answer(const Value& asked, const std::string& type, Channel& channel) {
    const std::string key = asked.text("key");
    Value reply = message("reply");
    reply["id"] = asked.integer("id");
    if (type == "put") {
      auto value = crypto::from_base64(asked.text("value"));
      const Status kept =
          value.ok() ? keys_.put(key, std::move(value).value()) : Status(std::move(value).error());
      if (!kept.ok()) reply["error"] = kept.error().message;
    } else if (type == "get") {
      if (const auto value = keys_.get(key)) reply["value"] = crypto::base64(*value);
    } else if (type == "erase") {
      keys_.erase(key);
    } else {
      return;
    }
    static_cast<void>(channel.send(reply));
  }

  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  // False when a node has that name.
  bool claim(const std::string& name) {
    if (name == options_.own_name) return false;
    MutexLock lock(mutex_);
    return names_.insert(name).second;
  }

  // It ends with an error and says why. It closes, so that nothing on the way to it is lost.
  static void refuse(Channel& channel, const std::string& reason) {
    log::warn("launch: a node is refused", {{"reason", reason}});
    Value bye = message("bye");
    bye["code"] = 1;
    bye["reason"] = "refused: " + reason;
    if (!channel.send(bye).ok()) return;
    while (channel.receive().ok()) {
    }
  }

  const ListenerOptions options_;
  const Listening listening_;
  const Descriptor wake_;
  Launcher& launcher_;
  Keys& keys_;
  Mutex mutex_;
  CondVar gone_;
  bool over_ FALAJ_GUARDED_BY(mutex_) = false;
  std::list<Connection> connections_ FALAJ_GUARDED_BY(mutex_);
  std::set<std::string> names_ FALAJ_GUARDED_BY(mutex_);
  std::thread accepting_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::start(const ListenerOptions& options,
                                                  Launcher& launcher, Keys& keys) {
  if (options.channel.secret.size() < Channel::kSecretBytesMin) {
    return Error(Code::kInvalidArgument, "the secret of a launch has at least 16 characters");
  }
  Listening listening = FALAJ_TRY(listen_at(options.at));
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(options, std::move(listening), launcher, keys));
}

}  // namespace falaj::launch
