// The way in: from received bytes to a handler. The way out is in connection.cc.
#include <sys/socket.h>

#include <utility>

#include "base/time.h"
#include "base/units.h"
#include "net/http/connection.h"
#include "net/internal/address.h"
#include "net/path.h"
#include "net/text.h"
#include "telemetry/trace.h"

namespace falaj::net {
namespace {

constexpr std::uint64_t kUngatedBodyMax = 64 << 10;  // A larger body is read only if welcome.
constexpr std::size_t kStoredPartBytes = 1 << 20;    // What goes to an upload file at a time.
constexpr std::size_t kKeptBodyCapacity = 64 << 10;

void clear(Request& request) {
  request.method = Method::kGet;
  request.path.clear();
  request.query.clear();
  request.headers.clear();
  if (request.body.capacity() > kKeptBodyCapacity) {
    std::string().swap(request.body);
  } else {
    request.body.clear();
  }
  request.body_file.reset();
  request.params.clear();
  request.request_id.clear();
  request.traceparent.clear();
  request.deadline = Timestamp::max();
  request.gone.reset();
}

Status take_deadline(Request& request) {
  const std::string_view asked = find_header(request.headers, "X-Falaj-Timeout");
  if (asked.empty()) return {};
  const Result<Duration> limit = parse_duration(asked);
  if (!limit.ok() || *limit <= Duration{} || *limit > Duration::hours(24)) {
    return Error(ErrorId::kOutOfRange, "X-Falaj-Timeout: give a duration such as 30s, at most 24h");
  }
  request.deadline = SystemClock().now() + *limit;
  return {};
}

// Runs on the pool.
Status take_part(const ServerOptions& options, std::string_view part, ParseState state,
                 Upload& upload) {
  if (upload.spool == nullptr) upload.spool = FALAJ_TRY(options.make_spool());
  FALAJ_TRY(upload.spool->append(part));
  if (state == ParseState::kDone) upload.content = FALAJ_TRY(upload.spool->finish());
  return {};
}

}  // namespace

// Returns how many bytes were used; the rest waits for more, or for the handler.
std::size_t Connection::consume(std::string_view bytes) {
  std::size_t used = 0;
  while (true) {
    const std::string_view rest = bytes.substr(used);
    switch (state_) {
      case State::kIdle:
        if (rest.empty() || output_full() || requests_left_ == 0) return used;
        --requests_left_;
        begin_request();
        break;
      case State::kHead:
        used += consume_head(rest);
        if (state_ == State::kHead) return used;
        break;
      case State::kBody:
        used += consume_body(rest);
        if (state_ == State::kBody) return used;
        break;
      default:
        return used;
    }
  }
}

void Connection::begin_request() {
  clear(request_);
  request_.peer = peer_;
  request_.tls_peer = tls_peer_.name;
  parser_.begin(request_);
  route_ = nullptr;
  authority_ = {};
  gate_passed_ = false;
  body_follows_ = false;
  is_foreign_ = false;
  keep_alive_ = true;
  started_ = 0;
  rests_ = false;
  deadline_ = 0;
  state_ = State::kHead;
}

std::size_t Connection::consume_head(std::string_view bytes) {
  const ParseStep step = parser_.put_head(bytes);
  switch (step.state) {
    case ParseState::kNeedMore:
      starved_ = true;
      break;
    case ParseState::kHeadDone:
    case ParseState::kDone:
      on_head(step.state);
      break;
    default:
      refuse_parse(step.state);
  }
  return step.consumed;
}

std::size_t Connection::consume_body(std::string_view bytes) {
  const ParseStep step =
      parser_.put_body(bytes, static_cast<std::uint64_t>(route_->body_bytes_max));
  switch (step.state) {
    case ParseState::kNeedMore:
    case ParseState::kDone:
      if (route_->body_to == BodyTo::kFile) {
        if (step.state == ParseState::kDone || request_.body.size() >= kStoredPartBytes) {
          store_body(step.state);
          break;
        }
      } else if (step.state == ParseState::kDone) {
        body_follows_ = false;
        dispatch();
        break;
      }
      starved_ = true;
      break;
    default:
      refuse_parse(step.state);
  }
  return step.consumed;
}

void Connection::refuse_parse(ParseState state) {
  const std::string head_max = std::to_string(core_.options.header_bytes_max);
  if (state == ParseState::kHeadTooLarge) {
    return refuse({431,
                   Error(Code::kInvalidArgument,
                         "the request's head is over " + head_max + " bytes: send less"),
                   Refusal::kHeadSize});
  }
  if (state == ParseState::kBodyTooLarge) {
    return refuse({413,
                   Error(ErrorId::kBodyTooLarge, "the body of " + request_.path + " is over " +
                                                     std::to_string(route_->body_bytes_max) +
                                                     " bytes: send it in parts"),
                   Refusal::kBodySize});
  }
  refuse({400, Error(Code::kInvalidArgument, "this is not a well-formed HTTP/1.1 request"),
          Refusal::kMalformed});
}

void Connection::on_head(ParseState state) {
  started_ = request_.begun = monotonic_nanos();
  const RequestHead& head = parser_.head();
  keep_alive_ = head.keep_alive && head.version == 11;
  body_follows_ = state == ParseState::kHeadDone;
  take_over_ids();
  if (!check_peer() || !check_head() || !find_route()) return;
  if (body_follows_ && gate_comes_first()) return run_gate_first();
  expect_body();
}

// False: answered. A connection may be older than the certificate that it was made with.
bool Connection::check_peer() {
  if (tls_peer_.name.empty() || SystemClock().now() <= tls_peer_.not_after) return true;
  const Error expired(ErrorId::kPeerRefused, "the certificate of " + tls_peer_.name +
                                                 " has expired: connect with a new one");
  refuse({http_status(expired), expired, Refusal::kHandshake});
  return false;
}

void Connection::take_over_ids() {
  if (!request_.request_id.empty()) return;
  const std::string_view id = find_header(request_.headers, "X-Request-Id");
  if (telemetry::check_request_id(id) == telemetry::RequestIdCheck::kTakenOver) {
    request_.request_id = id;
  } else {
    loop_.ids.new_request_id(request_.request_id);
  }
  const std::string_view parent = find_header(request_.headers, "traceparent");
  if (telemetry::parse_traceparent(parent)) {
    request_.traceparent = parent;
  } else {
    loop_.ids.new_traceparent(request_.traceparent);
  }
}

Status Connection::check_target() {
  RequestTarget target = FALAJ_TRY(parse_target(parser_.head().target));
  request_.path = std::move(target.path);
  request_.query = target.query;
  authority_ = target.authority.empty() ? find_header(request_.headers, "Host") : target.authority;
  return {};
}

bool Connection::host_allowed(std::string_view authority) {
  // A client keeps to one name: it was looked at with its first request.
  if (authority == allowed_authority_) return true;
  if (!is_host_of_ours(authority)) return false;
  allowed_authority_ = authority;
  return true;
}

bool Connection::is_host_of_ours(std::string_view authority) const {
  if (core_.hosts.allows_host(authority)) return true;
  // The address that the client reached is no name that a foreign DNS server could have given.
  const std::string_view host = host_without_port(authority);
  return !host.empty() && host == local_address(watch_->descriptor());
}

// False: answered.
bool Connection::check_head() {
  const RequestHead& head = parser_.head();
  const auto malformed = [this](int status, Code code, std::string text) {
    refuse({status, Error(code, std::move(text)), Refusal::kMalformed});
    return false;
  };
  if (!head.method_known) {
    return malformed(501, Code::kUnimplemented, "the request's method is not known here");
  }
  const Status target = check_target();
  if (!target.ok()) return malformed(400, target.error().code, target.error().message);
  if (head.host_headers > 1 || (head.host_headers == 0 && head.version == 11)) {
    return malformed(400, Code::kInvalidArgument, "the request needs exactly one Host header");
  }
  if (head.expects_other) {
    return malformed(417, Code::kInvalidArgument, "only Expect: 100-continue is known here");
  }
  if (head.version == 11 && authority_.empty()) {
    return malformed(400, Code::kInvalidArgument, "the Host header is empty");
  }
  if (!authority_.empty() && !host_allowed(authority_)) {
    refuse({http_status(Error(ErrorId::kHostRefused, "")),
            Error(ErrorId::kHostRefused, "the Host header names '" + std::string(authority_) +
                                             "', which this server does not answer for"),
            Refusal::kHost});
    return false;
  }
  const std::string_view origin = find_header(request_.headers, "Origin");
  if (origin.empty() || core_.hosts.allows_origin(origin, authority_)) return true;
  is_foreign_ = core_.cors.lets_in(origin);
  if (!is_foreign_) refuse_origin(origin);
  // Who is signed in here is nobody there; a browser shows its certificate for any page.
  request_.tls_peer.clear();
  for (auto& [name, value] : request_.headers) {
    if (equal_ignoring_case(name, "Cookie")) value.clear();
  }
  return is_foreign_;
}

void Connection::refuse_origin(std::string_view origin) {
  refuse({403,
          Error(ErrorId::kHostRefused,
                "the page at '" + std::string(origin) + "' may not send requests to this server"),
          Refusal::kOrigin});
}

// A browser asks whether the page may send what it wants to. Always answers.
bool Connection::answer_preflight() {
  Request wanted;
  wanted.path = request_.path;
  const std::string_view method = find_header(request_.headers, "Access-Control-Request-Method");
  for (const Method each : {Method::kGet, Method::kPost}) {
    if (method != method_name(each)) continue;
    wanted.method = each;
    const Match match = core_.router.match(wanted);
    if (match.route == nullptr || !CorsPolicy::is_open(*match.route)) break;
    reply(request_, CorsPolicy::preflight(*match.route), After::kAsAsked);
    return false;
  }
  refuse_origin(find_header(request_.headers, "Origin"));
  return false;
}

// False: answered.
bool Connection::find_route() {
  if (is_foreign_ && request_.method == Method::kOptions) return answer_preflight();
  const Match match = core_.router.match(request_);
  if (match.route == nullptr) {
    const bool inference = dialect() == "inference";
    if (!match.path_known) {
      const std::string text = inference ? "Not Found" : "there is no route " + request_.path;
      fail(404, Error(Code::kNotFound, text), After::kAsAsked);
      return false;
    }
    const Error error(Code::kInvalidArgument,
                      inference ? "Method Not Allowed"
                                : std::string(method_name(request_.method)) + " " + request_.path +
                                      " is not declared: use " + match.allow);
    Response response = error_reply(dialect(), error, 405, request_);
    response.headers.emplace_back("Allow", match.allow);
    reply(request_, std::move(response), After::kAsAsked);
    return false;
  }
  if (is_foreign_ && !CorsPolicy::is_open(*match.route)) {
    refuse_origin(find_header(request_.headers, "Origin"));
    return false;
  }
  route_ = match.route;
  if (const Status taken = take_deadline(request_); !taken.ok()) {
    fail(400, taken.error(), After::kClose);
    return false;
  }
  const auto& length = parser_.head().content_length;
  if (length && *length > static_cast<std::uint64_t>(route_->body_bytes_max)) {
    refuse_parse(ParseState::kBodyTooLarge);
    return false;
  }
  return true;
}

// A large body is not read before its sender may send it.
bool Connection::gate_comes_first() const {
  const RequestHead& head = parser_.head();
  return route_->body_to == BodyTo::kFile || head.chunked || head.expects_continue ||
         head.content_length.value_or(0) > kUngatedBodyMax;
}

RunsOn Connection::runs_on() const {
  const auto& gate_blocks = core_.options.gate_blocks;
  if (route_->runs_on == RunsOn::kPool || !gate_blocks) return route_->runs_on;
  return gate_blocks(request_) ? RunsOn::kPool : RunsOn::kLoop;
}

void Connection::run_gate_first() {
  gate_passed_ = true;
  const auto refused = [this](const Error& error) {
    fail(http_status(error), error, After::kClose);
  };
  if (runs_on() == RunsOn::kLoop) {
    const Status passed = run_gate(core_, *route_, request_);
    return passed.ok() ? expect_body() : refused(passed.error());
  }
  state_ = State::kGate;
  deadline_ = 0;
  auto held = std::make_shared<std::pair<Request, Status>>(std::move(request_), Status());
  const auto back = [self = weak_from_this(), held, refused] {
    const auto alive = self.lock();
    if (alive == nullptr || alive->state_ != State::kGate) return;
    alive->request_ = std::move(held->first);
    held->second.ok() ? alive->expect_body() : refused(held->second.error());
    alive->pump();
  };
  const Status accepted =
      core_.pool->submit([&core = core_, route = route_, loop = loop_.loop, held, back] {
        held->second = run_gate(core, *route, held->first);
        loop->post(back);
      });
  if (accepted.ok()) return;
  request_ = std::move(held->first);
  refuse({503, Error(Code::kUnavailable, "the server is busy: try again"), Refusal::kPoolFull});
}

void Connection::expect_body() {
  if (!body_follows_) return dispatch();
  if (parser_.head().expects_continue) out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  if (route_->body_to == BodyTo::kMemory) {
    request_.body.reserve(parser_.head().content_length.value_or(0));
  }
  state_ = State::kBody;
  deadline_ = monotonic_nanos() + core_.options.body_timeout.nanos;
}

// Hands what has come to the pool; nothing is read until it is in the file.
void Connection::store_body(ParseState state) {
  state_ = State::kStoring;
  upload_state_ = state;
  auto part = std::make_shared<std::string>(std::move(request_.body));
  request_.body.clear();
  const Status accepted =
      core_.pool->submit([self = weak_from_this(), loop = loop_.loop, &core = core_,
                          upload = upload_, part, state]() mutable {
        if (upload == nullptr) upload = std::make_shared<Upload>();
        const Status status = take_part(core.options, *part, state, *upload);
        loop->post([self, upload, status] {
          const auto alive = self.lock();
          if (alive == nullptr || alive->state_ != State::kStoring) return;
          alive->upload_ = upload;
          alive->stored(status);
          alive->pump();
        });
      });
  if (accepted.ok()) return;
  refuse({503, Error(Code::kUnavailable, "the server is busy: try again"), Refusal::kPoolFull});
}

void Connection::stored(const Status& status) {
  if (!status.ok()) {
    linger_ = true;
    return fail(http_status(status.error()), status.error(), After::kClose);
  }
  starved_ = false;
  if (upload_state_ == ParseState::kDone) {
    body_follows_ = false;
    request_.body_file = std::move(upload_->content);
    return dispatch();
  }
  state_ = State::kBody;
}

void Connection::dispatch() {
  if (route_->body_to == BodyTo::kFile && upload_ == nullptr) return store_body(ParseState::kDone);
  // Also when the gate has passed: what it would have waited for, such as a model that is idle,
  // the handler may wait for as well.
  runs_on() == RunsOn::kLoop ? dispatch_on_loop() : dispatch_on_pool();
}

void Connection::dispatch_on_loop() {
  if (!gate_passed_) {
    const Status passed = run_gate(core_, *route_, request_);
    if (!passed.ok()) {
      return fail(http_status(passed.error()), passed.error(), After::kAsAsked);
    }
  }
  if (route_->handler == nullptr) {
    return reply(request_, run_handler(*route_, request_), After::kAsAsked);
  }
  state_ = State::kRunning;
  deadline_ = 0;
  Exchange::run(
      std::make_shared<Exchange>(loop_.loop, weak_from_this(), std::move(request_), *route_), core_,
      Exchange::GateState::kPassed);
}

void Connection::dispatch_on_pool() {
  state_ = State::kRunning;
  deadline_ = 0;
  if (route_->handler != nullptr) {
    // It may wait for its turn: whether anyone still waits for the answer is worth knowing.
    gone_ = std::make_shared<std::atomic<bool>>(false);
    request_.gone = gone_;
    watch_->wait_readable();
  }
  const auto gate = gate_passed_ ? Exchange::GateState::kPassed : Exchange::GateState::kOpen;
  auto exchange =
      std::make_shared<Exchange>(loop_.loop, weak_from_this(), std::move(request_), *route_);
  const Status accepted =
      core_.pool->submit([exchange, &core = core_, gate] { Exchange::run(exchange, core, gate); });
  if (accepted.ok()) return;
  core_.series.refused(Refusal::kPoolFull);
  Response busy =
      error_reply(route_->dialect, Error(Code::kUnavailable, "the server is busy: try again"), 503,
                  exchange->request());
  busy.headers.emplace_back("Retry-After", "1");
  exchange->answer(std::move(busy));
}

}  // namespace falaj::net
