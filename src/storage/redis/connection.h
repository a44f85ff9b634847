// storage/redis/connection.h — one connection to a Redis server: commands out, replies in.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "storage/redis/redis.h"
#include "storage/redis/resp.h"

namespace falaj::storage::redis {

// What the replies to CONFIG GET say about a server. Pure: the error (FJ-8010) names the setting,
// its value and what to write.
struct ServerSettings {
  std::string appendonly;
  std::string appendfsync;
  std::string maxmemory;
  std::string maxmemory_policy;
};
Status check_durable(const ServerSettings& settings);

// What an error reply means for us, with `name` of the server. Refusals of the user and of
// set-ups are FJ-8010, memory is kResourceExhausted, everything else FJ-8009.
Error reply_error(std::string_view reply, const std::string& name);

// What a failure of the link means: FJ-8010 for a certificate that is not believed, else FJ-8009.
Error link_error(const Error& error, const std::string& name);

// How long to leave the server alone after so many failed attempts in a row: doubling.
Duration backoff_after(int failures, Duration least, Duration most);

// One thread at a time. After an error of call() or stream() it is broken() and of no further use;
// error replies are values, not errors.
class Connection {
 public:
  // Signs in, chooses the database, looks at the server's settings and at whose rows it holds.
  static Result<std::unique_ptr<Connection>> open(std::unique_ptr<Link> link,
                                                  const Options& options);

  // Sends all `commands` at once and reads `replies` replies.
  Result<std::vector<RespValue>> call(std::string_view commands, std::size_t replies);
  // The same for a command with one reply, which is no error.
  Result<RespValue> ask(std::initializer_list<std::string_view> words);
  // Sends a command whose reply is an array of texts in pairs, and hands them on one by one
  // without keeping them. `visit` returns false to end it, which breaks the connection.
  using Visit = std::function<bool(std::string_view first, std::string_view second)>;
  Status stream(std::initializer_list<std::string_view> words, const Visit& visit);

  // The value of a field of INFO's reply; "" when it is not there. Pure.
  static std::string_view info_field(std::string_view info, std::string_view name);

  bool broken() const { return broken_; }
  bool is_usable() const { return !broken_ && !link_->is_stale(); }

 private:
  Connection(std::unique_ptr<Link> link, const Options& options)
      : link_(std::move(link)),
        options_(options),
        limits_{options.value_bytes_max, options.reply_bytes_max} {}
  Status greet();
  Status check_settings();
  Status check_holder();
  std::int64_t deadline() const;
  Status send(std::string_view bytes);
  // The next token, valid until the next call.
  Result<RespToken> next_token(std::int64_t deadline);
  Result<RespValue> next_reply(std::int64_t deadline);
  Status stream_pairs(std::int64_t count, const Visit& visit);
  // Marks it broken and passes the error on.
  Error broke(const Error& error);

  const std::unique_ptr<Link> link_;
  const Options& options_;
  const RespLimits limits_;
  std::array<char, 64 << 10> inbox_{};
  std::string received_;
  std::size_t taken_ = 0;  // Of received_: what was parsed.
  bool broken_ = false;
};

}  // namespace falaj::storage::redis
