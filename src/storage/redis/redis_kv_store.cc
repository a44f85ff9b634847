// Rows of owners as hashes of a Redis server. What it promises is in storage/redis/redis.h.
#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "storage/redis/connection.h"
#include "storage/redis/redis.h"

namespace falaj::storage::redis {
namespace {

using Kind = RespToken::Kind;
using Rows = std::vector<std::optional<std::string>>;

constexpr std::size_t kIdleMax = 8;
constexpr std::size_t kKeysPerCommand = 128;
constexpr std::size_t kCommandsAtOnce = 32;
constexpr std::size_t kShelfDigits = 32;
constexpr Duration kRewriteMax = Duration::minutes(10);

Error unavailable(const std::string& text) { return Error(ErrorId::kOnlineStoreUnavailable, text); }

// Commands of one write and how many replies they get.
struct Pipeline {
  std::string bytes;
  std::size_t replies = 0;
};

// The last write of each key, as few commands as may be: atomic alone, or between MULTI and EXEC.
Pipeline write_commands(const std::string& shelf, const std::vector<KvWrite>& batch) {
  std::unordered_map<std::string_view, const KvWrite*> last;
  for (const KvWrite& write : batch) last[write.key] = &write;
  std::vector<const KvWrite*> sets;
  std::vector<const KvWrite*> deletes;
  for (const auto& [key, write] : last) (write->value ? sets : deletes).push_back(write);
  const auto commands_of = [](std::size_t rows) {
    return (rows + kKeysPerCommand - 1) / kKeysPerCommand;
  };
  const std::size_t commands = commands_of(sets.size()) + commands_of(deletes.size());
  Pipeline out;
  if (commands > 1) append_command(out.bytes, {"MULTI"});
  for (std::size_t at = 0; at < sets.size(); at += kKeysPerCommand) {
    const std::size_t end = std::min(sets.size(), at + kKeysPerCommand);
    begin_command(out.bytes, 2 + 2 * (end - at));
    append_word(out.bytes, "HSET");
    append_word(out.bytes, shelf);
    for (std::size_t i = at; i < end; ++i) {
      append_word(out.bytes, sets[i]->key);
      append_word(out.bytes, *sets[i]->value);
    }
  }
  for (std::size_t at = 0; at < deletes.size(); at += kKeysPerCommand) {
    const std::size_t end = std::min(deletes.size(), at + kKeysPerCommand);
    begin_command(out.bytes, 2 + end - at);
    append_word(out.bytes, "HDEL");
    append_word(out.bytes, shelf);
    for (std::size_t i = at; i < end; ++i) append_word(out.bytes, deletes[i]->key);
  }
  if (commands > 1) append_command(out.bytes, {"EXEC"});
  out.replies = commands > 1 ? commands + 2 : commands;
  return out;
}

class RedisKvStore final : public RedisRows {
 public:
  RedisKvStore(Dial dial, Options options) : dial_(std::move(dial)), options_(std::move(options)) {}

  // Connects, so that a server that cannot be used is refused at start.
  Status start() {
    return use(Again::kNever, [this](Connection& connection) {
      return options_.begin == Options::Begin::kEmpty ? forget_all(connection) : Status();
    });
  }

  Result<std::optional<std::string>> get(const Owner& owner, std::string_view key) const override {
    Rows rows = FALAJ_TRY(get_many(owner, {std::string(key)}));
    return std::move(rows.front());
  }

  Result<Rows> get_many(const Owner& owner, const std::vector<std::string>& keys) const override {
    if (keys.empty()) return Rows();
    const std::string shelf = shelf_of(owner);
    return use(Again::kOnce, [&](Connection& connection) -> Result<Rows> {
      Rows out;
      out.reserve(keys.size());
      while (out.size() < keys.size()) FALAJ_TRY(read_some(connection, shelf, keys, out));
      return out;
    });
  }

  Status write(const Owner& owner, const std::vector<KvWrite>& batch) override {
    if (batch.empty()) return {};
    return commit(write_commands(shelf_of(owner), batch));
  }

  Status clear(const Owner& owner) override {
    Pipeline pipeline;
    append_command(pipeline.bytes, {"UNLINK", shelf_of(owner)});
    pipeline.replies = 1;
    return commit(std::move(pipeline));
  }

  Status scan(const Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    return use(Again::kNever, [&](Connection& connection) {
      return connection.stream({"HGETALL", shelf_of(owner)}, visit);
    });
  }

  Result<bool> empty() const override {
    return use(Again::kOnce, [&](Connection& connection) -> Result<bool> {
      bool found = false;
      FALAJ_TRY(each_shelf(connection, [&](const std::string&) -> Result<bool> {
        found = true;
        return false;
      }));
      return !found;
    });
  }

  Status purge(const Owner&) override {
    return use(Again::kNever, [&](Connection& connection) -> Status {
      FALAJ_TRY(rewrite(connection, "BGREWRITEAOF", "aof_last_bgrewrite_status"));
      const Result<RespValue> save = connection.ask({"CONFIG", "GET", "save"});
      if (!save.ok() && connection.broken()) return save.error();
      if (save.ok() && save->items.size() == 2 && save->items[1].text.empty()) return {};
      return rewrite(connection, "BGSAVE", "rdb_last_bgsave_status");
    });
  }

 private:
  enum class Again : std::uint8_t { kNever, kOnce };  // After a kept connection broke.
  struct Lease {
    std::unique_ptr<Connection> connection;
    bool kept = false;
  };

  std::string shelf_of(const Owner& owner) const {
    return options_.prefix + "rows:" + hash_of(owner).hex().substr(0, kShelfDigits);
  }

  // Each shelf, until `visit` returns false.
  Status each_shelf(Connection& connection,
                    const std::function<Result<bool>(const std::string&)>& visit) const {
    std::string cursor = "0";
    do {
      const RespValue found = FALAJ_TRY(
          connection.ask({"SCAN", cursor, "MATCH", options_.prefix + "rows:*", "COUNT", "1000"}));
      if (found.items.size() != 2) {
        return unavailable("Redis at " + options_.name + " does not list its keys");
      }
      cursor = found.items[0].text;
      for (const RespValue& key : found.items[1].items) {
        if (!FALAJ_TRY(visit(key.text))) return {};
      }
    } while (cursor != "0");
    return {};
  }

  Status forget_all(Connection& connection) const {
    return each_shelf(connection, [&](const std::string& shelf) -> Result<bool> {
      FALAJ_TRY(connection.ask({"UNLINK", shelf}));
      return true;
    });
  }

  // The next window of `keys` behind what `out` has.
  Status read_some(Connection& connection, const std::string& shelf,
                   const std::vector<std::string>& keys, Rows& out) const {
    std::string commands;
    std::vector<std::size_t> counts;
    for (std::size_t at = out.size(); at < keys.size() && counts.size() < kCommandsAtOnce;) {
      const std::size_t end = std::min(keys.size(), at + kKeysPerCommand);
      counts.push_back(end - at);
      begin_command(commands, 2 + end - at);
      append_word(commands, "HMGET");
      append_word(commands, shelf);
      for (; at < end; ++at) append_word(commands, keys[at]);
    }
    std::vector<RespValue> replies = FALAJ_TRY(connection.call(commands, counts.size()));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      RespValue& reply = replies[i];
      if (reply.is_error()) return reply_error(reply.text, options_.name);
      if (reply.items.size() != counts[i]) {
        return unavailable("Redis at " + options_.name + " answers for " +
                           std::to_string(reply.items.size()) + " rows of " +
                           std::to_string(counts[i]));
      }
      for (RespValue& item : reply.items) {
        out.push_back(item.kind == Kind::kBulk ? std::optional(std::move(item.text))
                                               : std::nullopt);
      }
    }
    return {};
  }

  Status commit(Pipeline pipeline) const {
    const std::size_t own = pipeline.replies;
    if (options_.replicas_min > 0) {
      const std::int64_t millis = options_.reply_timeout.nanos / 2 / 1'000'000;
      append_command(pipeline.bytes, {"WAIT", std::to_string(options_.replicas_min),
                                      std::to_string(std::max<std::int64_t>(millis, 1))});
      ++pipeline.replies;
    }
    return use(Again::kNever, [&](Connection& connection) -> Status {
      const auto replies = FALAJ_TRY(connection.call(pipeline.bytes, pipeline.replies));
      for (const RespValue& reply : replies) {
        if (reply.is_error()) return reply_error(reply.text, options_.name);
        for (const RespValue& item : reply.items) {
          if (item.is_error()) return reply_error(item.text, options_.name);
        }
      }
      // EXEC has a result for each command between it and MULTI.
      if (own > 1 && replies[own - 1].items.size() != own - 2) {
        return unavailable("Redis at " + options_.name + " did not do all of a transaction");
      }
      if (replies.size() == own || replies.back().number >= options_.replicas_min) return {};
      return unavailable("Redis at " + options_.name + ": " +
                         std::to_string(replies.back().number) + " of " +
                         std::to_string(options_.replicas_min) + " replicas have the write");
    });
  }

  // Has a file written anew and waits for its end; one that is being written began too early.
  Status rewrite(Connection& connection, std::string_view command, std::string_view outcome) const {
    const std::int64_t limit = monotonic_nanos() + kRewriteMax.nanos;
    FALAJ_TRY(wait_for_rewrites(connection, limit));
    while (true) {
      const Result<RespValue> begun = connection.ask({command});
      if (begun.ok()) break;
      const bool busy = begun.error().message.find("in progress") != std::string::npos;
      if (!busy) return begun.error();
      FALAJ_TRY(wait_for_rewrites(connection, limit));
    }
    const std::string info = FALAJ_TRY(wait_for_rewrites(connection, limit));
    if (Connection::info_field(info, outcome) == "ok") return {};
    return unavailable("Redis at " + options_.name + " could not do " + std::string(command) +
                       ": look at its log");
  }

  // INFO once nothing is being written.
  Result<std::string> wait_for_rewrites(Connection& connection, std::int64_t limit) const {
    std::chrono::milliseconds pause(2);
    while (true) {
      RespValue info = FALAJ_TRY(connection.ask({"INFO", "persistence"}));
      bool busy = false;
      for (const std::string_view name :
           {"aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress"}) {
        busy = busy || Connection::info_field(info.text, name) == "1";
      }
      if (!busy) return std::move(info.text);
      if (monotonic_nanos() > limit) {
        return unavailable("Redis at " + options_.name + " still rewrites its files");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(200));
    }
  }

  template <class Use>
  auto use(Again again, const Use& act) const -> decltype(act(std::declval<Connection&>())) {
    while (true) {
      Lease lease = FALAJ_TRY(take());
      auto result = act(*lease.connection);
      if (!lease.connection->broken()) {
        give_back(std::move(lease.connection));
        return result;
      }
      if (result.ok()) return result;  // A scan that was ended: the others are good.
      {
        const MutexLock lock(mutex_);
        idle_.clear();  // Of the same server, that is gone or does not speak sense.
      }
      if (again == Again::kNever || !lease.kept) return result;
      again = Again::kNever;
    }
  }

  Result<Lease> take() const {
    {
      const MutexLock lock(mutex_);
      while (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        if (connection->is_usable()) return Lease{std::move(connection), true};
      }
      const std::int64_t wait = not_before_ - options_.now();
      if (failures_ > 0 && wait > 0) {
        return Error(last_error_->id, last_error_->message + " (tried again in " +
                                          std::to_string(wait / 1'000'000 + 1) + " ms)");
      }
    }
    Result<std::unique_ptr<Connection>> made = connect();
    const MutexLock lock(mutex_);
    if (!made.ok()) {
      failed(made.error());
      return made.error();
    }
    if (std::exchange(failures_, 0) > 0) log::info("redis answers again", {{"at", options_.name}});
    return Lease{std::move(made).value(), false};
  }

  Result<std::unique_ptr<Connection>> connect() const {
    Result<std::unique_ptr<Link>> link = dial_();
    if (!link.ok()) return link_error(link.error(), options_.name);
    return Connection::open(std::move(link).value(), options_);
  }

  void failed(const Error& error) const FALAJ_REQUIRES(mutex_) {
    last_error_ = error;
    idle_.clear();
    // Those who tried at the same time have failed together: once.
    if (failures_ > 0 && options_.now() < not_before_) return;
    ++failures_;
    not_before_ =
        options_.now() + backoff_after(failures_, options_.backoff_min, options_.backoff_max).nanos;
    if (failures_ == 1) log::warn("redis cannot be used", {{"reason", error.message}});
  }

  void give_back(std::unique_ptr<Connection> connection) const {
    const MutexLock lock(mutex_);
    if (idle_.size() < kIdleMax) idle_.push_back(std::move(connection));
  }

  const Dial dial_;
  const Options options_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Connection>> idle_ FALAJ_GUARDED_BY(mutex_);
  mutable int failures_ FALAJ_GUARDED_BY(mutex_) = 0;  // In a row.
  mutable std::int64_t not_before_ FALAJ_GUARDED_BY(mutex_) = 0;
  mutable std::optional<Error> last_error_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<RedisRows>> open_redis(Dial dial, Options options) {
  if (options.durability == Options::Durability::kVouchedFor) {
    log::warn("redis durability is not checked",
              {{"at", options.name}, {"wanted", "appendonly yes, appendfsync always, noeviction"}});
  }
  auto store = std::make_unique<RedisKvStore>(std::move(dial), std::move(options));
  FALAJ_TRY(store->start());
  return std::unique_ptr<RedisRows>(std::move(store));
}

}  // namespace falaj::storage::redis
