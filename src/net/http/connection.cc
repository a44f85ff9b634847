#include "net/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "net/internal/request_log.h"

namespace falaj::net {
namespace {

constexpr std::size_t kCopiedBodyMax = 32 << 10;   // Larger bodies are sent from where they are.
constexpr std::size_t kOutputMax = 256 << 10;      // Pipelined replies kept before a flush.
constexpr std::size_t kKeptCapacity = 64 << 10;    // Buffers above this are given back.
constexpr std::size_t kStreamInputMax = 64 << 10;  // Bytes a client may send ahead of a stream.
constexpr std::size_t kDiscardMax = 64 << 20;
constexpr int kReadsPerTurn = 16;
constexpr int kRequestsPerTurn = 64;
constexpr std::int64_t kLingerNanos = 2'000'000'000;

void give_back(std::string& buffer) {
  if (buffer.capacity() > kKeptCapacity) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

}  // namespace

std::string_view LoopState::date() {
  const std::time_t now = std::time(nullptr);
  if (now != date_second_) {
    date_second_ = now;
    date_ = http_date(now);
  }
  return date_;
}

void open_connection(ServerCore& core, LoopState& loop, int socket, std::string peer) {
  TlsSession session;
  if (core.is_tls) {
    MutexLock lock(core.mutex);
    Result<TlsSession> made = accept_session(*core.tls, socket);
    if (!made.ok()) {
      ::close(socket);
      --core.open_connections;
      core.all_closed.notify_all();
      return;
    }
    session = std::move(made).value();
  }
  core.series.connections().add(1);
  auto connection =
      std::make_shared<Connection>(core, loop, socket, std::move(peer), std::move(session));
  loop.connections.push_back(connection);
  connection->start();
}

Connection::Connection(ServerCore& core, LoopState& loop, int socket, std::string peer,
                       TlsSession session)
    : core_(core),
      loop_(loop),
      socket_(socket),
      transport_(socket, std::move(session)),
      peer_(std::move(peer)),
      state_(transport_.is_tls() ? State::kHandshake : State::kIdle),
      parser_(core.options.header_bytes_max) {}

void Connection::start() {
  index_ = loop_.connections.size() - 1;
  watch_ = loop_.loop->watch(socket_, weak_from_this());
  const Duration limit =
      transport_.is_tls() ? core_.options.header_timeout : core_.options.idle_timeout;
  deadline_ = monotonic_nanos() + limit.nanos;
  if (core_.draining.load() && core_.announced.load() == 0) return close();
  pump();
}

void Connection::on_readable() {
  readable_ = true;
  if (state_ == State::kRunning && gone_ != nullptr && watch_->has_ended()) {
    gone_->store(true);
    gone_->notify_all();
  }
  pump();
}

void Connection::on_writable() { pump(); }

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  if (stream_ != nullptr) stream_->disconnect();
  watch_.reset();
  core_.series.connections().add(-1);
  auto& all = loop_.connections;
  // Keeps the object alive to the end of this call.
  const std::shared_ptr<Connection> last = std::exchange(all[index_], nullptr);
  all[index_] = std::move(all.back());
  all.pop_back();
  if (index_ < all.size()) all[index_]->index_ = index_;
  MutexLock lock(core_.mutex);
  if (--core_.open_connections == 0) core_.all_closed.notify_all();
}

void Connection::drop_slow_reader() {
  core_.series.refused(Refusal::kSlowReader);
  // A reset: what it did not read would otherwise stay in the kernel until it does.
  const linger at_once{1, 0};
  ::setsockopt(watch_->descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

// Whether to wait for a request of this connection, which has none: it came after the announcement,
// or a request has come that was not looked at.
bool Connection::may_still_ask() const {
  const std::int64_t announced = core_.announced.load();
  if (announced == 0) return false;
  if (state_ == State::kHandshake) return true;
  if (deadline_ - core_.options.idle_timeout.nanos >= announced) return true;
  char byte = 0;
  return ::recv(watch_->descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void Connection::end_silence() {
  const bool silent = state_ == State::kHandshake || (state_ == State::kIdle && !has_output());
  if (silent) close();
}

void Connection::begin_drain() {
  switch (state_) {
    case State::kHandshake:
      if (!may_still_ask()) close();
      return;
    case State::kIdle:
      if (has_output()) {
        close_after_output_ = true;
      } else if (!may_still_ask()) {
        close();
      }
      return;
    case State::kStreaming:
      keep_alive_ = false;
      stream_->close();
      return;
    default:
      keep_alive_ = false;
  }
}

void Connection::sweep(std::int64_t now) {
  if (write_deadline_ != 0 && now > write_deadline_) {
    return drop_slow_reader();
  }
  if (state_ == State::kIdle && std::exchange(rests_, true)) transport_.rest();
  if (deadline_ == 0 || now < deadline_ || has_output()) return;
  if (state_ != State::kHead && state_ != State::kBody) return close();
  refuse({408, Error(Code::kDeadlineExceeded, "the request did not arrive in time: send it faster"),
          Refusal::kSlowSender});
  pump();
}

// ---- Moving bytes ------------------------------------------------------------------------------

void Connection::pump() {
  if (pumping_) return;
  pumping_ = true;
  reads_left_ = kReadsPerTurn;
  requests_left_ = kRequestsPerTurn;
  while (state_ != State::kClosed && step()) {
  }
  if (state_ == State::kHead && deadline_ == 0) {
    deadline_ = monotonic_nanos() + core_.options.header_timeout.nanos;
  }
  pumping_ = false;
}

// One round of in, through and out. False: nothing more can be done before the next event.
bool Connection::step() {
  if (state_ == State::kHandshake && !shake_hands()) return false;
  if (!in_.empty() && !starved_) {
    const std::size_t used = consume(in_);
    in_.erase(0, used);
    if (in_.empty()) give_back(in_);
  }
  if (state_ == State::kStreaming && !has_output()) feed_stream();
  if (state_ == State::kClosed) return false;
  const bool had_output = has_output();
  if (had_output && state_ == State::kIdle && !std::exchange(yielded_, true) &&
      watch_->yield_round()) {
    return false;
  }
  yielded_ = false;
  if (!flush()) return false;
  if (on_stream_ != nullptr) {
    std::exchange(on_stream_, nullptr)(stream_);
    return true;
  }
  // What was queued while the socket was full follows now.
  if (had_output && state_ == State::kStreaming) return true;
  if (requests_left_ == 0 || reads_left_ == 0) return yield();
  if (!in_.empty() && !starved_ && state_ == State::kIdle) return true;
  return wants_bytes() && read_some();
}

// A client that sends without a pause shares the loop with the others.
bool Connection::yield() {
  loop_.loop->post([self = weak_from_this()] {
    if (const auto alive = self.lock()) alive->pump();
  });
  return false;
}

bool Connection::shake_hands() {
  switch (transport_.handshake().outcome) {
    case IoOutcome::kDone:
      tls_peer_ = transport_.peer();
      become_idle();
      return true;
    case IoOutcome::kWantRead:
      watch_->wait_readable();
      return false;
    case IoOutcome::kWantWrite:
      watch_->wait_writable();
      return false;
    default:
      return give_up_handshake();
  }
}

// A browser or script that left out the "s" is told, in its own language; nothing of what it sent
// is looked at.
bool Connection::give_up_handshake() {
  if (!transport_.heard_plain_http()) {
    core_.series.refused(Refusal::kHandshake);
    close();
    return false;
  }
  transport_.drop_tls();
  begin_request();
  refuse({400,
          Error(Code::kInvalidArgument,
                "this port speaks TLS 1.3 only: begin the address with https://"),
          Refusal::kHandshake});
  return true;
}

bool Connection::wants_bytes() const {
  switch (state_) {
    case State::kIdle:
    case State::kHead:
    case State::kBody:
    case State::kLinger:
      return true;
    case State::kStreaming:
      return in_.size() < kStreamInputMax;  // To notice that it has gone.
    default:
      return false;
  }
}

// False: wait for an event, or closed.
bool Connection::read_some() {
  if (!readable_) {
    watch_->wait_readable();
    return false;
  }
  --reads_left_;
  const IoResult result = transport_.read(loop_.scratch);
  switch (result.outcome) {
    case IoOutcome::kDone:
      break;
    case IoOutcome::kWantRead:
      readable_ = false;
      watch_->wait_readable();
      return false;
    case IoOutcome::kWantWrite:
      watch_->wait_writable();
      return false;
    default:
      close();
      return false;
  }
  // Nothing new would be told of what is left in the socket (see Watch).
  if (transport_.has_drained(result.bytes, loop_.scratch.size())) readable_ = false;
  take_bytes({loop_.scratch.data(), result.bytes});
  return state_ != State::kClosed;
}

void Connection::take_bytes(std::string_view bytes) {
  if (state_ == State::kLinger) return discard(bytes.size());
  starved_ = false;
  if (!in_.empty()) {
    in_.append(bytes);
    return;
  }
  bytes.remove_prefix(consume(bytes));
  in_.append(bytes);
}

void Connection::discard(std::size_t bytes) {
  discarded_ += bytes;
  if (discarded_ > kDiscardMax) close();
}

bool Connection::output_full() const {
  return !large_.empty() || out_.size() - out_at_ > kOutputMax || close_after_output_;
}

// False: blocked or closed.
bool Connection::flush() {
  while (has_output()) {
    const std::string_view first = std::string_view(out_).substr(out_at_);
    const IoResult result = transport_.write(first, large_);
    switch (result.outcome) {
      case IoOutcome::kDone:
        break;
      case IoOutcome::kWantWrite:
        write_deadline_ = monotonic_nanos() + core_.options.idle_timeout.nanos;
        watch_->wait_writable();
        return false;
      case IoOutcome::kWantRead:
        watch_->wait_readable();
        return false;
      default:
        close();
        return false;
    }
    const std::size_t of_first = std::min(result.bytes, first.size());
    out_at_ += of_first;
    large_.remove_prefix(result.bytes - of_first);
    settle(result.bytes);
  }
  return finish_output();
}

bool Connection::finish_output() {
  if (std::exchange(write_deadline_, 0) != 0 && state_ == State::kIdle) become_idle();
  out_at_ = 0;
  give_back(out_);
  if (!large_owned_.empty()) std::string().swap(large_owned_);
  if (!close_after_output_ || state_ == State::kLinger) return true;
  if (!linger_) {
    if (transport_.is_tls()) transport_.finish_writing();
    close();
    return false;
  }
  transport_.finish_writing();
  state_ = State::kLinger;
  give_back(in_);
  deadline_ = monotonic_nanos() + kLingerNanos;
  return true;
}

// Output since `before` belongs to the answer of `caller`; the socket takes it in this order.
void Connection::owe(const std::shared_ptr<const Caller>& caller, std::size_t before) {
  const std::size_t bytes = output_bytes() - before;
  if (bytes > 0) owed_.push_back({caller, bytes});
}

void Connection::settle(std::size_t bytes) {
  std::size_t paid = 0;
  for (Owed& owed : owed_) {
    if (bytes == 0) break;
    const std::size_t part = std::min(bytes, owed.bytes);
    if (owed.caller != nullptr) owed.caller->sent(part);
    owed.bytes -= part;
    bytes -= part;
    if (owed.bytes == 0) ++paid;
  }
  owed_.erase(owed_.begin(), owed_.begin() + static_cast<std::ptrdiff_t>(paid));
}

void Connection::feed_stream() {
  const std::size_t before = output_bytes();
  const EventStream::Progress progress = stream_->take(out_);
  owe(stream_caller_, before);
  switch (progress) {
    case EventStream::Progress::kOpen:
      return;
    case EventStream::Progress::kOverflowed:
      return drop_slow_reader();
    case EventStream::Progress::kEnded:
      break;
  }
  stream_.reset();
  if (keep_alive_ && !core_.replies_close()) return become_idle();
  close_after_output_ = true;
  state_ = State::kRunning;  // Nothing more is read; the flush closes.
}

void Connection::stream_ready() {
  if (state_ != State::kStreaming) return;
  // A full socket must not keep an overflow from being noticed.
  if (stream_->overflowed()) return drop_slow_reader();
  pump();
}

// ---- Answering ---------------------------------------------------------------------------------

void Connection::answered(const Request& request, Response response) {
  if (state_ != State::kRunning) return;
  reply(request, std::move(response), After::kAsAsked);
  pump();
}

std::string_view Connection::dialect() const {
  if (route_ != nullptr) return route_->dialect;
  const std::string_view path = request_.path;
  const bool inference =
      path == "/v2" || path.starts_with("/v2/") || path.starts_with("/v1/models");
  return inference ? "inference" : "native";
}

void Connection::fail(int status, const Error& error, After after) {
  Response response = error_reply(dialect(), error, status, request_);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  reply(request_, std::move(response), after);
}

void Connection::refuse(Refused refused) {
  core_.series.refused(refused.reason);
  take_over_ids();
  linger_ = true;
  fail(refused.status, refused.error, After::kClose);
}

void Connection::tell_answered(const Request& request, const Response& response,
                               std::int64_t nanos) const {
  if (!core_.options.on_answered) return;
  Answered answered{request, route_ == nullptr ? "unmatched" : std::string_view(route_->path),
                    response.status};
  const std::string code = response.error ? std::string(to_string(*response.error)) : "";
  answered.code = code;
  answered.bytes_in = request.body_file == nullptr ? static_cast<std::int64_t>(request.body.size())
                                                   : request.body_file->size();
  if (response.on_stream == nullptr) {
    answered.bytes_out = static_cast<std::int64_t>(
        response.static_body.empty() ? response.body.size() : response.static_body.size());
  }
  answered.nanos = nanos;
  core_.options.on_answered(answered);
}

void Connection::reply(const Request& request, Response response, After after) {
  if (body_follows_) {
    after = After::kClose;  // Its unread body stands where the next request would.
    linger_ = true;
  }
  const bool close = after == After::kClose || !keep_alive_ || core_.replies_close();
  RouteSeries& series = core_.series.of(route_);
  series.count(request.method, response.status);
  const std::int64_t now = monotonic_nanos();
  if (started_ != 0) series.observe(now - started_);
  log_answer(route_, request, response, started_ == 0 ? 0 : now - started_);
  tell_answered(request, response, started_ == 0 ? 0 : now - started_);
  const AfterReply head_after = close ? AfterReply::kClose : AfterReply::kKeepAlive;
  if (response.on_stream != nullptr && request.method != Method::kHead) {
    return reply_with_stream(request, std::move(response), head_after);
  }
  core_.cors.add_headers(request, response);
  const std::size_t before = output_bytes();
  const bool bodiless = response.status == 204 || response.status == 304;
  const std::size_t bytes =
      response.static_body.empty() ? response.body.size() : response.static_body.size();
  append_reply_head(out_, {.response = response,
                           .request = request,
                           .date = loop_.date(),
                           .body_bytes = bytes,
                           .framing = bodiless ? Framing::kNone : Framing::kLength,
                           .after = head_after});
  if (!bodiless && request.method != Method::kHead) append_body(request, response);
  owe(request.caller, before);
  close_after_output_ = close;
  state_ = State::kIdle;
  upload_.reset();
  deadline_ = now + core_.options.idle_timeout.nanos;
}

void Connection::append_body(const Request&, Response& response) {
  const bool is_static = !response.static_body.empty();
  const std::string_view body = is_static ? response.static_body : std::string_view(response.body);
  if (body.size() <= kCopiedBodyMax) {
    out_.append(body);
  } else if (is_static) {
    large_ = body;
  } else {
    large_owned_ = std::move(response.body);
    large_ = large_owned_;
  }
}

void Connection::reply_with_stream(const Request& request, Response response, AfterReply after) {
  const bool chunked = parser_.head().version == 11;
  keep_alive_ = chunked && after == AfterReply::kKeepAlive;
  const std::size_t before = output_bytes();
  append_reply_head(out_, {.response = response,
                           .request = request,
                           .date = loop_.date(),
                           .framing = chunked ? Framing::kChunked : Framing::kUntilClose,
                           .after = keep_alive_ ? AfterReply::kKeepAlive : AfterReply::kClose});
  owe(request.caller, before);
  stream_caller_ = request.caller;
  stream_ = std::make_shared<EventStream>(
      loop_.loop, weak_from_this(),
      chunked ? EventStream::Chunked::kYes : EventStream::Chunked::kNo);
  on_stream_ = std::move(response.on_stream);
  upload_.reset();
  state_ = State::kStreaming;
  deadline_ = 0;
  if (core_.draining.load()) stream_->close();
}

void Connection::become_idle() {
  state_ = State::kIdle;
  deadline_ = monotonic_nanos() + core_.options.idle_timeout.nanos;
}

}  // namespace falaj::net
