#include "net/client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "net/http/parser.h"
#include "net/internal/dial.h"
#include "net/internal/sse.h"

namespace falaj::net {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Error file_error(const std::string& path, int code) {
  const std::string text = "cannot read '" + path + "': " + std::strerror(code);
  return Error(code == ENOENT ? Code::kNotFound : Code::kInvalidArgument, text);
}

Result<std::uint64_t> size_of(const OpenFile& file, const std::string& path) {
  if (file.descriptor() < 0) return file_error(path, errno);
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0) return file_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Error(Code::kInvalidArgument, "'" + path + "' is not a file: give a file to send");
  }
  return static_cast<std::uint64_t>(info.st_size);
}

bool is_idempotent(Method method) { return method != Method::kPost && method != Method::kPatch; }

// What the server said about a failed stream, or its status alone.
Error reply_error(const ClientReply& reply) {
  std::string detail = "the server answered " + std::to_string(reply.status);
  const Result<Value> body = parse_json(reply.body);
  if (body.ok() && !body->text("detail").empty()) detail = body->text("detail");
  return Error(code_of_http_status(reply.status), std::move(detail));
}

// A body to send: text, or a file that is read again for a second attempt.
struct Outgoing {
  std::string_view text;
  const OpenFile* file = nullptr;
  std::uint64_t bytes = 0;
  std::string_view content_type;
};

class HttpClient final : public Client {
 public:
  HttpClient(const ClientOptions& options, Url url, TlsContext tls)
      : options_(options), url_(std::move(url)), tls_(std::move(tls)) {}

  Result<ClientReply> send(Method method, std::string_view target, std::string_view body,
                           std::string_view content_type) override {
    return exchange(method, target, {body, nullptr, body.size(), content_type});
  }

  Result<ClientReply> send_file(Method method, std::string_view target, const std::string& path,
                                std::string_view content_type) override {
    const OpenFile file(path);
    const std::uint64_t bytes = FALAJ_TRY(size_of(file, path));
    return exchange(method, target, {{}, &file, bytes, content_type});
  }

  Status stream(std::string_view target,
                const std::function<bool(std::string_view)>& on_data) override {
    const Status status = stream_once(target, on_data);
    connection_.reset();  // In the middle of a reply: of no further use.
    return status;
  }

 private:
  std::int64_t request_deadline() const {
    const std::int64_t limit = options_.request_timeout.nanos;
    const std::int64_t now = monotonic_nanos();
    return limit > std::numeric_limits<std::int64_t>::max() - now ? 0 : now + limit;
  }

  // True when the connection was used before: the server may have closed it meanwhile.
  Result<bool> connect() {
    if (connection_ != nullptr && connection_->is_stale()) connection_.reset();
    rest_.clear();
    if (connection_ != nullptr) return true;
    auto dialled = Dialled::open(url_, tls_.get(), options_.connect_timeout, options_.reach);
    if (!dialled.ok() && dialled.error().id == ErrorId::kPeerRefused) {
      return Error(ErrorId::kPeerRefused,
                   "https://" + dialled.error().message +
                       "; pass --ca with the authority that vouches for it: the file "
                       "DATA/tls/authority.pem of that server, or the sha256:... that it prints");
    }
    connection_ = FALAJ_TRY(std::move(dialled));
    return false;
  }

  Result<std::string> head_of(Method method, std::string_view target,
                              const Outgoing& outgoing) const {
    if (!target.starts_with('/') || target.find_first_of(" \r\n") != std::string_view::npos) {
      return Error(Code::kInvalidArgument, "'" + std::string(target.substr(0, 200)) +
                                               "' is no path: begin with / and escape blanks");
    }
    std::string head(method_name(method));
    head.append(" ").append(url_.prefix).append(target).append(" HTTP/1.1\r\nHost: ");
    head.append(url_.authority).append("\r\n");
    for (const auto& [name, value] : options_.headers) {
      if ((name + value).find_first_of("\r\n") != std::string::npos) {
        return Error(Code::kInvalidArgument, "header '" + name + "' has a line break");
      }
      head.append(name).append(": ").append(value).append("\r\n");
    }
    const bool bodiless = method == Method::kGet || method == Method::kHead;
    if (outgoing.bytes > 0 || !bodiless) {
      if (outgoing.bytes > 0 && !outgoing.content_type.empty()) {
        head.append("Content-Type: ").append(outgoing.content_type).append("\r\n");
      }
      head.append("Content-Length: ").append(std::to_string(outgoing.bytes)).append("\r\n");
    }
    return head + "\r\n";
  }

  Result<ClientReply> exchange(Method method, std::string_view target, const Outgoing& outgoing) {
    const std::string head = FALAJ_TRY(head_of(method, target, outgoing));
    Result<ClientReply> reply = exchange_once(method, head, outgoing);
    if (!reply.ok()) connection_.reset();
    if (reply.ok() || !retry_) return reply;
    reply = exchange_once(method, head, outgoing);
    if (!reply.ok()) connection_.reset();
    return reply;
  }

  // Sets retry_ when the attempt failed without doing anything twice if made again.
  Result<ClientReply> exchange_once(Method method, const std::string& head,
                                    const Outgoing& outgoing) {
    retry_ = false;
    const bool reused = FALAJ_TRY(connect());
    const std::int64_t deadline = request_deadline();
    heard_ = false;
    const Status sent = send_all(head, outgoing, deadline);
    // A refusal may have come before the body was taken: look for it even if the sending failed.
    Result<ClientReply> reply = read_reply(method, deadline);
    if (reply.ok()) return reply;
    retry_ = reused && !heard_ && is_idempotent(method) && reply.error().code == Code::kUnavailable;
    if (!sent.ok()) return sent.error();
    return reply;
  }

  // In parts, and only as long as the server has not answered: a refusal comes before the end.
  Status send_all(const std::string& head, const Outgoing& outgoing, std::int64_t deadline) {
    cut_short_ = false;
    const std::string_view first = outgoing.text.substr(0, buffer_.size());
    FALAJ_TRY(connection_->write(head, first, deadline));
    std::uint64_t sent = first.size();
    while (sent < outgoing.bytes) {
      if (connection_->is_stale()) {
        cut_short_ = true;
        return {};
      }
      const std::string_view part = FALAJ_TRY(part_of(outgoing, sent));
      FALAJ_TRY(connection_->write(part, {}, deadline));
      sent += part.size();
    }
    return {};
  }

  Result<std::string_view> part_of(const Outgoing& outgoing, std::uint64_t at) {
    if (outgoing.file == nullptr) return outgoing.text.substr(at, buffer_.size());
    const std::size_t want = std::min<std::uint64_t>(buffer_.size(), outgoing.bytes - at);
    const ssize_t count =
        ::pread(outgoing.file->descriptor(), buffer_.data(), want, static_cast<off_t>(at));
    if (count <= 0) {
      return Error(Code::kInvalidArgument, "the file became shorter while it was being sent");
    }
    return std::string_view(buffer_.data(), static_cast<std::size_t>(count));
  }

  Result<ClientReply> read_reply(Method method, std::int64_t deadline) {
    ClientReply reply;
    FALAJ_TRY(read_head(reply, method, deadline));
    while (state_ != ParseState::kDone) FALAJ_TRY(read_more(deadline));
    if (!parser_.keep_alive() || cut_short_) connection_.reset();
    return reply;
  }

  // Also passes over 100 Continue.
  Status read_head(ClientReply& reply, Method method, std::int64_t deadline) {
    const auto body =
        method == Method::kHead ? ReplyParser::Body::kNone : ReplyParser::Body::kExpected;
    do {
      reply = ClientReply{};
      body_max_ = options_.reply_bytes_max;
      parser_.begin(reply, body);
      state_ = ParseState::kNeedMore;
      while (state_ == ParseState::kNeedMore) FALAJ_TRY(read_more(deadline));
    } while (reply.status >= 100 && reply.status < 200);
    return {};
  }

  // Feeds what is left over, or reads. Sets state_.
  Status read_more(std::int64_t deadline) {
    if (rest_.empty() || starved_) {
      const std::size_t count = FALAJ_TRY(connection_->read(buffer_, deadline));
      if (count == 0) {
        state_ = heard_ ? parser_.end() : ParseState::kMalformed;
        if (state_ == ParseState::kDone) {
          connection_.reset();
          return {};
        }
        return Error(ErrorId::kServerUnreachable,
                     "the server at " + url_.authority + " closed the connection without a reply");
      }
      heard_ = true;
      rest_.append(buffer_.data(), count);
    }
    const ParseStep step = parser_.put(rest_, body_max_);
    rest_.erase(0, step.consumed);
    state_ = step.state;
    starved_ = step.state == ParseState::kNeedMore;
    if (step.state == ParseState::kBodyTooLarge) {
      return Error(
          Code::kResourceExhausted,
          "the reply is over " + std::to_string(options_.reply_bytes_max) + " bytes: ask for less");
    }
    if (step.state == ParseState::kMalformed || step.state == ParseState::kHeadTooLarge) {
      return Error(Code::kInternal, "what answers at " + url_.authority + " is no HTTP server");
    }
    return {};
  }

  Status stream_once(std::string_view target,
                     const std::function<bool(std::string_view)>& on_data) {
    std::string head = FALAJ_TRY(head_of(Method::kGet, target, {}));
    head.insert(head.size() - 2, "Accept: text/event-stream\r\n");
    connection_.reset();  // A fresh one: there is no second attempt for a stream.
    FALAJ_TRY(connect());
    const std::int64_t deadline = request_deadline();
    heard_ = false;
    FALAJ_TRY(connection_->write(head, {}, deadline));
    ClientReply reply;
    FALAJ_TRY(read_head(reply, Method::kGet, deadline));
    if (reply.status != 200) {
      while (state_ != ParseState::kDone) FALAJ_TRY(read_more(deadline));
      return reply_error(reply);
    }
    body_max_ = std::numeric_limits<std::uint64_t>::max();  // A stream has no end to measure.
    EventReader events(options_.reply_bytes_max);
    while (true) {
      const EventReader::Outcome outcome = events.feed(reply.body, on_data);
      reply.body.clear();
      if (outcome == EventReader::Outcome::kStopped || state_ == ParseState::kDone) return {};
      if (outcome == EventReader::Outcome::kTooLarge) {
        return Error(Code::kResourceExhausted,
                     "an event of " + std::string(target) + " is too large");
      }
      FALAJ_TRY(read_more(0));
    }
  }

  const ClientOptions options_;
  const Url url_;
  const TlsContext tls_;
  std::unique_ptr<Dialled> connection_;
  ReplyParser parser_;
  ParseState state_ = ParseState::kNeedMore;
  std::string rest_;      // Received and not yet parsed.
  bool starved_ = false;  // rest_ alone is not enough.
  bool heard_ = false;    // The server has begun to answer.
  bool retry_ = false;
  bool cut_short_ = false;
  std::uint64_t body_max_ = 0;
  std::array<char, 64 << 10> buffer_{};
};

}  // namespace

Result<std::unique_ptr<Client>> Client::create(const ClientOptions& options) {
  Url url = FALAJ_TRY(parse_url(options.base_url));
  TlsContext tls;
  if (url.scheme == Url::Scheme::kHttps) tls = FALAJ_TRY(make_client_tls(options.tls));
  return std::unique_ptr<Client>(
      std::make_unique<HttpClient>(options, std::move(url), std::move(tls)));
}

}  // namespace falaj::net
