#include "storage/redis/resp.h"

#include <charconv>

#include "base/check.h"

namespace falaj::storage::redis {
namespace {

using Kind = RespToken::Kind;

constexpr std::size_t kLineMax = 8u << 10;
constexpr std::size_t kDepthMax = 4;
constexpr std::int64_t kItemsMax = std::int64_t{1} << 33;  // A hash has up to 2^32 pairs.
constexpr std::size_t kItemBytes = 64;

Error not_resp(const std::string& what) {
  return Error(ErrorId::kOnlineStoreUnavailable,
               "what answers there does not speak as Redis does: " + what);
}

// The digits of a count or number; from_chars alone would take a rest.
Result<std::int64_t> parse_number(std::string_view line) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), number);
  if (line.empty() || parsed.ec != std::errc() || parsed.ptr != line.data() + line.size()) {
    return not_resp("a line of " + std::to_string(line.size()) + " bytes is no number");
  }
  return number;
}

Result<std::optional<RespToken>> parse_bulk(std::string_view bytes, RespToken token,
                                            const RespLimits& limits) {
  if (token.number == -1) {
    token.kind = Kind::kNull;
    return std::optional(token);
  }
  if (token.number < 0 || static_cast<std::uint64_t>(token.number) > limits.bulk_bytes_max) {
    return not_resp("a text of " + std::to_string(token.number) + " bytes, " +
                    std::to_string(limits.bulk_bytes_max) + " is the limit");
  }
  const auto length = static_cast<std::size_t>(token.number);
  bytes.remove_prefix(token.size);
  if (bytes.size() < length + 2) return std::optional<RespToken>();
  if (bytes.substr(length, 2) != "\r\n") return not_resp("a text that is longer than it says");
  token.kind = Kind::kBulk;
  token.text = bytes.substr(0, length);
  token.number = 0;
  token.size += length + 2;
  return std::optional(token);
}

}  // namespace

void begin_command(std::string& out, std::size_t words) {
  out.append("*").append(std::to_string(words)).append("\r\n");
}

void append_word(std::string& out, std::string_view word) {
  out.append("$").append(std::to_string(word.size())).append("\r\n");
  out.append(word).append("\r\n");
}

void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  begin_command(out, words.size());
  for (const std::string_view word : words) append_word(out, word);
}

Result<std::optional<RespToken>> parse_token(std::string_view bytes, const RespLimits& limits) {
  if (bytes.empty()) return std::optional<RespToken>();
  const char mark = bytes.front();
  if (std::string_view("+-:$*").find(mark) == std::string_view::npos) {
    return not_resp("a reply begins with byte " + std::to_string(static_cast<unsigned char>(mark)));
  }
  const std::size_t end = bytes.substr(0, kLineMax).find('\r');
  if (end == std::string_view::npos || end + 1 == bytes.size()) {
    if (bytes.size() < kLineMax) return std::optional<RespToken>();
    return not_resp("a line over " + std::to_string(kLineMax) + " bytes");
  }
  const std::string_view line = bytes.substr(1, end - 1);
  if (bytes[end + 1] != '\n') return not_resp("a line that ends with half an end");
  RespToken token;
  token.size = end + 2;
  if (mark == '+' || mark == '-') {
    token.kind = mark == '+' ? Kind::kText : Kind::kError;
    token.text = line;
    return std::optional(token);
  }
  token.number = FALAJ_TRY(parse_number(line));
  if (mark == '$') return parse_bulk(bytes, token, limits);
  token.kind = mark == ':' ? Kind::kInteger : Kind::kArray;
  if (mark == '*' && token.number == -1) {
    token.kind = Kind::kNull;
    token.number = 0;
  } else if (mark == '*' && (token.number < 0 || token.number > kItemsMax)) {
    return not_resp("an array of " + std::to_string(token.number) + " items");
  }
  return std::optional(token);
}

Result<RespTree::State> RespTree::put(const RespToken& token) {
  // By what arrived, never by what was announced: a count alone costs nothing.
  bytes_ += kItemBytes + token.text.size();
  if (bytes_ > limits_.reply_bytes_max) {
    return not_resp("a reply over " + std::to_string(limits_.reply_bytes_max) + " bytes");
  }
  RespValue value{token.kind, std::string(token.text), token.number, {}};
  if (token.kind == Kind::kArray && token.number > 0) {
    if (open_.size() == kDepthMax) return not_resp("arrays within arrays");
    open_.push_back({std::move(value), token.number});
    return State::kNeedMore;
  }
  while (!open_.empty()) {
    Level& level = open_.back();
    level.array.items.push_back(std::move(value));
    if (--level.missing > 0) return State::kNeedMore;
    value = std::move(level.array);
    open_.pop_back();
  }
  done_ = std::move(value);
  return State::kDone;
}

RespValue RespTree::take() {
  FALAJ_CHECK(open_.empty());
  bytes_ = 0;
  return std::exchange(done_, {});
}

}  // namespace falaj::storage::redis
