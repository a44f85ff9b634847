#include "storage/redis/connection.h"

#include <algorithm>
#include <utility>

namespace falaj::storage::redis {
namespace {

using Kind = RespToken::Kind;

constexpr std::size_t kShownMax = 200;

// What of an error reply may be shown: printable, short, and without the words of the command,
// which Redis repeats when it does not know it (a password, say).
std::string shown(std::string_view reply) {
  reply = reply.substr(0, std::min(reply.find(", with args"), kShownMax));
  std::string out(reply);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

struct Meaning {
  std::string_view word;  // What the reply begins with.
  std::string_view advice;
};
// What only a person can change.
constexpr Meaning kRefusals[] = {
    {"NOAUTH", "; it wants a password: name a file with it by storage.redis.password_file"},
    {"WRONGPASS", "; look at the user in storage.redis.url and storage.redis.password_file"},
    {"ERR invalid password", "; look at storage.redis.password_file"},
    {"ERR AUTH", "; look at storage.redis.password_file: it has no password for this user"},
    {"ERR Client sent AUTH", "; it has no password: take storage.redis.password_file away"},
    {"NOPERM", "; let the user do so: docs/guides/features.md lists what is needed"},
    {"ERR DB index", "; name a database that it has, behind the slash of storage.redis.url"},
    {"READONLY", "; it is a replica: name the primary in storage.redis.url"},
    {"MOVED", "; Redis Cluster is not spoken: name a single server"},
    {"ASK", "; Redis Cluster is not spoken: name a single server"},
    {"CLUSTERDOWN", "; Redis Cluster is not spoken: name a single server"},
    {"WRONGTYPE", "; somebody else keeps keys there: choose another storage.redis.prefix"},
    {"ERR unknown command", "; the server, or a proxy before it, does not offer it"},
};

Error refused(const std::string& text) { return Error(ErrorId::kOnlineStoreRefused, text); }
Error unavailable(const std::string& text) { return Error(ErrorId::kOnlineStoreUnavailable, text); }

// The second of the two texts that CONFIG GET answers with; "" for a setting it does not have.
std::string config_value(const RespValue& reply) {
  return reply.items.size() == 2 ? reply.items[1].text : std::string();
}

}  // namespace

Status check_durable(const ServerSettings& settings) {
  if (settings.appendonly != "yes") {
    return refused("appendonly is '" + shown(settings.appendonly) +
                   "': a restart would lose online rows; set appendonly yes");
  }
  if (settings.appendfsync != "always") {
    return refused("appendfsync is '" + shown(settings.appendfsync) +
                   "': a crash would lose acknowledged rows; set appendfsync always");
  }
  const bool evicts = settings.maxmemory_policy.starts_with("allkeys");
  if (evicts && settings.maxmemory != "0") {
    return refused("maxmemory-policy is '" + shown(settings.maxmemory_policy) +
                   "': rows would be dropped when memory is short; set maxmemory-policy "
                   "noeviction");
  }
  return {};
}

Error reply_error(std::string_view reply, const std::string& name) {
  const std::string text = "Redis at " + name + " says: " + shown(reply);
  for (const Meaning& each : kRefusals) {
    if (reply.starts_with(each.word)) return refused(text + std::string(each.advice));
  }
  if (reply.starts_with("OOM")) {
    return Error(Code::kResourceExhausted, text + "; give it more memory (maxmemory)");
  }
  return unavailable(text);
}

Error link_error(const Error& error, const std::string& name) {
  const std::string text = "Redis at " + name + ": " + error.message;
  if (error.id == ErrorId::kOnlineStoreRefused) return error;
  if (error.code == Code::kUnauthenticated || error.code == Code::kInvalidArgument) {
    return refused(text + "; storage.redis.ca_file names the authority that vouches for it");
  }
  return unavailable(text);
}

Duration backoff_after(int failures, Duration least, Duration most) {
  Duration wait = least;
  for (int i = 1; i < failures && wait < most; ++i) wait = wait + wait;
  return std::min(wait, most);
}

std::string_view Connection::info_field(std::string_view info, std::string_view name) {
  while (!info.empty()) {
    const std::size_t end = std::min(info.find("\r\n"), info.size());
    const std::string_view line = info.substr(0, end);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return line.substr(name.size() + 1);
    }
    info.remove_prefix(std::min(end + 2, info.size()));
  }
  return {};
}

Result<std::unique_ptr<Connection>> Connection::open(std::unique_ptr<Link> link,
                                                     const Options& options) {
  std::unique_ptr<Connection> made(new Connection(std::move(link), options));
  FALAJ_TRY(made->greet());
  return made;
}

Status Connection::greet() {
  if (!options_.password.empty()) {
    if (options_.user.empty()) {
      FALAJ_TRY(ask({"AUTH", options_.password}));
    } else {
      FALAJ_TRY(ask({"AUTH", options_.user, options_.password}));
    }
  }
  if (options_.database != 0) FALAJ_TRY(ask({"SELECT", std::to_string(options_.database)}));
  if (options_.durability == Options::Durability::kChecked) FALAJ_TRY(check_settings());
  return check_holder();
}

// One setting a command: older servers take no more.
Status Connection::check_settings() {
  ServerSettings found;
  const std::pair<std::string_view, std::string*> wanted[] = {
      {"appendonly", &found.appendonly},
      {"appendfsync", &found.appendfsync},
      {"maxmemory", &found.maxmemory},
      {"maxmemory-policy", &found.maxmemory_policy}};
  std::string commands;
  for (const auto& [name, value] : wanted) append_command(commands, {"CONFIG", "GET", name});
  const std::vector<RespValue> replies = FALAJ_TRY(call(commands, std::size(wanted)));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].is_error()) {
      const Error error = reply_error(replies[i].text, options_.name);
      if (!replies[i].text.starts_with("NOPERM") && !replies[i].text.starts_with("ERR unknown")) {
        return error;
      }
      return refused(error.message +
                     "; so nobody knows whether acknowledged rows last: allow CONFIG GET, or vouch "
                     "for the server by storage.redis.durability=vouched");
    }
    *wanted[i].second = config_value(replies[i]);
  }
  const Status durable = check_durable(found);
  if (!durable.ok()) return refused("Redis at " + options_.name + ": " + durable.error().message);
  return {};
}

Status Connection::check_holder() {
  const std::string key = options_.prefix + "holder";
  std::string commands;
  append_command(commands, {"SET", key, options_.holder, "NX"});
  append_command(commands, {"GET", key});
  const std::vector<RespValue> replies = FALAJ_TRY(call(commands, 2));
  for (const RespValue& each : replies) {
    if (each.is_error()) return reply_error(each.text, options_.name);
  }
  if (replies[1].text == options_.holder) return {};
  return refused("Redis at " + options_.name + " holds the rows of another deployment under '" +
                 options_.prefix + "': choose another storage.redis.prefix or database");
}

std::int64_t Connection::deadline() const {
  return monotonic_nanos() + options_.reply_timeout.nanos;
}

Error Connection::broke(const Error& error) {
  broken_ = true;
  return link_error(error, options_.name);
}

Status Connection::send(std::string_view bytes) {
  const Status sent = link_->write(bytes, deadline());
  return sent.ok() ? sent : broke(sent.error());
}

Result<RespToken> Connection::next_token(std::int64_t deadline) {
  while (true) {
    const auto parsed = parse_token(std::string_view(received_).substr(taken_), limits_);
    if (!parsed.ok()) return broke(parsed.error());
    if (parsed->has_value()) {
      taken_ += (*parsed)->size;
      return **parsed;
    }
    received_.erase(0, std::exchange(taken_, 0));
    const Result<std::size_t> got = link_->read(inbox_, deadline);
    if (!got.ok()) return broke(got.error());
    if (*got == 0) return broke(unavailable("it ended the connection"));
    received_.append(inbox_.data(), *got);
  }
}

Result<RespValue> Connection::next_reply(std::int64_t deadline) {
  RespTree tree(limits_);
  while (true) {
    const Result<RespTree::State> state = tree.put(FALAJ_TRY(next_token(deadline)));
    if (!state.ok()) return broke(state.error());
    if (*state == RespTree::State::kDone) return tree.take();
  }
}

Result<std::vector<RespValue>> Connection::call(std::string_view commands, std::size_t replies) {
  FALAJ_TRY(send(commands));
  std::vector<RespValue> out;
  out.reserve(replies);
  const std::int64_t limit = deadline();
  while (out.size() < replies) out.push_back(FALAJ_TRY(next_reply(limit)));
  return out;
}

Result<RespValue> Connection::ask(std::initializer_list<std::string_view> words) {
  std::string command;
  append_command(command, words);
  std::vector<RespValue> replies = FALAJ_TRY(call(command, 1));
  if (replies[0].is_error()) return reply_error(replies[0].text, options_.name);
  return std::move(replies[0]);
}

Status Connection::stream(std::initializer_list<std::string_view> words, const Visit& visit) {
  std::string command;
  append_command(command, words);
  FALAJ_TRY(send(command));
  const RespToken head = FALAJ_TRY(next_token(deadline()));
  if (head.kind == Kind::kError) return reply_error(head.text, options_.name);
  if (head.kind != Kind::kArray || head.number % 2 != 0) {
    return broke(unavailable("a reply that is not of pairs"));
  }
  return stream_pairs(head.number / 2, visit);
}

Status Connection::stream_pairs(std::int64_t count, const Visit& visit) {
  std::string first;  // Its bytes may move while the second is read.
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t limit = deadline();
    const RespToken name = FALAJ_TRY(next_token(limit));
    first = name.text;
    const RespToken value = FALAJ_TRY(next_token(limit));
    if (name.kind != Kind::kBulk || value.kind != Kind::kBulk) {
      return broke(unavailable("a pair that is not of texts"));
    }
    if (visit(first, value.text)) continue;
    broken_ = i + 1 < count;  // The rest of the reply is on its way.
    return {};
  }
  return {};
}

}  // namespace falaj::storage::redis
