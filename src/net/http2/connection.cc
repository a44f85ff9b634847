#include "net/http2/connection.h"

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/internal/address.h"
#include "net/text.h"
#include "telemetry/trace.h"

namespace falaj::net {
namespace {

constexpr std::size_t kOutputMax = 256 << 10;
constexpr std::size_t kWaitingMax = 16;    // Messages of one call that wait for the pool.
constexpr std::int32_t kWindow = 1 << 20;  // Of a call.
constexpr std::int32_t kConnectionWindow = 8 << 20;
constexpr int kReadsPerTurn = 16;
constexpr std::int64_t kWriteNanos = 75'000'000'000;

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// nghttp2 copies both.
nghttp2_nv header(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

// Forgets what was sent, at most once in so many bytes: a client that never takes all of it must
// not make it grow.
void drop_sent(std::string& out, std::size_t& at) {
  if (at < kOutputMax) return;
  out.erase(0, at);
  at = 0;
}

}  // namespace

// nghttp2's calls, each handed to the connection. None throws: the library is C.
struct H2Connection::Callbacks {
  static H2Connection& self(void* user) { return *static_cast<H2Connection*>(user); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      self(user).take_header(frame->hd.stream_id, view(name, name_size), view(value, value_size));
    }
    return 0;
  }
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    H2Connection& connection = self(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    auto call = std::make_unique<Call>(connection.core_.options.message_bytes_max);
    call->begun = monotonic_nanos();
    call->deadline = call->begun + connection.core_.options.message_timeout.nanos;
    connection.calls_[frame->hd.stream_id] = std::move(call);
    return 0;
  }
  static int on_frame_recv(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    H2Connection& connection = self(user);
    // It speaks HTTP/2: from now on it may rest, and pings show that it lives.
    if (connection.calls_.empty()) {
      connection.deadline_ = monotonic_nanos() + connection.core_.options.idle_timeout.nanos;
    }
    const bool head =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (head) connection.begin_call(frame->hd.stream_id);
    const bool carries_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      connection.end_of_input(frame->hd.stream_id);
    }
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                     std::size_t size, void* user) {
    self(user).take_data(id, view(bytes, size));
    return 0;
  }
  static int on_stream_close(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    self(user).closed(id);
    return 0;
  }
  static int on_frame_send(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool carries_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self(user).sent_end(frame->hd.stream_id);
    }
    return 0;
  }
  static ssize_t read_answer(nghttp2_session*, std::int32_t id, std::uint8_t* into,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                             void* user) {
    return self(user).read_answer(id, into, size, flags);
  }
};

H2Connection::H2Connection(GrpcCore& core, int socket, std::string peer, TlsSession session)
    : core_(core),
      socket_(socket),
      transport_(socket, std::move(session)),
      peer_(std::move(peer)) {}

H2Connection::~H2Connection() { nghttp2_session_del(session_); }

Status H2Connection::make_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0) {
    nghttp2_session_callbacks_del(callbacks);
    return Error(Code::kResourceExhausted, "no memory for an HTTP/2 session");
  }
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::on_header);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, Callbacks::on_begin_headers);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::on_frame_recv);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::on_stream_close);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::on_frame_send);
  nghttp2_option_set_no_auto_window_update(option, 1);
  const int made = nghttp2_session_server_new2(&session_, callbacks, this, option);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  if (made != 0) return Error(Code::kInternal, nghttp2_strerror(made));
  const std::array<nghttp2_settings_entry, 3> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
        static_cast<std::uint32_t>(core_.options.calls_max)},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
        static_cast<std::uint32_t>(core_.options.metadata_bytes_max)}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  return {};
}

void H2Connection::start() {
  index_ = core_.connections.size() - 1;
  watch_ = core_.loop->watch(socket_, weak_from_this());
  deadline_ = monotonic_nanos() + core_.options.handshake_timeout.nanos;
  handshaken_ = !transport_.is_tls();
  if (core_.draining.load() || !make_session().ok()) return close();
  pump();
}

void H2Connection::on_readable() {
  readable_ = true;
  pump();
}

void H2Connection::on_writable() { pump(); }

void H2Connection::close() {
  if (std::exchange(closed_, true)) return;
  for (auto& [id, call] : calls_) {
    call->gone->store(true);
    call->gone->notify_all();
    count(*call, 0);
  }
  watch_.reset();
  auto& all = core_.connections;
  const std::shared_ptr<H2Connection> last = std::exchange(all[index_], nullptr);
  all[index_] = std::move(all.back());
  all.pop_back();
  if (index_ < all.size()) all[index_]->index_ = index_;
  MutexLock lock(core_.mutex);
  if (--core_.open_connections == 0) core_.all_closed.notify_all();
}

void H2Connection::begin_drain() {
  if (closed_ || std::exchange(draining_, true)) return;
  // Calls that come after this are not looked at, and clients know that they may send them again.
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
  pump();
}

void H2Connection::end_farewell() {
  if (!closed_ && calls_.empty()) close();
}

void H2Connection::sweep(std::int64_t now) {
  if (closed_) return;
  if (write_deadline_ != 0 && now > write_deadline_) return close();
  if (calls_.empty() && deadline_ != 0 && now > deadline_) {
    if (handshaken_) {
      nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
      return pump();
    }
    return close();
  }
  for (auto& [id, call] : calls_) {
    if (call->deadline != 0 && now > call->deadline && !call->end.has_value()) {
      fail(id, *call, Error(Code::kDeadlineExceeded, "the call's message did not come in time"));
    }
    if (call->write_deadline != 0 && now > call->write_deadline) {
      call->write_deadline = 0;
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    }
  }
  pump();
}

// ---- Moving bytes ------------------------------------------------------------------------------

void H2Connection::pump() {
  if (pumping_ || closed_) return;
  pumping_ = true;
  const auto keep = shared_from_this();
  int reads = kReadsPerTurn;
  while (!closed_) {
    if (!handshaken_ && !shake_hands()) break;
    if (!flush()) break;
    const bool over =
        nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
    if (draining_ && calls_.empty()) {
      // Closing now would reset what the client is sending, and the farewell with it.
      if (!std::exchange(said_all_, true)) transport_.finish_writing();
    } else if (over) {
      close();
      break;
    }
    if (reads-- == 0) {
      // A client that sends without a pause shares the loop with the others.
      core_.loop->post([self = weak_from_this()] {
        if (const auto alive = self.lock()) alive->pump();
      });
      break;
    }
    if (!read_some()) break;
  }
  pumping_ = false;
}

bool H2Connection::shake_hands() {
  switch (transport_.handshake().outcome) {
    case IoOutcome::kDone:
      tls_peer_ = transport_.peer();
      handshaken_ = true;
      return true;
    case IoOutcome::kWantRead:
      watch_->wait_readable();
      return false;
    case IoOutcome::kWantWrite:
      watch_->wait_writable();
      return false;
    default:
      close();
      return false;
  }
}

// False: wait for an event, or closed.
bool H2Connection::read_some() {
  if (!readable_) {
    watch_->wait_readable();
    return false;
  }
  const IoResult result = transport_.read(core_.scratch);
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
  if (transport_.has_drained(result.bytes, core_.scratch.size())) readable_ = false;
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(core_.scratch.data()), result.bytes);
  // Bad frames are answered by the library; what it cannot answer (no preface, a flood) is cut.
  if (used < 0 || static_cast<std::size_t>(used) != result.bytes) {
    close();
    return false;
  }
  return true;
}

// False: blocked or closed.
bool H2Connection::flush() {
  while (true) {
    while (out_.size() - out_at_ < kOutputMax) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size < 0) {
        close();
        return false;
      }
      if (size == 0) break;
      out_.append(view(bytes, static_cast<std::size_t>(size)));
    }
    if (out_at_ == out_.size()) break;
    const IoResult result = transport_.write(std::string_view(out_).substr(out_at_));
    switch (result.outcome) {
      case IoOutcome::kDone:
        break;
      case IoOutcome::kWantWrite:
        if (write_deadline_ == 0) write_deadline_ = monotonic_nanos() + kWriteNanos;
        watch_->wait_writable();
        return false;
      case IoOutcome::kWantRead:
        watch_->wait_readable();
        return false;
      default:
        close();
        return false;
    }
    write_deadline_ = 0;
    out_at_ += result.bytes;
    drop_sent(out_, out_at_);
    if (out_at_ < out_.size()) continue;
    out_at_ = 0;
    out_.clear();
  }
  return true;
}

// ---- A call's head -----------------------------------------------------------------------------

H2Connection::Call* H2Connection::find(std::int32_t id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : found->second.get();
}

void H2Connection::take_header(std::int32_t id, std::string_view name, std::string_view value) {
  Call* const call = find(id);
  if (call == nullptr) return;
  call->metadata_bytes += name.size() + value.size() + 32;
  if (call->metadata_bytes > core_.options.metadata_bytes_max) return;  // Refused by begin_call.
  Request& request = *call->request;
  if (name == ":path") {
    request.path = value;
  } else if (name == ":authority") {
    request.headers.emplace_back("Host", value);
  } else if (name == "content-type") {
    call->content_type = value;
  } else if (name == ":method") {
    request.method = value == "POST" ? Method::kPost : Method::kGet;
  } else if (!name.starts_with(':')) {
    request.headers.emplace_back(name, value);
  }
}

bool H2Connection::host_allowed(std::string_view authority) const {
  if (authority.empty() || core_.hosts.allows_host(authority)) return true;
  const std::string_view host = host_without_port(authority);
  return !host.empty() && host == local_address(watch_->descriptor());
}

Status H2Connection::check_head(Call& call) {
  Request& request = *call.request;
  if (call.metadata_bytes > core_.options.metadata_bytes_max) {
    return Error(Code::kResourceExhausted, "the call's metadata is over " +
                                               std::to_string(core_.options.metadata_bytes_max) +
                                               " bytes: send less");
  }
  if (!host_allowed(find_header(request.headers, "Host"))) {
    return Error(ErrorId::kHostRefused,
                 "the call names a host that this server does not answer for");
  }
  if (!find_header(request.headers, "Origin").empty()) {
    return Error(ErrorId::kHostRefused, "a web page may not call this server");
  }
  if (!tls_peer_.name.empty() && SystemClock().now() > tls_peer_.not_after) {
    return Error(ErrorId::kPeerRefused,
                 "the certificate of " + tls_peer_.name + " has expired: connect with a new one");
  }
  const auto found = core_.methods.find(request.path);
  if (found == core_.methods.end() || request.method != Method::kPost) {
    return Error(Code::kUnimplemented, "there is no method " + request.path.substr(0, 256));
  }
  call.method = &found->second;
  const std::optional<Coding> coding = parse_coding(find_header(request.headers, "grpc-encoding"));
  if (!coding.has_value()) {
    return Error(Code::kUnimplemented, "the grpc-encoding is not known: use gzip or deflate");
  }
  call.coding = *coding;
  const std::string_view timeout = find_header(request.headers, "grpc-timeout");
  if (timeout.empty()) return {};
  const std::optional<Duration> limit = parse_grpc_timeout(timeout);
  if (!limit.has_value()) return Error(Code::kInvalidArgument, "the grpc-timeout cannot be read");
  request.deadline = SystemClock().now() + *limit;
  return {};
}

void H2Connection::begin_call(std::int32_t id) {
  Call* const call = find(id);
  if (call == nullptr) return;
  if (!call->content_type.starts_with("application/grpc")) {
    // No gRPC client: told in its own terms.
    const std::array<nghttp2_nv, 1> head{header(":status", "415")};
    nghttp2_submit_response(session_, id, head.data(), head.size(), nullptr);
    call->answering = true;
    call->end = GrpcEnd{};
    return;
  }
  Request& request = *call->request;
  request.peer = peer_;
  request.tls_peer = tls_peer_.name;
  request.gone = call->gone;
  const std::string_view asked = find_header(request.headers, "X-Request-Id");
  if (telemetry::check_request_id(asked) == telemetry::RequestIdCheck::kTakenOver) {
    request.request_id = asked;
  } else {
    core_.ids.new_request_id(request.request_id);
  }
  call->id = request.request_id;
  const std::string_view parent = find_header(request.headers, "traceparent");
  if (telemetry::parse_traceparent(parent)) {
    request.traceparent = parent;
  } else {
    core_.ids.new_traceparent(request.traceparent);
  }
  if (const Status checked = check_head(*call); !checked.ok()) fail(id, *call, checked.error());
}

// ---- A call's messages -------------------------------------------------------------------------

void H2Connection::take_data(std::int32_t id, std::string_view bytes) {
  nghttp2_session_consume_connection(session_, bytes.size());
  Call* const call = find(id);
  if (call == nullptr) return;
  call->unconsumed += bytes.size();
  if (call->end.has_value()) return give_window(id, *call);
  // A frame of five bytes stands before a message.
  const std::size_t own_max =
      std::max(core_.options.buffered_bytes_max / 2, core_.options.message_bytes_max + 5);
  if (buffered_ + bytes.size() > own_max || !make_room(*call, bytes.size())) {
    return fail(id, *call, Error(Code::kResourceExhausted, "the server is busy: try again"));
  }
  call->reader.add(bytes);
  read_messages(id, *call);
}

void H2Connection::read_messages(std::int32_t id, Call& call) {
  bool came = false;
  while (!call.end.has_value() && call.messages.size() < kWaitingMax) {
    Result<std::optional<FramedMessage>> next = call.reader.next(call.coding);
    if (!next.ok()) return fail(id, call, next.error());
    if (!next->has_value()) break;
    call.messages.push_back(std::move(**next));
    came = true;
  }
  // Whoever begins a message ends it: what came of it takes room that others wait for.
  if (call.reader.pending() == 0 || call.messages.size() >= kWaitingMax) {
    call.deadline = 0;
  } else if (came || call.deadline == 0) {
    call.deadline = monotonic_nanos() + core_.options.message_timeout.nanos;
  }
  recount(id, call);
  give_window(id, call);
  run_next(id, call);
}

void H2Connection::count(Call& call, std::size_t bytes) {
  core_.buffered = core_.buffered - call.counted + bytes;
  buffered_ = buffered_ - call.counted + bytes;
  call.counted = bytes;
  if (call.turn.has_value()) core_.unfinished.remove(*call.turn);
  call.turn.reset();
}

void H2Connection::recount(std::int32_t id, Call& call) {
  std::size_t now = call.reader.pending();
  for (const FramedMessage& message : call.messages) now += message.bytes.size();
  count(call, now);
  if (call.reader.pending() == 0 || call.deadline == 0) return;
  call.turn = Turn{call.caller, call.deadline, core_.unfinished.next_number()};
  core_.unfinished.add(*call.turn, {this, id});
}

// False: `bytes` more do not fit, and nobody gives way to this call.
bool H2Connection::make_room(const Call& call, std::size_t bytes) {
  const Turn own =
      call.turn.value_or(Turn{call.caller, monotonic_nanos() + core_.options.message_timeout.nanos,
                              core_.unfinished.next_number()});
  while (core_.buffered + bytes > core_.options.buffered_bytes_max) {
    const auto other = core_.unfinished.gives_way_to(own);
    if (!other.has_value()) return false;
    other->connection->give_way(other->call);
  }
  return true;
}

void H2Connection::give_way(std::int32_t id) {
  Call* const call = find(id);
  FALAJ_CHECK(call != nullptr && call->turn.has_value());
  fail(id, *call,
       Error(Code::kResourceExhausted,
             "the server had no room left and the message was not whole: try again"));
  // Later: whoever needed the room is in the middle of its own.
  core_.loop->post([self = weak_from_this()] {
    if (const auto alive = self.lock()) alive->pump();
  });
}

// A client that sends faster than it is answered waits for its window.
void H2Connection::give_window(std::int32_t id, Call& call) {
  if (call.messages.size() >= kWaitingMax || call.unconsumed == 0) return;
  nghttp2_session_consume_stream(session_, id, std::exchange(call.unconsumed, 0));
}

void H2Connection::end_of_input(std::int32_t id) {
  Call* const call = find(id);
  if (call == nullptr) return;
  call->ended_by_client = true;
  call->deadline = 0;
  if (!call->end.has_value()) run_next(id, *call);
}

void H2Connection::run_next(std::int32_t id, Call& call) {
  if (call.running || call.end.has_value()) return;
  if (call.messages.empty()) {
    if (!call.ended_by_client) return;
    if (call.reader.pending() > 0 || !call.answering) {
      const bool nothing = call.reader.pending() == 0;
      if (nothing && call.method->method.kind == GrpcMethod::Kind::kStream) {
        return end_call(id, call, {});
      }
      return fail(id, call,
                  Error(Code::kInvalidArgument,
                        nothing ? "the call brought no message" : "a message was cut short"));
    }
    return end_call(id, call, {});
  }
  // Who does not take the answers it has gets no more of them.
  call.held = call.out.size() - call.out_at > kOutputMax;
  if (call.held) return;
  call.running = true;
  auto message = std::make_shared<FramedMessage>(std::move(call.messages.front()));
  call.messages.pop_front();
  ++call.begun_messages;
  if (call.method->method.kind == GrpcMethod::Kind::kStream) {
    call.request->request_id = call.id + "-" + std::to_string(call.begun_messages);
  }
  // Holds the request until it was answered, on whatever thread that is.
  const GrpcReply reply = [self = weak_from_this(), loop = core_.loop, id,
                           request = call.request](Result<std::string> answer) {
    loop->post([self, id, answer = std::make_shared<Result<std::string>>(std::move(answer))] {
      if (const auto alive = self.lock()) alive->answered(id, std::move(*answer));
    });
  };
  const Status accepted =
      core_.pool->submit([request = call.request, gone = call.gone, message, method = call.method,
                          reply, coding = call.coding, &core = core_] {
        if (gone->load()) return reply(Error(Code::kCancelled, "the caller has left"));
        const Result<std::string> plain =
            unpack(std::move(*message), coding, core.options.message_bytes_max);
        if (!plain.ok()) return reply(plain.error());
        try {
          answer_message(method->method, core.gate, *request, *plain, reply);
        } catch (const std::exception& fault) {
          log::error("handler threw", {{"what", fault.what()}});
          reply(Error(Code::kInternal, "the handler failed; the server's log says why"));
        }
      });
  if (!accepted.ok()) {
    call.running = false;
    fail(id, call, Error(Code::kUnavailable, "the server is busy: try again"));
  }
}

void H2Connection::answered(std::int32_t id, Result<std::string> answer) {
  if (closed_) return;
  Call* const call = find(id);
  if (call == nullptr) return;
  call->running = false;
  if (call->end.has_value()) return;
  if (answer.ok() && answer->size() > std::numeric_limits<std::uint32_t>::max()) {
    answer = Error(Code::kResourceExhausted, "the answer is over 4 GiB: ask for less at once");
  }
  if (!answer.ok()) {
    fail(id, *call, answer.error());
    return pump();
  }
  if (call->request->caller != nullptr) {
    call->caller = Turn::Caller::kLetThrough;
    call->request->caller->sent(answer->size());
  }
  drop_sent(call->out, call->out_at);
  append_message(call->out, *answer);
  if (call->write_deadline == 0) {
    call->write_deadline = monotonic_nanos() + core_.options.message_timeout.nanos;
  }
  begin_answer(id, *call);
  if (call->method->method.kind == GrpcMethod::Kind::kUnary) {
    end_call(id, *call, {});
  } else {
    read_messages(id, *call);
  }
  pump();
}

// ---- A call's answer ---------------------------------------------------------------------------

void H2Connection::fail(std::int32_t id, Call& call, const Error& error) {
  end_call(id, call, {grpc_status(error.code), error.message});
}

void H2Connection::tell_answered(const Call& call, int status) const {
  if (!core_.options.on_answered) return;
  Request unseen;  // While the pool has the request, nobody else looks at it.
  unseen.method = Method::kPost;
  unseen.request_id = call.id;
  const std::string_view route =
      call.method == nullptr ? "unmatched" : std::string_view(call.method->method.declared.path);
  Answered answered{call.running ? unseen : *call.request, route, status};
  answered.nanos = monotonic_nanos() - call.begun;
  core_.options.on_answered(answered);
}

void H2Connection::end_call(std::int32_t id, Call& call, GrpcEnd end) {
  if (call.end.has_value()) return;
  GrpcSeries& series = call.method == nullptr ? core_.unknown : *call.method->series;
  series.done(end.status, monotonic_nanos() - call.begun);
  tell_answered(call, end.status);
  call.end = std::move(end);
  call.deadline = 0;
  call.messages.clear();
  call.reader = MessageReader(core_.options.message_bytes_max);
  recount(id, call);
  call.unconsumed = 0;
  if (call.answering) {
    nghttp2_session_resume_data(session_, id);
    return;
  }
  // Nothing was sent: the head is the end as well.
  call.answering = true;
  submit_end(id, call, Trailers::kOnly);
}

void H2Connection::begin_answer(std::int32_t id, Call& call) {
  if (std::exchange(call.answering, true)) {
    nghttp2_session_resume_data(session_, id);
    return;
  }
  const std::array<nghttp2_nv, 4> head{
      header(":status", "200"), header("content-type", "application/grpc"),
      header("grpc-accept-encoding", "identity,deflate,gzip"), header("x-request-id", call.id)};
  nghttp2_data_provider provider{};
  provider.read_callback = Callbacks::read_answer;
  nghttp2_submit_response(session_, id, head.data(), head.size(), &provider);
}

void H2Connection::submit_end(std::int32_t id, const Call& call, Trailers trailers) {
  const std::string status = std::to_string(call.end->status);
  const std::string text = percent_encode(call.end->text);
  const bool alone = trailers == Trailers::kOnly;
  std::vector<nghttp2_nv> fields;
  if (alone) {
    fields.push_back(header(":status", "200"));
    fields.push_back(header("content-type", "application/grpc"));
    fields.push_back(header("x-request-id", call.id));
  }
  fields.push_back(header("grpc-status", status));
  if (!text.empty()) fields.push_back(header("grpc-message", text));
  // A client that retries at once what was refused for load would only add to it.
  if (call.end->status == grpc_status(Code::kUnavailable)) {
    fields.push_back(header("grpc-retry-pushback-ms", "-1"));
  }
  if (alone) {
    nghttp2_submit_response(session_, id, fields.data(), fields.size(), nullptr);
  } else {
    nghttp2_submit_trailer(session_, id, fields.data(), fields.size());
  }
}

std::int64_t H2Connection::read_answer(std::int32_t id, std::uint8_t* into, std::size_t size,
                                       std::uint32_t* flags) {
  Call* const call = find(id);
  if (call == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const std::size_t left = call->out.size() - call->out_at;
  if (left == 0 && !call->end.has_value()) return NGHTTP2_ERR_DEFERRED;
  const std::size_t count = std::min(left, size);
  std::memcpy(into, call->out.data() + call->out_at, count);
  call->out_at += count;
  if (call->held && left - count <= kOutputMax) {
    call->held = false;
    go_on_later(id);
  }
  const bool all = call->out_at == call->out.size();
  call->write_deadline = all ? 0 : monotonic_nanos() + core_.options.message_timeout.nanos;
  if (!all) return static_cast<std::int64_t>(count);
  if (call->end.has_value()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    submit_end(id, *call, Trailers::kAfterMessages);
  } else {
    std::string().swap(call->out);
    call->out_at = 0;
  }
  return static_cast<std::int64_t>(count);
}

// After nghttp2's call: what goes on may end the call, and submits frames.
void H2Connection::go_on_later(std::int32_t id) {
  core_.loop->post([self = weak_from_this(), id] {
    const auto alive = self.lock();
    if (alive == nullptr || alive->closed_) return;
    Call* const call = alive->find(id);
    if (call == nullptr || call->end.has_value()) return;
    alive->read_messages(id, *call);
    alive->pump();
  });
}

// All was said; a client that is still sending may stop.
void H2Connection::sent_end(std::int32_t id) {
  const Call* const call = find(id);
  if (call != nullptr && !call->ended_by_client) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
  }
}

void H2Connection::closed(std::int32_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  Call& call = *found->second;
  call.gone->store(true);
  call.gone->notify_all();
  count(call, 0);
  if (!call.end.has_value()) {
    GrpcSeries& series = call.method == nullptr ? core_.unknown : *call.method->series;
    series.done(grpc_status(Code::kCancelled), monotonic_nanos() - call.begun);
  }
  calls_.erase(found);
  if (calls_.empty()) deadline_ = monotonic_nanos() + core_.options.idle_timeout.nanos;
}

}  // namespace falaj::net
