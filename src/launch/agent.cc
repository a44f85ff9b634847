#include "launch/agent.h"

#include <atomic>
#include <chrono>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "crypto/base64.h"
#include "launch/launch.h"
#include "launch/messages.h"
#include "launch/ports.h"
#include "launch/rendezvous.h"

namespace falaj::launch {
namespace {

constexpr std::chrono::seconds kReplyMax{10};

// Questions to the coordinator and their answers, which its receiver delivers.
class Questions {
 public:
  explicit Questions(Channel& channel) : channel_(channel) {}

  Result<Value> ask(Value question) {
    std::int64_t id = 0;
    {
      MutexLock lock(mutex_);
      id = next_++;
      replies_[id];
    }
    question["id"] = id;
    const Status asked = channel_.send(question);
    MutexLock lock(mutex_);
    const bool came =
        asked.ok() && arrived_.wait_for(mutex_, kReplyMax, [&]() FALAJ_REQUIRES(mutex_) {
          return over_ || replies_[id].has_value();
        });
    const std::optional<Value> answer = std::move(replies_[id]);
    replies_.erase(id);
    if (!came || !answer) return Error(Code::kUnavailable, "the coordinator does not answer");
    const Value& reply = *answer;
    if (reply.has("error")) return Error(Code::kResourceExhausted, reply.text("error"));
    return reply;
  }
  void answered(const Value& reply) {
    MutexLock lock(mutex_);
    const auto asked = replies_.find(reply.integer("id"));
    if (asked == replies_.end()) return;  // Nobody waits for it any more.
    asked->second = reply;
    arrived_.notify_all();
  }
  void end() {
    MutexLock lock(mutex_);
    over_ = true;
    arrived_.notify_all();
  }

 private:
  Channel& channel_;
  Mutex mutex_;
  CondVar arrived_;
  std::int64_t next_ FALAJ_GUARDED_BY(mutex_) = 1;
  bool over_ FALAJ_GUARDED_BY(mutex_) = false;
  // Nothing while it is waited for.
  std::map<std::int64_t, std::optional<Value>> replies_ FALAJ_GUARDED_BY(mutex_);
};

KeyAccess access_by(Questions& questions) {
  const auto about = [](std::string_view type, const std::string& key) {
    Value question = message(type);
    question["key"] = key;
    return question;
  };
  KeyAccess access;
  access.put = [&questions, about](const std::string& key, std::string value) -> Status {
    Value question = about("put", key);
    question["value"] = crypto::base64(value);
    FALAJ_TRY(questions.ask(std::move(question)));
    return {};
  };
  access.get = [&questions, about](const std::string& key) -> Result<std::optional<std::string>> {
    const Value reply = FALAJ_TRY(questions.ask(about("get", key)));
    if (!reply.has("value")) return std::optional<std::string>();
    std::string value = FALAJ_TRY(crypto::from_base64(reply.text("value")));
    return std::optional<std::string>(std::move(value));
  };
  access.erase = [&questions, about](const std::string& key) -> Status {
    FALAJ_TRY(questions.ask(about("erase", key)));
    return {};
  };
  return access;
}

class JoinedAgent final : public Agent {
 public:
  JoinedAgent(AgentOptions options, LaunchFolder folder, std::unique_ptr<Channel> channel)
      : options_(std::move(options)),
        folder_(std::move(folder)),
        channel_(std::move(channel)),
        questions_(*channel_) {}

  ~JoinedAgent() override {
    questions_.end();
    channel_->close();
    node_.reset();  // Its threads use the channel.
  }

  Status prepare() {
    rendezvous_ = FALAJ_TRY(Rendezvous::start(access_by(questions_)));
    const std::string host = own_host();
    Hello hello{options_.name, host, interface_of(host), options_.slots, fresh_ports()};
    return channel_->send(to_message(hello));
  }

  int run() override {
    while (!left_) {
      auto heard = channel_->receive();
      if (!heard.ok()) return lost(heard.error());
      if (heard->text("type") == "bye") {
        node_.reset();
        if (heard->integer("code") != 0) options_.tell(heard->text("reason"));
        return static_cast<int>(heard->integer("code"));
      }
      const Status done = obey(*heard);
      if (!done.ok()) options_.tell(done.error().message);
    }
    return 0;
  }

  void notice() override {
    noticed_ = true;
    options_.tell("asked to leave: the coordinator is told");
    static_cast<void>(channel_->send(message("notice")));
    leave_when_idle();
  }

  void kill() override {
    left_ = true;
    channel_->close();
  }

 private:
  std::string own_host() const {
    return options_.node.host.empty() ? channel_->own_address() : options_.node.host;
  }

  // Enough for any share of the gang, and for parameter servers as far as is usual.
  std::vector<std::uint16_t> fresh_ports() const {
    auto ports = free_ports(own_host(), ports_needed(options_.slots, 8));
    return ports.ok() ? std::move(ports).value() : std::vector<std::uint16_t>{};
  }

  int lost(const Error& error) {
    node_.reset();
    if (left_) return 0;
    options_.tell("the coordinator is lost (" + error.message + "): the workers here are killed");
    return 1;
  }

  Status obey(const Value& order) {
    const std::string type = order.text("type");
    if (type == "start") return start(order);
    if (type == "reply") questions_.answered(order);
    if (!node_) return {};
    if (type == "start_one") {
      ++running_;
      node_->start_one(static_cast<int>(order.integer("process")));
    } else if (type == "stop") {
      const bool notice = order["notice"] == Value(true);
      node_->stop(notice ? StopWith::kNotice : StopWith::kQuick,
                  Duration::milliseconds(order.integer("grace_ms")));
    } else if (type == "kill") {
      node_->kill();
    }
    return {};
  }

  Status start(const Value& order) {
    const Gang gang = FALAJ_TRY(decode_gang(order["gang"]));
    const std::int64_t member = order.integer("member", -1);
    if (member < 0 || member >= static_cast<std::int64_t>(gang.members.size())) {
      return Error(Code::kInvalidArgument, "the coordinator names no member of its gang");
    }
    const int own = static_cast<int>(member);
    node_.reset();
    Result<std::unique_ptr<Node>> made = make_node(order);
    if (!made.ok()) {
      refuse(gang, own, made.error());
      return made.error();
    }
    node_ = std::move(made).value();
    running_ = static_cast<int>(places_on(gang, own).size());
    node_->start(gang, own);
    return {};
  }

  Result<std::unique_ptr<Node>> make_node(const Value& order) {
    LocalNodeOptions node = options_.node;
    node.host = own_host();
    node.folder = folder_.path();
    node.rendezvous_port = rendezvous_->port();
    if (node.argv.empty() && order["argv"].is_array()) {
      for (const Value& each : order["argv"].as_array()) {
        if (each.is_string()) node.argv.push_back(each.as_string());
      }
    }
    if (order["local_rank"] == Value(true)) node.local_rank = LocalRankArgument::kAppend;
    NodeEvents events;
    events.printed = [this](const Printed& printed) {
      static_cast<void>(channel_->send(to_message(printed)));
    };
    events.ended = [this](const ProcessEnd& end) { ended(end); };
    return make_local_node(std::move(node), std::move(events));
  }

  void ended(const ProcessEnd& end) {
    static_cast<void>(channel_->send(to_message(end, fresh_ports())));
    --running_;
    leave_when_idle();
  }

  // Nothing can be started here: every process of our share has ended with that.
  void refuse(const Gang& gang, int member, const Error& error) {
    for (const Place& place : places_on(gang, member)) {
      ProcessEnd end;
      end.attempt = gang.attempt;
      end.process = process_number(gang, place);
      end.name = process_name(gang, place);
      end.status = {127, 0};
      end.last_lines = {error.message};
      static_cast<void>(channel_->send(to_message(end, fresh_ports())));
    }
  }

  void leave_when_idle() {
    if (!noticed_ || running_ > 0) return;
    left_ = true;
    channel_->close();
  }

  const AgentOptions options_;
  const LaunchFolder folder_;
  const std::unique_ptr<Channel> channel_;
  Questions questions_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::atomic<int> running_{0};
  std::atomic<bool> noticed_{false};
  std::atomic<bool> left_{false};
  std::unique_ptr<Node> node_;
};

}  // namespace

Result<std::unique_ptr<Agent>> Agent::join(AgentOptions options) {
  Descriptor socket = FALAJ_TRY(connect_to(options.coordinator, options.patience));
  std::unique_ptr<Channel> channel =
      FALAJ_TRY(Channel::open(std::move(socket), Side::kJoiner, options.channel));
  if (!channel->peer_id().empty()) options.tell("the coordinator is " + channel->peer_id());
  LaunchFolder folder = options.node.folder.empty() ? FALAJ_TRY(LaunchFolder::create())
                                                    : LaunchFolder::given(options.node.folder);
  auto agent =
      std::make_unique<JoinedAgent>(std::move(options), std::move(folder), std::move(channel));
  FALAJ_TRY(agent->prepare());
  return std::unique_ptr<Agent>(std::move(agent));
}

}  // namespace falaj::launch
